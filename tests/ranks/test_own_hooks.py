"""A user's own hook: a broken rule is reported by name; a kept promise gets all gradient tests and a table row."""

import re
from contextlib import closing
from typing import Any

import pytest

from fixtures.gradients.checks import ddp_options, error_feedback, scenarios, wire
from fixtures.gradients.replay import Check, path, violations
from fixtures.launch.faults import RankFailure
from fixtures.launch.protocol import TrainRequest, to_json
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import World

WORLD, ONE = World(backend="gloo", size=2), World(backend="gloo", size=1)
HERE = "tests.hooks_for_tests"
CHECK = {"option": "bucket_1kb", "shapes": [[8, 4], [300]], "kinds": ["normal"], "seed": 0}


def ask(sets: RankSets, check: Check, world: World = WORLD, /, **arguments: object) -> list[Any]:
    (ranks,) = sets.of(INTERCONNECTS["native"])
    return ranks.run(world, path(check), arguments, doing=str(arguments["hook"]))


# Any: JSON.
def raised(sets: RankSets, function: str, arguments: dict[str, Any]) -> str:
    """What a rank alone raises."""
    (ranks,) = sets.of(INTERCONNECTS["native"])
    asked = {"function": function, "arguments": arguments}
    (answer,) = ranks.run(ONE, "tests.ranks.rank_errors:tried", asked, doing=function)
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
        ("no_pair", r"hook own_no_pair: its build returns a function, not the pair \(state, hook\)"),
    ],
)
def test_a_hook_that_breaks_a_rule_is_reported_by_name(two_ranks: RankSets, name: str, says: str) -> None:
    assert re.search(says, raised(two_ranks, path(ddp_options.check), {"hook": f"{HERE}:{name}", **CHECK}))


def test_another_dtype_is_reported_for_16_bit_gradients_too(two_ranks: RankSets) -> None:
    arguments = {"hook": f"{HERE}:float32_for_16_bits", "scenario": "other_dtypes", "option": "default"}
    error = raised(two_ranks, path(scenarios.check), {**arguments, "kinds": ["normal"], "seed": 0})
    assert "it returns torch.float32, the bucket holds torch.bfloat16" in error


def test_what_a_hook_raises_fails_its_ranks() -> None:
    sets = RankSets(launches=1, size=1, on_gpu=False, rank_timeout_s=60)
    with closing(sets), pytest.raises(RankFailure, match=r"raised .*hook raises, bucket 0 .* ArithmeticError"):
        ask(sets, ddp_options.check, ONE, hook=f"{HERE}:raises", **CHECK)


def test_a_hook_that_differs_by_rank_is_reported(two_ranks: RankSets) -> None:
    found = violations(ask(two_ranks, ddp_options.check, hook=f"{HERE}:differs_by_rank", **CHECK))
    says = r"parameter 0 \(float32\), element \d+ is .*, on rank 1 it is .*: ranks differ in 32 of 32 elements"
    assert re.search(says, found[0])


def test_a_bare_function_promises_only_that_ranks_agree(two_ranks: RankSets) -> None:
    assert violations(ask(two_ranks, ddp_options.check, hook=f"{HERE}:averages", **CHECK)) == []


# tests/mutants/promises.py has more that lose something, and sound ones under bucket_1kb.
def fed_back(two_ranks: RankSets, name: str, option: str = "bucket_1kb") -> list[str]:
    return violations(ask(two_ranks, error_feedback.check, hook=f"{HERE}:{name}", option=option))


@pytest.mark.parametrize("name", ["now_and_then_forgets", "remembers_a_bucket"])
def test_error_feedback_that_loses_something_is_caught(two_ranks: RankSets, name: str) -> None:
    errors = fed_back(two_ranks, name)
    assert errors
    assert all("the omitted part does not come later" in line for line in errors)


@pytest.mark.parametrize("option", ["bucket_view_kept", "static_graph"])
def test_error_feedback_that_loses_nothing_is_not(two_ranks: RankSets, option: str) -> None:
    assert fed_back(two_ranks, "remembers", option) == []


def test_error_feedback_that_sends_a_hundredth_in_a_step_loses_nothing(two_ranks: RankSets) -> None:
    assert fed_back(two_ranks, "remembers_long") == []


def test_a_hook_that_claims_to_compress_and_does_not_is_caught(two_ranks: RankSets) -> None:
    found = ask(two_ranks, wire.wire, hook=f"{HERE}:claims_bf16")[0]
    counted, dtype = (line for line in found if line.startswith("1 MB buckets"))
    assert re.fullmatch(r"1 MB buckets: 4\.\d+ MB a step on the wire, 2.097152 MB are promised", counted)
    assert dtype == "1 MB buckets: collectives of float32, of bfloat16 are promised"


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        ("not_divided", "delivers 2.00 x the mean: not divided by the number of ranks? "),
        ("divided_twice", "delivers 0.50 x the mean: divided by the number of ranks twice? "),
        ("one_in_ten_thousand_off", ""),
    ],
)
def test_a_multiple_of_the_mean_is_named_with_its_likely_reason(two_ranks: RankSets, hook: str, reason: str) -> None:
    shapes = {**CHECK, "shapes": [[200, 100]]}
    first, *_ = violations(ask(two_ranks, ddp_options.check, hook=f"{HERE}:{hook}", **shapes))
    assert re.fullmatch(
        rf"(rank \d, )?\w+, step \d: {re.escape(reason)}parameter 0, element \d+ \(float32\) is .*", first
    )


def test_a_lossless_hook_keeps_its_promises(two_ranks: RankSets) -> None:
    for check, arguments in ((ddp_options.check, CHECK), (wire.wire, {})):
        assert violations(ask(two_ranks, check, hook=f"{HERE}:lossless", **arguments)) == []


def test_a_hook_in_training_is_looked_at_before_it_is_measured(two_ranks: RankSets) -> None:
    asked = TrainRequest(workload="vit_tiny", config=f"{HERE}:claims_mean", world=ONE.name, steps=1, warmup=4)
    error = raised(two_ranks, asked.function, to_json(asked))
    assert re.search(r"hook own_short, bucket 0 .*: it returns", error)
