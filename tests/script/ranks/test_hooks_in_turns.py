"""Hooks that take turns in a script's training, in live ranks."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.launch.faults import RankFailure
from fixtures.launch.script import TAKE_TURNS, ScriptResult
from fixtures.session.script_tests import block_s_of
from fixtures.stats.difference import LEAST_ROUNDS
from tests.script.conftest import PLAIN, SCRIPTS, STEP, Run

TURNS = {"check_gradients": True, "turns_s": 0.3}


def rounds_of(results: list[ScriptResult]) -> set[int]:
    """The number of rounds of each hook, the same on all ranks."""
    assert all(result.block_s.keys() == set(TAKE_TURNS) for result in results)
    return {len(times) for result in results for times in result.block_s.values()}


@pytest.mark.parametrize("name", ["plain.py", "accumulation.py"])
def test_after_the_steps_as_written_hooks_take_turns(run: Run, name: str) -> None:
    results = run(SCRIPTS / name, **TURNS)
    (rounds,) = rounds_of(results)
    assert rounds >= LEAST_ROUNDS
    assert all(step_s > 0 for result in results for times in result.block_s.values() for step_s in times)
    assert results[0].gradient_lossless  # it was compared before
    assert results[0].wrong is None


# An all-reduce of the script's group, or the broadcast of buffers in a forward pass, takes 20 ms longer.
SLOW_SUM = f"""
import time
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
original = dist.all_reduce
def slow(*given, **named):
    time.sleep(0.02)
    return original(*given, **named)
dist.all_reduce = slow
default_hooks.dist.all_reduce = slow
{PLAIN}"""
SLOW_BROADCAST = """
import time
original = DDP._sync_buffers
def slow(self):
    if self.will_sync_module_buffers():
        time.sleep(0.02)
    return original(self)
DDP._sync_buffers = slow
m = DDP(Net(norm=True))
o = torch.optim.SGD(m.parameters(), lr=0.01)
"""


@pytest.mark.parametrize("slow", [SLOW_SUM, SLOW_BROADCAST], ids=["all-reduce", "buffers"])
def test_what_communication_costs_is_seen_and_without_it_no_buffers_are_broadcast(
    run: Run, script: Callable[..., Path], slow: str
) -> None:
    found = block_s_of(run(script(before=slow), **TURNS))
    assert min(*found["allreduce"], *found["bf16"]) > 0.02
    assert min(found["no_comm"]) < 0.02


def test_in_a_world_of_one_gradients_are_compared(run: Run) -> None:
    (only,) = run(SCRIPTS / "plain.py", "as_written", "1cpu", check_gradients=True)
    assert only.gradient_lossless
    assert only.remarks == []


def test_a_script_with_a_hook_of_its_own_keeps_it(run: Run, script: Callable[..., Path]) -> None:
    results = run(script(before=PLAIN + "m.register_comm_hook(None, bf16_compress_hook)\n"), **TURNS)
    assert results[0].block_s == {}
    assert block_s_of(results) == {}


@pytest.mark.parametrize("end", ["", "if i == 19: __import__('os')._exit(0)\n"])
def test_of_a_script_that_ends_in_its_turns_the_whole_rounds_count(
    run: Run, script: Callable[..., Path], end: str
) -> None:
    """Not one round ends in so few steps; what was measured before them stays."""
    results = run(script(step=STEP + end, steps=20), check_gradients=True, turns_s=60.0)
    assert all(len(result.step_s) > 0 for result in results)
    assert block_s_of(results) == {}


def test_a_script_that_finds_its_ranks_apart_loses_only_its_turns(run: Run, script: Callable[..., Path]) -> None:
    apart = """
sums = [torch.zeros(1) for _ in range(2)]
dist.all_gather(sums, next(m.parameters()).detach().sum().reshape(1))
assert torch.equal(*sums), "the ranks are apart"
"""
    results = run(script(step=STEP + apart, steps=400), **TURNS)
    assert results[0].gradient_lossless
    assert "ranks send nothing and drift apart: AssertionError: the ranks are apart" in " ".join(results[0].remarks)


def test_hooks_that_are_not_called_in_their_turns_have_no_rows(run: Run, script: Callable[..., Path]) -> None:
    """As in the replays of a CUDA graph, which keep the hook of the capture."""
    without_ddp = f"""
if i < 3:
    {STEP.replace(chr(10), chr(10) + "    ")}
else:
    with torch.profiler.record_function("ddp-perf step"):
        dist.all_reduce(torch.zeros(1000))
"""
    assert [result.block_s for result in run(script(step=without_ddp, steps=4000), **TURNS)] == [{}, {}]


@pytest.mark.parametrize(
    ("stage", "lossless", "when"),
    [({"watch_s": 60.0}, None, "after its measured steps, so"), ({"turns_s": 60.0}, True, "in the turns")],
    ids=["host", "turns"],
)
def test_one_rank_that_raises_after_the_window_does_not_let_the_others_wait(
    run: Run, script: Callable[..., Path], stage: dict[str, float], lossless: bool | None, when: str
) -> None:
    """As one that runs out of memory: the other one waits for it in a collective."""
    alone = """
if i == 60 and dist.get_rank() == 1:
    raise MemoryError("out of memory")
"""
    began = time.monotonic()
    results = run(script(step=alone + STEP, steps=4000), check_gradients=True, **stage)
    assert time.monotonic() - began < 60
    assert all(result.gradient_lossless is lossless and result.step_s for result in results)
    assert block_s_of(results) == {} or all(len(times) >= LEAST_ROUNDS for times in block_s_of(results).values())
    said = [" ".join(result.remarks) for result in results]
    assert f"train.py raised on rank 1 {when}" in said[0]
    assert f"train.py raised {when}" in said[1]
    assert all("MemoryError: out of memory" in of_rank and "script ended" not in of_rank for of_rank in said)


def test_of_a_hang_in_the_turns_the_rank_that_hangs_is_named_with_its_own_line_alone(
    run: Run, script: Callable[..., Path]
) -> None:
    alone = """
if i == 60 and dist.get_rank() == 1:
    __import__("time").sleep(60)
"""
    with pytest.raises(RankFailure, match=r"^as_written: rank 1 has made no progress .*\n.*\n.*train\.py.*\n[^ ]"):
        run(script(step=alone + STEP, steps=4000), check_gradients=True, turns_s=60.0, rank_timeout_s=5)
