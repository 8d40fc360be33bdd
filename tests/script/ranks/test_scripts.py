"""Scripts of different style, unchanged, and their errors, in real ranks."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from fixtures.launch.faults import RankFailure
from fixtures.launch.protocol import CannotRun
from fixtures.ranks.profiling import FURTHER
from fixtures.ranks.script.running import own_file
from tests.script.conftest import SCRIPTS, STEPS, WARMUP, Run

# A script with a step to fill in.
TRAINING = """
    import os, torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    {before}
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(8, 8){arguments})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range({steps}):
        {inside}
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
"""


def test_of_scripts_of_one_name_each_side_of_a_comparison_runs_the_right_one(tmp_path: Path) -> None:
    for folder in ("here/a", "here/b", "other/a", "other/b"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "train.py").touch()
    for asked in ("a", "b"):
        script = tmp_path / "here" / asked / "train.py"
        for side in ("here", "other"):
            search_path = ["", *(str(tmp_path / side / folder) for folder in ("a", "b"))]
            assert own_file(script, search_path) == tmp_path / side / asked / "train.py"


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes TRAINING with these parts, or another script."""

    def write(text: str = TRAINING, **parts: object) -> Path:
        usual = {"before": "", "arguments": "", "steps": 100, "inside": ""}
        script = tmp_path / "train.py"
        script.write_text(dedent(text).format(**usual | parts))
        return script

    return write


def test_a_plain_script_is_timed_under_its_own_arguments(run: Run) -> None:
    results = run(SCRIPTS / "plain.py", arguments=["--width", "96"])
    assert [len(one.step_s) for one in results] == [STEPS, STEPS]
    assert results[0].found["ddp"] == "DDP(bucket_cap_mb=1)"
    assert results[0].found["model"].startswith("Sequential, 16.5 k parameters, 66.1 kB of gradients")
    parts = [sum(parts) for parts in zip(*results[0].phases_s.values(), strict=True)]
    assert parts == pytest.approx(results[0].step_s)


def test_the_arguments_and_the_hook_of_a_config_win_over_the_scripts(run: Run, written: Callable[..., Path]) -> None:
    script = written(
        before="from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook",
        arguments=", bucket_cap_mb=1, static_graph=True",
        inside="if step == 0: model.register_comm_hook(None, fp16_compress_hook)",
    )
    as_written, default, bf16 = (run(script, config)[0] for config in ("as_written", "ddp_default", "bf16"))
    assert as_written.found["hook"] == "fp16_compress_hook"
    assert as_written.found["ddp"] == "DDP(bucket_cap_mb=1, static_graph=True)"
    assert (default.found["ddp"], default.found["hook"], default.wire_dtype) == ("DDP()", "none", "float32")
    assert bf16.wire_dtype == "bfloat16"
    assert default.sent_bytes_per_step == pytest.approx(2 * (bf16.sent_bytes_per_step or 0), rel=0.6)


@pytest.mark.parametrize(("config", "error"), [("as_written", 0), ("bf16", 2.5e-3), ("no_comm", 0.7)])
def test_what_a_hook_delivers_is_compared_with_the_mean_on_the_scripts_model(
    run: Run, config: str, error: float
) -> None:
    first, _ = run(SCRIPTS / "plain.py", config, check_gradients=True)
    assert first.gradient_error == pytest.approx(error, rel=0.6)
    assert first.gradient_lossless is (config == "as_written")


def test_gradients_that_are_not_finite_are_no_proof_of_a_hook(run: Run, written: Callable[..., Path]) -> None:
    script = written(TRAINING.replace("torch.randn(4, 8)", "torch.full((4, 8), float('nan'))"))
    with pytest.raises(RankFailure, match=r"parameters of train.py are not finite after \d+ steps; so no hook can be"):
        run(script, "bf16", check_gradients=True)


def test_of_a_training_of_fsdp2_that_is_not_finite_nothing_is_compared(run: Run, written: Callable[..., Path]) -> None:
    script = written((SCRIPTS / "with_fsdp2.py").read_text().replace("lr=1e-3", "lr=float('inf')"))
    first, _ = run(script, check_gradients=True)
    (line,) = (line for line in first.remarks if "not finite" in line)
    assert line.endswith(" steps: neither ranks nor clipping are compared")


def test_single_has_no_launcher(run: Run) -> None:
    (alone,) = run(SCRIPTS / "plain.py", "single", "1cpu")
    (launched,) = run(SCRIPTS / "plain.py", "as_written", "1cpu")
    assert (alone.found["ddp"], launched.found["ddp"]) == ("no DDP", "DDP(bucket_cap_mb=1)")
    assert alone.workload_fingerprint == launched.workload_fingerprint


def test_accumulation_is_a_step_with_several_batches_and_a_skipped_update_is_a_step(run: Run) -> None:
    results = run(SCRIPTS / "accumulation.py")
    assert len(results[0].step_s) == STEPS
    assert results[0].workload_fingerprint.batch_size == 4 * 8
    assert "bfloat16" in results[0].workload_fingerprint.activation_dtypes


def test_steps_of_different_numbers_of_batches_are_said(run: Run, written: Callable[..., Path]) -> None:
    first, _ = run(written(inside="if step % 3: model(torch.randn(4, 8)).sum().backward()"))
    assert first.found["batch"].startswith("4 samples of float32[8] in the first step; a step has 1 to 2 batches")
    first, _ = run(written(inside="with torch.no_grad():\n            if step % 3: model(torch.randn(4, 8))"))
    assert first.found["batch"] == "4 samples of float32[8]"


@pytest.mark.parametrize("script", ["plain.py", "accumulation.py"])
def test_the_profile_of_a_script_adds_up(run: Run, script: str) -> None:
    for result in run(SCRIPTS / script, profile=4):
        assert result.breakdown is not None
        assert len(result.breakdown.steps) == 4
        assert {"forward", "backward", "optimizer step"} <= result.breakdown.steps[0].phase_ns.keys()


# The script's own ranges, some with the names of the marks.
RANGES = """
    with record_function("own"), record_function("forward"), record_function(f"Batch {step}"):
        time.sleep(0.001)
    with nvtx.annotate("annotated"):
        time.sleep(0.001)
    nvtx.push_range("pushed")
    torch.cuda.nvtx.range_push("inner")
    time.sleep(0.004)
    torch.cuda.nvtx.range_pop()
    nvtx.pop_range()
    decorated()
"""
BEFORE = """
import time, nvtx
from torch.profiler import record_function
@nvtx.annotate()
def decorated():
    with torch.cuda.nvtx.range("of {}", "decorated"):
        pass
"""


def test_the_profile_has_the_scripts_own_ranges(run: Run, written: Callable[..., Path]) -> None:
    for result in run(written(before=BEFORE, inside=RANGES), profile=True):
        assert result.breakdown is not None
        (own,) = {tuple(sorted(step.range_parts_ns)) for step in result.breakdown.steps}
        phases = {"get batch", "forward", "backward", "optimizer step"}
        assert set(own) - phases == {"own", "annotated", "pushed", "inner", "decorated", "of decorated"}
        for step in result.breakdown.steps:
            assert sum(step.range_parts_ns["pushed"]) >= 4e6
            assert step.range_parts_ns["pushed"][3] >= 4e6  # idle: it sleeps


def test_the_ranges_of_names_after_the_first_hundred_are_one(run: Run, written: Callable[..., Path]) -> None:
    ranges = "for name in range(102):\n        with record_function(f'range {name}'):\n            time.sleep(0.001)"
    for result in run(written(before=BEFORE, inside=ranges), profile=True):
        assert result.breakdown is not None
        for step in result.breakdown.steps:
            assert not step.range_parts_ns.keys() & {"range 100", "range 101"}
            assert "range 99" in step.range_parts_ns
            assert sum(step.range_parts_ns[FURTHER]) >= 2e6


def test_a_range_in_which_a_step_ends_lasts_no_longer_than_the_step(run: Run, written: Callable[..., Path]) -> None:
    updating = TRAINING.replace("optimizer.step()", "with record_function('update'): optimizer.step()")
    for result in run(written(updating, before="from torch.profiler import record_function"), profile=True):
        assert result.breakdown is not None
        for step in result.breakdown.steps:
            parts = step.range_parts_ns
            assert sum(parts["update"]) <= sum(parts["optimizer step"]) + 0.1 * step.length_ns


def test_a_range_that_the_recording_does_not_see_end_lasts_to_the_end_of_its_step(
    run: Run, written: Callable[..., Path]
) -> None:
    begins = f"if step == {STEPS + WARMUP + 3}: torch.cuda.nvtx.range_push('epoch')"
    for result in run(written(inside=begins), profile=4):
        assert result.breakdown is not None
        (step,) = (one for one in result.breakdown.steps if "epoch" in one.range_parts_ns)
        assert 0 < sum(step.range_parts_ns["epoch"]) <= step.length_ns


def test_the_output_of_each_launch_is_kept(run: Run, tmp_path: Path) -> None:
    run(SCRIPTS / "plain.py", log=str(tmp_path / "plain"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"plain-launch1-rank{rank}.log" for rank in (0, 1)]


def test_the_script_sees_what_torchrun_and_python_give_it(
    run: Run, written: Callable[..., Path], tmp_path: Path
) -> None:
    shown = tmp_path / "shown"
    script = written(
        before=f"import sys; open({str(shown)!r}, 'a').write(repr((sys.argv[1:], sys.path[0], __name__, "
        "os.environ['LOCAL_RANK'], os.environ['LOCAL_WORLD_SIZE'], os.environ['OWN'], os.getcwd())) + '\\n')",
    )
    run(script, arguments=["--width", "7"], variables={"OWN": "set"})
    seen = sorted(eval(line) for line in shown.read_text().splitlines())
    same = (["--width", "7"], str(tmp_path), "__main__")
    assert seen == [(*same, rank, "2", "set", str(Path.cwd())) for rank in ("0", "1")]


# Wrong scripts: the parts of TRAINING, and the line of the error.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "ends early": ({"steps": 7}, "train.py ended after 7 steps, 10 are needed (4 to warm up)"),
    "an optimizer that is none of torch.optim": (
        {"inside": "optimizer = lambda: None; optimizer.zero_grad = optimizer.step = lambda: None", "steps": 10**9},
        "train.py trained 1000 batches without an update by an optimizer of torch.optim: let its optimizer be",
    ),
    "own rendezvous": (
        {"before": "os.environ |= {'WORLD_SIZE': '1', 'RANK': '0', 'MASTER_PORT': str(29500 + os.getpid() % 9000)}"},
        "train.py has its own rendezvous: its DDP averages over 1 of the 2 ranks",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_script_that_cannot_be_measured_is_one_line(run: Run, written: Callable[..., Path], what: str) -> None:
    parts, says = REFUSED[what]
    with pytest.raises(RankFailure) as failure:
        run(written(**parts))
    assert str(failure.value).startswith(f"as_written: {says}")
    assert len(str(failure.value).splitlines()) == 1


def test_a_script_that_raises_shows_its_own_line_and_what_it_printed(run: Run, written: Callable[..., Path]) -> None:
    with pytest.raises(RankFailure) as failure:
        run(written(inside="print('step', step, flush=True); assert step < 2, 'no more data'"))
    text = str(failure.value)
    assert "raised AssertionError: no more data" in text
    assert "train.py" in text
    assert "step 2" in text
    assert "runpy" not in text


# How a script ends before its first step, and the line of the failure.
ENDS = {
    "sys.exit()": "train.py ended without a step of a torch.optim optimizer in its own process: mark its steps with "
    'torch.profiler.record_function("ddp-perf step")',
    "sys.exit(3)": "train.py ended before its first step with exit code 3",
    "sys.exit('no data')": "train.py ended before its first step: no data",
    "exec('try: open(0xbad)\\nexcept OSError: sys.exit(3)')": "train.py ended before its first step with exit code 3, "
    "after OSError: [Errno 9] Bad file descriptor",
    "w = torch.ones(2, requires_grad=True); w.sum().backward(); torch.optim.SGD([w]).step(); sys.exit()": "train.py "
    "ended after 1 step without a model: call a torch.nn.Module that has the parameters",
    "os._exit(3)": "train.py ended before its first step with exit code 3",
    "threading.Thread(target=os._exit, args=(0,)).start(); time.sleep(9)": "rank 0 exited with code 0 at starting the "
    "script",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_script_that_ends_shows_what_it_printed(run: Run, written: Callable[..., Path], end: str) -> None:
    with pytest.raises(RankFailure) as failure:
        run(written(before=f"import os, sys, threading, time; print('needs 2 GPUs'); {end}"))
    first, *more = str(failure.value).splitlines()
    assert first == f"as_written: {ENDS[end]}"
    assert more[:2] == ["--- last output of rank 0", "needs 2 GPUs"]
    assert "Traceback" not in more


def test_a_missing_file_of_the_scripts_folder_names_the_command_that_runs_it_there(
    run: Run, written: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.bin").touch()
    script = written(before="open('data/train.bin')")
    with pytest.raises(RankFailure, match="raised FileNotFoundError") as failure:
        run(script, arguments=["--width", "8"])
    there = f"data/train.bin is in {tmp_path}: cd {tmp_path} && pytest {Path.cwd()}/perf --script 'train.py --width 8'"
    assert f"train.py ran in {Path.cwd()}; {there}" in str(failure.value)


def test_an_error_is_said_once(run: Run, written: Callable[..., Path]) -> None:
    """Each rank names itself in torch's message."""
    unused = "if step == 0: model.module.unused = nn.Linear(8, 8); model = DistributedDataParallel(model.module)"
    with pytest.raises(RankFailure) as failure:
        run(written(inside=unused))
    assert str(failure.value).count("Expected to have finished reduction") == 1
    assert "also rank 1, in the same way" in str(failure.value)


@pytest.mark.parametrize(
    ("parts", "timeout_s", "says"),
    [
        ({"text": "model = ("}, 60, r"raised SyntaxError: '\(' was never closed"),
        (
            {"before": "import time", "inside": "while step == 5 and dist.get_rank() == 1: time.sleep(0.01)"},
            4,
            "rank 1 has made no progress for 4 s at step 5",
        ),
    ],
    ids=["no Python", "hangs"],
)
def test_a_script_that_is_no_python_or_hangs_shows_its_own_line_alone(
    run: Run, written: Callable[..., Path], parts: dict[str, str], timeout_s: float, says: str
) -> None:
    with pytest.raises(RankFailure, match=says) as failure:
        run(written(**parts), rank_timeout_s=timeout_s)
    assert failure.value.faults[0].detail.count('File "') == 1


def test_a_script_that_accumulates_is_measured_without_static_graph(run: Run) -> None:
    for config in ("bf16", "no_comm", "bucket_10mb"):
        first, _ = run(SCRIPTS / "accumulation.py", config, check_gradients=True)
        assert first.left_out == ["static_graph"]
        assert first.remarks == ["static_graph is left out: the script accumulates under no_sync, which excludes it"]


# A script that uses its second layer from the third step on, which static_graph excludes.
CHANGING = """
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)
        def forward(self, x, both):
            return self.two(self.one(x)) if both else self.one(x)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(Net(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range({steps}):
        {inside}
            model(torch.randn(4, 8), both=step > 2).sum().backward()
            optimizer.step()
        {outside}
"""


ZERO = {"inside": "if True:", "outside": "optimizer.zero_grad()"}


@pytest.mark.parametrize(
    ("parts", "config", "says"),
    [
        (ZERO, "bf16", "cannot run bf16: .*graph has changed"),
        (ZERO, "no_find_unused", "cannot run no_find_unused: Expected to have finished reduction"),
        # The script catches the error in each step.
        (
            {"inside": "try:", "outside": "except Exception: continue", "steps": 10**9},
            "bf16",
            "trained 1000 batches without an update .* under bf16 it may catch an error",
        ),
    ],
    ids=["bf16", "no_find_unused", "caught"],
)
def test_a_config_that_the_script_cannot_run_is_skipped_in_torchs_words(
    run: Run, written: Callable[..., Path], parts: dict[str, Any], config: str, says: str
) -> None:
    with pytest.raises(CannotRun, match=says):
        run(written(CHANGING, **parts), config)


def test_a_script_whose_steps_use_different_parameters_is_measured_without_static_graph(
    run: Run, written: Callable[..., Path]
) -> None:
    script = written(CHANGING, **ZERO)
    for config in ("bf16", "no_comm"):
        first, _ = run(script, config, varies=True, check_gradients=True)
        assert first.left_out == ["static_graph"]
        assert "static_graph is left out: the parameters that a step uses vary" in first.remarks


UNUSED = "2 parameters got no gradient in some step: two.weight, two.bias"


@pytest.mark.parametrize(
    ("output", "varies", "why_search"),
    [
        pytest.param("model(x, both=True)", False, None, id="all"),
        pytest.param("model(x, both=False)", False, UNUSED, id="the_same_in_each_step"),
        pytest.param("model(x, both=step > 2)", True, UNUSED, id="in_some_steps"),
        pytest.param("model(x, both=step % 3 or not dist.get_rank())", True, UNUSED, id="on_one_rank_in_some_steps"),
        pytest.param("model(x, both=False) + model(x, both=True)", False, None, id="two_forward_passes"),
    ],
)
def test_the_parameters_for_which_ddp_searches_are_known(
    run: Run, written: Callable[..., Path], output: str, varies: bool, why_search: str | None
) -> None:
    source = CHANGING.replace(
        "model(torch.randn(4, 8), both=step > 2)", f"({output.replace('x', 'torch.randn(4, 8)')})"
    )
    script = written(source, **ZERO)
    assert [(one.varies, one.why_search) for one in run(script)] == [(varies, why_search)] * 2
    if why_search is None:
        first, _ = run(script, "no_find_unused", check_gradients=True)
        assert (first.found["ddp"], first.gradient_lossless) == ("DDP(find_unused_parameters=False)", True)


def test_a_script_that_needs_a_launcher_has_no_single(run: Run, tmp_path: Path) -> None:
    """Also one that handles the error and ends, as under hydra."""
    with pytest.raises(CannotRun, match=r"does not run as python accumulation.py: it reads RANK"):
        run(SCRIPTS / "accumulation.py", "single", "1cpu")
    handles = "import os, sys\ntry: os.environ['LOCAL_RANK']\nexcept Exception: sys.exit(1)"
    (tmp_path / "train.py").write_text(handles)
    with pytest.raises(CannotRun, match=r"does not run as python train.py: it reads LOCAL_RANK, which a launcher sets"):
        run(tmp_path / "train.py", "single", "1cpu")


FINDER = """
    import copy, os, torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    def train(model, optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
    model = nn.Linear(8, 8)
    model(torch.zeros(1, 8))
    if {wrapped} and "RANK" in os.environ:
        dist.init_process_group()
        model = DistributedDataParallel(model)
    trial = model if {wrapped} else copy.deepcopy(model)
    train(trial, torch.optim.SGD(trial.parameters(), lr=0.001), 8)
    if not {wrapped} and "RANK" in os.environ:
        dist.init_process_group()
        model = DistributedDataParallel(model)
    train(model, torch.optim.AdamW(model.parameters()), 200)
"""


# Another model in the search, and three optimizers in the training.
TRIAL = """
    import copy, os, torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    wrap = lambda module: module
    if "RANK" in os.environ:
        dist.init_process_group()
        wrap = DistributedDataParallel
    model = nn.Linear(8, 8)
    def train(model, optimizers, steps):
        for _ in range(steps):
            model(torch.randn(4, 8)).sum().backward()
            for optimizer in optimizers:
                optimizer.step()
    trial = wrap(copy.deepcopy(model))
    train(trial, [torch.optim.SGD(trial.parameters(), lr=0.001)], 8)
    model = wrap(model)
    train(model, [torch.optim.AdamW([parameter]) for parameter in (*model.parameters(), torch.zeros(1))], 200)
"""


@pytest.mark.parametrize(
    ("source", "wrapped", "world", "config"),
    [
        (FINDER, True, "2cpu", "as_written"),
        (FINDER, False, "2cpu", "as_written"),
        (FINDER, False, "1cpu", "single"),
        (TRIAL, False, "2cpu", "as_written"),
        (TRIAL, False, "2cpu", "bf16"),
        (TRIAL, False, "1cpu", "single"),
    ],
)
def test_the_training_is_measured_that_follows_a_search_for_the_learning_rate(
    run: Run, written: Callable[..., Path], source: str, wrapped: bool, world: str, config: str
) -> None:
    """And a model of the search alone is not counted."""
    first, *_ = run(written(source, wrapped=wrapped), config, world)
    assert first.found["optimizer"] == "AdamW"
    assert first.workload_fingerprint.batch_size == 4
    assert min(first.phases_s["forward"]) > 0
    assert len(first.bucket_bytes) == (world == "2cpu")


@pytest.mark.parametrize(
    "compiled", ["model = torch.compile(model, backend='eager')", "model.compile(backend='eager')"]
)
def test_a_compiled_ddp_has_phases_samples_and_compared_gradients(
    run: Run, written: Callable[..., Path], compiled: str
) -> None:
    first, _ = run(written(inside=f"if step == 0: {compiled}"), check_gradients=True)
    assert first.workload_fingerprint.batch_size == 4
    assert min(first.phases_s["forward"]) > 0
    assert first.gradient_lossless


def test_no_framework_can_catch_the_end(run: Run, written: Callable[..., Path]) -> None:
    """A script that catches everything never sees it, and its worker does not outlive the set."""
    catching = ("try:", "    optimizer.step()", "except BaseException: pass")
    loop = TRAINING.replace("optimizer.step()", f"\n{8 * ' '}".join(catching))
    assert len(run(written(loop, steps=10**9))[0].step_s) == STEPS
