"""Does PowerSGD compute what its paper and torch specify, to rounding?   pytest perf -k powersgd"""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.gradients.cases import LOW_RANK_OPTIONS as OPTIONS
from fixtures.gradients.fixtures import PromiseCheck, unsupported
from fixtures.matrix.hooks import HOOKS

SUITES_OWN = [hook.name for hook in HOOKS.values() if hook.promise == "low_rank"]
RANKS = (1, 2, 4, 8)
# With -k powersgd, as the speed tests of these ranks.
beyond_rank_1 = pytest.mark.on_request("powersgd_rank4")
of_each_rank = pytest.mark.parametrize(
    "rank", [RANKS[0], *(pytest.param(rank, marks=beyond_rank_1) for rank in RANKS[1:])]
)
# Run with one hook, since DDP copies gradients and lays out buckets in the same way for all.
FURTHER_OPTIONS = ("find_unused", "batched_grad_copy", "bucket_cap_mb_list", "lazy_bucket_allocation")
# On GPUs two ranks and all; test_gradients.py covers three, whose division is inexact.
pytestmark = [pytest.mark.two_worlds, pytest.mark.checks_hook("powersgd_rank1"), pytest.mark.unless(reason=unsupported)]
RANK_1 = "powersgd_rank1"


def at_the_boundary(rank: int) -> list[list[int]]:
    """Matrices that compression just halves, which is too little to compress them, and the next larger ones."""
    return [[4 * rank, 4 * rank], [4 * rank, 4 * rank + 1], [6 * rank, 3 * rank], [6 * rank + 1, 3 * rank]]


@pytest.mark.parametrize(("hook", "option"), [*product(SUITES_OWN, OPTIONS), *product(SUITES_OWN[:1], FURTHER_OPTIONS)])
def test_gradients_of_powersgd_as_the_suite_configures_it(
    promise: PromiseCheck, gradient_world: str, hook: str, option: str
) -> None:
    promise(gradient_world, "powersgd:follow", hook=hook, option=option)


@pytest.mark.parametrize("hook", SUITES_OWN)
def test_gradients_of_zero_stay_zero_with_powersgd(promise: PromiseCheck, gradient_world: str, hook: str) -> None:
    promise(gradient_world, "powersgd:vanish", hook=hook)


@pytest.mark.parametrize(("option", "error_feedback"), [*((option, False) for option in OPTIONS), ("default", True)])
@of_each_rank
def test_gradients_are_projected_by_powersgd(
    promise: PromiseCheck, gradient_world: str, rank: int, option: str, error_feedback: bool
) -> None:
    changes = {"matrix_approximation_rank": rank, "use_error_feedback": error_feedback}
    promise(gradient_world, "powersgd:follow", hook=RANK_1, option=option, changes=changes)


@of_each_rank
def test_gradients_that_would_just_halve_are_left_alone_by_powersgd(
    promise: PromiseCheck, gradient_world: str, rank: int
) -> None:
    changes = {"matrix_approximation_rank": rank}
    promise(gradient_world, "powersgd:follow", hook=RANK_1, shapes=at_the_boundary(rank), changes=changes)


@pytest.mark.parametrize("rate", [27.2, 27.3])
def test_gradients_of_60_by_50_shrink_27_27_fold_with_powersgd(
    promise: PromiseCheck, gradient_world: str, rate: float
) -> None:
    promise(gradient_world, "powersgd:follow", hook=RANK_1, shapes=[(60, 50)], changes={"min_compression_rate": rate})


@pytest.mark.parametrize("start", [2, 3, 5])
def test_gradients_are_plain_means_until_powersgd_starts(
    promise: PromiseCheck, gradient_world: str, start: int
) -> None:
    promise(gradient_world, "powersgd:follow", hook=RANK_1, changes={"start_powerSGD_iter": start})


@pytest.mark.parametrize("option", OPTIONS)
def test_gradients_are_exact_at_full_rank_with_powersgd(
    promise: PromiseCheck, gradient_world: str, option: str
) -> None:
    shapes = [(60, 24), (24, 60), (32, 32), (3, 100), (100, 3), (8, 3, 3, 3)]
    changes = {"matrix_approximation_rank": 32, "min_compression_rate": 0, "use_error_feedback": False}
    promise(gradient_world, "powersgd:follow", hook=RANK_1, option=option, shapes=shapes, changes=changes)


@pytest.mark.parametrize("warm_start", [True, False])
@of_each_rank
def test_gradients_that_repeat_converge_only_with_warm_start_of_powersgd(
    promise: PromiseCheck, gradient_world: str, rank: int, warm_start: bool
) -> None:
    changes = {"matrix_approximation_rank": rank, "use_error_feedback": False, "warm_start": warm_start}
    promise(gradient_world, "powersgd:converge", hook=RANK_1, shapes=[(60, 50), (40, 64)], changes=changes)


@beyond_rank_1
@pytest.mark.parametrize("kind", ["rank_deficient", "one_hot"])
@pytest.mark.parametrize("rank", [4, 8])
def test_gradients_of_a_low_rank_are_exact_with_powersgd(
    promise: PromiseCheck, gradient_world: str, rank: int, kind: str
) -> None:
    """With QR, whose columns are orthonormal at any rank. Gram-Schmidt is far off: bug powersgd_rank_deficient."""
    changes = {"matrix_approximation_rank": rank, "use_error_feedback": False}
    promise(gradient_world, "powersgd:converge", hook=RANK_1, shapes=[(60, 50), (40, 64)], changes=changes, kind=kind)


def test_gradients_of_any_shape_with_powersgd(promise: PromiseCheck, gradient_world: str) -> None:
    @settings(max_examples=settings().max_examples // 5)
    @given(
        shapes=st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=3), min_size=1, max_size=4),
        rank=st.sampled_from(RANKS),
        error_feedback=st.booleans(),
        option=st.sampled_from(OPTIONS),
        seed=st.integers(0, 2**31),
    )
    def holds(shapes: list[list[int]], rank: int, error_feedback: bool, option: str, seed: int) -> None:
        changes = {"matrix_approximation_rank": rank, "use_error_feedback": error_feedback}
        asked = {"hook": RANK_1, "option": option, "seed": seed, "changes": changes}
        promise(gradient_world, "powersgd:follow", **asked, shapes=[*shapes, [9 * rank, 4 * rank]])

    holds()
