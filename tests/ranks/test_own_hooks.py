"""A user's own hook: a broken rule is reported by name; a kept promise gets all gradient tests and a table row."""

import re
from contextlib import closing
from typing import Any

import pytest
import torch

from fixtures.gradients.replay import path, replay, violations
from fixtures.launch.faults import RankFailure
from fixtures.launch.protocol import CannotRun, TrainRequest, to_json
from fixtures.launch.rank_sets import RankSet, RankSets
from fixtures.matrix.worlds import INTERCONNECTS, World
from tests.ranks.asking import called

WORLD, ONE = World(backend="gloo", size=2), World(backend="gloo", size=1)
HERE = "tests.hooks_for_tests"
CHECK = {"option": "bucket_1kb", "shapes": [[8, 4], [300]], "kinds": ["normal"]}


def ask(ranks: RankSet, check: str, world: World = WORLD, /, **arguments: object) -> list[Any]:
    return ranks.run(world, path(check), arguments, doing=str(arguments["hook"]))


# Any: JSON.
def raised(ranks: RankSet, function: str, arguments: dict[str, Any]) -> str:
    """What a rank alone raises."""
    (answer,) = called(ranks, "rank_faults:tried", in_world="1cpu", function=function, arguments=arguments)
    return str(answer["error"])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("raises", r"hook raises, bucket 0 of 332 elements: it raised ArithmeticError: no such luck"),
        ("raises_later", r"hook raises_later, bucket 0 of 332 elements: .*IndexError"),
        ("wrong_shape", r"hook wrong_shape, bucket 0 of 332 elements: it returns 332 elements of shape \(1, 332\)"),
        ("short_view", r"hook short_view, bucket 0 of 332 elements: it returns 331 elements of shape \(331,\)"),
        ("other_dtype", r"hook other_dtype, .*: it returns torch.float64, the bucket holds torch.float32"),
        ("no_future", r"hook own_no_future, .*: it returns a Tensor, not a Future of a tensor"),
        ("names_it_otherwise", r"hook names_it_otherwise: DDP refuses it with KeyError: 'bucket'; it takes a function"),
        ("annotates_it_otherwise", r"hook annotates_it_otherwise: DDP refuses it with ValueError: .*GradBucket"),
        ("partial_function", r"hook own_partial: DDP refuses it with AttributeError: .*__name__"),
        ("no_pair", r"hook own_no_pair: its build returned <function averages .*; it takes the DDP module and returns"),
        ("cannot_build", "HookError: hook own_cannot_build: its build raised ArithmeticError: no memory; it takes the"),
    ],
)
def test_a_hook_that_breaks_a_rule_is_reported_by_name(ranks: RankSet, name: str, says: str) -> None:
    assert re.search(says, raised(ranks, path("hook_steps:check"), {"hook": f"{HERE}:{name}", **CHECK}))


@pytest.mark.parametrize("name", ["on_a_side_stream", "needs_gpu_to_build"])
def test_a_hook_that_calls_cuda_is_not_wrong_on_ranks_without_gpus(ranks: RankSet, name: str) -> None:
    if torch.cuda.is_available():
        pytest.skip("these ranks have GPUs")
    for _ in range(2):  # the ranks go on
        with pytest.raises(CannotRun, match=r"needs a GPU: .*(CUDA|NVIDIA)"):
            ask(ranks, "hook_steps:check", hook=f"{HERE}:{name}", **CHECK)


def test_another_dtype_is_reported_for_16_bit_gradients_too(ranks: RankSet) -> None:
    arguments = {"hook": f"{HERE}:float32_for_16_bits", "scenario": "other_dtypes", "option": "default"}
    error = raised(ranks, path("scenarios:check"), arguments)
    assert "it returns torch.float32, the bucket holds torch.bfloat16" in error


def test_a_hook_that_states_its_limit_is_checked_within_it(ranks: RankSet) -> None:
    hook = {"hook": f"{HERE}:for_float32"}
    with pytest.raises(CannotRun, match=r"own_float32: it takes float32 only"):
        ask(ranks, "hook_steps:check", **hook, **CHECK, dtype="float16")
    assert violations(ask(ranks, "hook_steps:check", **hook, **CHECK)) == []
    every_dtype = {"scenario": "other_dtypes", "option": "default"}
    with pytest.raises(CannotRun):
        ask(ranks, "scenarios:check", **hook, **every_dtype)
    assert violations(ask(ranks, "hook_steps:many", **hook, steps=3)) == []


def test_a_function_of_a_hook_that_returns_nonsense_is_named(ranks: RankSet) -> None:
    error = raised(ranks, path("hook_steps:check"), {"hook": f"{HERE}:reasons_with_a_number", **CHECK})
    assert "hook own_reason: its why_not returned 3; it takes gradients as a list of (shape, bytes per ele" in error
    found = violations(ask(ranks, "wire:wire", hook=f"{HERE}:bytes_of_nothing"))
    assert re.search(r"hook own_bytes: its wire_bytes raised IndexError: .*, and returns the bytes, a number", found[0])


def test_what_a_hook_raises_fails_its_ranks() -> None:
    sets = RankSets(launches=1, size=1, on_gpu=False, rank_timeout_s=60)
    with closing(sets), pytest.raises(RankFailure, match=r"raised .*hook raises, bucket 0 .* ArithmeticError"):
        ask(sets.of(INTERCONNECTS["native"])[0], "hook_steps:check", ONE, hook=f"{HERE}:raises", **CHECK)


def test_a_hook_that_differs_by_rank_is_reported(ranks: RankSet) -> None:
    found = violations(ask(ranks, "hook_steps:check", hook=f"{HERE}:differs_by_rank", **CHECK))
    says = r"parameter 0 \(float32\), element \d+ is .*, on rank 1 it is .*: ranks differ in 32 of 32 elements"
    assert re.search(says, found[0])


# tests/mutants/promises.py has more that lose something, and sound ones under bucket_1kb. What a memory loses shows in
# one rank, in a quarter of the time.
def fed_back(ranks: RankSet, name: str, option: str = "bucket_1kb", world: World = ONE) -> list[str]:
    return violations(ask(ranks, "on_average:error_feedback", world, hook=f"{HERE}:{name}", option=option))


@pytest.mark.parametrize("name", ["now_and_then_forgets", "remembers_a_bucket"])
def test_error_feedback_that_loses_something_is_caught(ranks: RankSet, name: str) -> None:
    errors = fed_back(ranks, name)
    assert errors
    assert all("the omitted part does not come later" in line for line in errors)


@pytest.mark.parametrize(
    ("name", "option", "world"),
    [
        ("remembers", "bucket_view_kept", WORLD),
        ("remembers", "static_graph", ONE),
        ("remembers_long", "bucket_1kb", ONE),
    ],
)
def test_error_feedback_that_loses_nothing_is_not(ranks: RankSet, name: str, option: str, world: World) -> None:
    assert fed_back(ranks, name, option, world) == []


def test_a_hook_that_claims_to_compress_and_does_not_is_caught(ranks: RankSet) -> None:
    found = ask(ranks, "wire:wire", hook=f"{HERE}:claims_bf16")[0]
    counted, dtype = (line for line in found if line.startswith("1024 kB buckets"))
    says = r"1024 kB buckets: 4\.\d+ MB a step on the wire, 2.097152 MB are promised: .* wire_bytes"
    assert re.fullmatch(says, counted)
    assert dtype == "1024 kB buckets: collectives of float32, of bfloat16 are promised"


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        ("not_divided", "delivers 2.00 x the mean: not divided by the number of ranks? "),
        ("divided_twice", "delivers 0.50 x the mean: divided by the number of ranks twice? "),
        ("one_in_ten_thousand_off", ""),
    ],
)
def test_a_multiple_of_the_mean_is_named_with_its_likely_reason(ranks: RankSet, hook: str, reason: str) -> None:
    shapes = {**CHECK, "shapes": [[200, 100]]}
    first, *_ = violations(ask(ranks, "hook_steps:check", hook=f"{HERE}:{hook}", **shapes))
    assert re.fullmatch(
        rf"(rank \d, )?\w+, step \d: {re.escape(reason)}parameter 0, element \d+ \(float32\) is .*", first
    )


def test_a_lossless_hook_keeps_its_promises_and_a_bare_function_promises_only_that_ranks_agree(
    ranks: RankSet,
) -> None:
    for name, check, arguments in (
        ("lossless", "hook_steps:check", CHECK),
        ("lossless", "wire:wire", {}),
        ("averages", "hook_steps:check", CHECK),
    ):
        assert violations(ask(ranks, check, hook=f"{HERE}:{name}", **arguments)) == []


def test_a_hook_in_training_is_looked_at_before_it_is_measured(ranks: RankSet) -> None:
    asked = TrainRequest(workload="vit_tiny", config=f"{HERE}:claims_mean", world=ONE.name, steps=1, warmup=4)
    assert re.search(r"hook own_short, bucket 0 .*: it returns", raised(ranks, asked.function, to_json(asked)))


def test_the_command_that_replays_a_check_says_that_it_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a wrong hook: tests/runs/test_own_hooks.py."""
    arguments = {"hook": "bf16", "scenario": "group_of_all", "option": "default"}
    assert replay("2cpu", "scenarios:check", arguments) == 0
    assert capsys.readouterr().out == "right\n"
