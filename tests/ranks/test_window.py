"""Number of measured steps in a launch: properties of the stopping rule, and agreement of live ranks."""

import math
from typing import Any

import pytest

from fixtures.launch.protocol import TrainResult
from fixtures.launch.rank_sets import RankSet
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.feed import loader_workers
from fixtures.records.measurement import Launch
from fixtures.stats.stopping_rule import BLOCK, is_precise_enough
from tests.builders import SETTINGS
from tests.ranks import asking

# A factor of 7.4 between two steps: far above the noise of any machine, far below the variation of `restless`.
LOOSE = 100 * math.expm1(1)
# With a loader a rank reports the mean of each round, in which every worker delivers one batch.
ONE_ROUND = loader_workers(parse_world("2cpu"))


def trained(ranks: RankSet, workload: str, config: str = "ddp", **others: Any) -> list[TrainResult]:
    """Train with 6 warm-up steps, of which the fourth and the fifth are timed.

    `restless` has one long and one short step there, so its steps count as short even on a busy machine.
    """
    options = {"steps": 20, "warmup": 6, "precision_percent": LOOSE, **others}
    return asking.trained(ranks, config, workload=f":{workload}", **options)


def trained_undisturbed(ranks: RankSet, workload: str, config: str) -> list[TrainResult]:
    """Train again, four times at most, where a busy machine made the warm-up or a short step of `restless` long."""
    for _ in range(4):
        answers = trained(ranks, workload, config)
        if steps_of(answers) == [20, 20] and sorted(map(is_long, Launch.of(answers).step_s))[9:11] == [False, True]:
            break
    return answers


def is_long(step_s: float) -> bool:
    """A long step of `restless` sleeps for 63 ms, a short one for 3 ms."""
    return step_s > 0.06


def steps_of(results: list[TrainResult]) -> list[int]:
    assert all(len(times) == len(result.step_s) for result in results for times in result.phases_s.values())
    return [len(result.step_s) for result in results]


def test_a_steady_launch_measures_one_block_and_without_a_precision_all_steps(ranks: RankSet) -> None:
    assert steps_of(trained(ranks, "steady")) == [BLOCK, BLOCK]
    assert steps_of(trained(ranks, "steady", precision_percent=0)) == [20, 20]


@pytest.mark.parametrize("workload", ["steady", "restless"])
def test_the_launch_replays_the_rule(ranks: RankSet, workload: str) -> None:
    """At the precision of a run, from what is kept of a launch: the slowest rank's steps."""
    step_s = Launch.of(trained(ranks, workload, precision_percent=SETTINGS.precision_percent)).step_s
    looks = [n for n in (8, 16) if n <= len(step_s) and is_precise_enough(step_s[:n], SETTINGS.precision_percent)]
    # Where warm-up steps took over 80 ms, as on a busy machine, the window is 8 or 16 steps.
    assert len(step_s) == min(looks) if looks else len(step_s) in (8, 16, 20)


def test_an_unsteady_launch_measures_all_steps_and_has_batches_for_what_follows(ranks: RankSet) -> None:
    answers = trained(ranks, "restless", "feed_loader", check_gradients=True, precision_percent=1e-9)
    assert steps_of(answers) == [math.ceil(20 / ONE_ROUND)] * 2
    assert all(answer.gradient_lossless for answer in answers)


def test_ranks_that_wait_for_nobody_agree_on_what_the_slowest_does(ranks: RankSet) -> None:
    """Rank 1 alone would stop after one block."""
    answers = trained_undisturbed(ranks, "restless", "no_comm")
    assert steps_of(answers) == [20, 20]
    assert is_precise_enough(answers[1].step_s[:BLOCK], LOOSE)
    assert not is_precise_enough(Launch.of(answers).step_s[:BLOCK], LOOSE)


def test_long_steps_are_fewer_on_ranks_that_wait_for_nobody(ranks: RankSet) -> None:
    """The precision is never reached and rank 0 takes 140 ms: one block of at most 20 steps, two of at most 40."""
    assert steps_of(trained(ranks, "slow", "no_comm", precision_percent=1e-9)) == [BLOCK, BLOCK]
    assert steps_of(trained(ranks, "slow", "no_comm", precision_percent=1e-9, steps=40)) == [2 * BLOCK] * 2
    assert steps_of(trained(ranks, "slow", "no_comm", precision_percent=0, steps=BLOCK + 1)) == [BLOCK + 1] * 2


@pytest.mark.parametrize(("config", "warmup"), [("no_comm", 2), ("powersgd_rank1", 4), ("feed_loader", 4)])
def test_steps_are_not_timed_before_they_are_what_is_measured(ranks: RankSet, config: str, warmup: int) -> None:
    """Not the first step, not before PowerSGD compresses, and not with batches that are already loaded.

    PowerSGD fails the launch if it sees fewer steps than were trained; one step lies between the blocks.
    """
    answers = trained(ranks, "slow", config, precision_percent=1e-9, warmup=warmup, steps=BLOCK + 1)
    assert steps_of(answers) == [math.ceil((BLOCK + 1) / (ONE_ROUND if config == "feed_loader" else 1))] * 2


def test_the_first_step_after_a_look_is_trained_and_not_measured(ranks: RankSet) -> None:
    """Every second step of rank 0 is long: of 6 + 8 + 1 + 8 + 1 + 4 steps, the 15th and the 24th are not measured."""
    long = [is_long(step) for step in Launch.of(trained_undisturbed(ranks, "restless", "no_comm")).step_s]
    assert len(set(long[:8:2])) == len(set(long[1:8:2])) == 1
    assert long[7] == long[8]
    assert long[15] == long[16]
