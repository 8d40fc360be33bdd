"""How many steps a launch measures: the rule by properties, and on live ranks that must agree."""

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fixtures.judge.measurement import Launch
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import World
from fixtures.ranks.rank_sets import RankSets
from fixtures.ranks.window import BLOCK, STEP_S, blocks, by_round, enough, fitting, steps_below
from tests.command_line import pytest_perf
from tests.test_comparison_and_table import SETTINGS

# Powers of two, so that a factor and the inverse are exact; never a step that takes no time.
times = st.lists(st.integers(-4, 4).map(lambda exponent: 2.0**exponent), min_size=1, max_size=40)
precisions = st.sampled_from([0, 0.25, 30, 99, 101, 299, 301, 1000])


def test_the_median_lies_between_the_two_steps_nine_times_in_ten() -> None:
    outside = {n: 2 * stats.binom.cdf(steps_below(n) - 1, n, 0.5) for n in range(5, 401)}
    assert {n: share for n, share in outside.items() if not 0.01 < share < 0.1} == {}


def test_it_is_enough_when_half_of_the_interval_is_within_the_precision() -> None:
    step_s = [1.0, 7.0, 2.0, 3.0, 6.0, 4.0, 8.0, 5.0]  # between the second and the seventh
    half_percent = 100 * (math.sqrt(7 / 2) - 1)
    assert enough(step_s, half_percent + 1e-9)
    assert not enough(step_s, half_percent - 1e-9)


def test_one_step_far_off_does_not_matter_and_two_modes_do() -> None:
    assert enough([1.0] * 7 + [50.0], 0.25)
    assert not enough([1.0] * 6 + [1.1] * 2, 0.25)


@given(times=times, precision=precisions, exponent=st.integers(-20, 20))
def test_whether_steps_are_fast_or_slow_is_not_looked_at(times: list[float], precision: float, exponent: int) -> None:
    assert enough(times, precision) == enough([t * 2.0**exponent for t in times], precision)
    assert enough(times, precision) == enough([1 / t for t in times], precision)


@given(times=st.permutations([1.0, 1.001, 1.002, 1.003, 1.004, 1.005, 1.006, 1.007]))
def test_in_which_order_is_not_looked_at(times: list[float]) -> None:
    assert enough(times, 0.26)
    assert not enough(times, 0.24)


@given(times=st.lists(st.floats(1e-6, 1e3), max_size=4))
def test_four_steps_are_never_enough(times: list[float]) -> None:
    assert not enough(times, 1e6)


@given(most=st.integers(1, 1000))
def test_blocks_fill_the_window(most: int) -> None:
    sizes = blocks(most)
    assert sum(sizes) == most
    assert set(sizes[:-1]) <= {BLOCK}
    assert 0 < sizes[-1] <= BLOCK


@given(most=st.integers(1, 200), step_s=st.floats(1e-4, 100))
def test_long_steps_leave_room_for_fewer_of_them(most: int, step_s: float) -> None:
    fit = fitting(most, step_s)
    assert fit == most or fit % BLOCK == 0
    assert fit * step_s <= most * STEP_S * (1 + 1e-9) or fit == min(most, BLOCK)
    assert fit >= fitting(most, 2 * step_s)
    assert fitting(most, STEP_S) == most


@pytest.mark.parametrize(
    ("most", "step_s", "fit"),
    [(20, 0.08, 20), (20, 0.09, 16), (20, 0.099, 16), (20, 0.101, 8), (20, 5, 8), (40, 0.16, 16), (6, 5, 6)],
)
def test_a_window_is_as_long_as_its_steps_of_80_ms_or_a_block(most: int, step_s: float, fit: int) -> None:
    assert fitting(most, step_s) == fit


# Live

# A factor of 7.4 between two steps: far above the noise of any machine, far below what `restless` does.
LOOSE = 100 * math.expm1(1)


def trained(two_ranks: RankSets, workload: str, config: str = "ddp", **others: Any) -> list[dict[str, Any]]:
    """Of the warm-up the last steps but one are timed: of 6 two, so that `restless` has a long and a short one there
    and its steps count as short, also on a machine that is busy.
    """
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    what = {"workload": f"tests.workloads_for_tests:{workload}", "config": config, "world": "2cpu"}
    how = {"steps": 20, "warmup": 6, "compare": False, "precision_percent": LOOSE}
    function, arguments = "fixtures.ranks.training:train", {**what, **how, **others}
    return ranks.run(World(backend="gloo", size=2), function, arguments, doing=workload)


def steps_of(answers: list[dict[str, Any]]) -> list[int]:
    assert all(len(times) == len(a["step_s"]) for a in answers for times in a["phases_s"].values())
    return [len(answer["step_s"]) for answer in answers]


def test_a_steady_launch_measures_one_block(two_ranks: RankSets) -> None:
    assert steps_of(trained(two_ranks, "steady")) == [BLOCK, BLOCK]


def test_without_a_precision_it_measures_all_steps(two_ranks: RankSets) -> None:
    assert steps_of(trained(two_ranks, "steady", precision_percent=0)) == [20, 20]


def test_an_unsteady_launch_measures_all_steps_and_has_batches_for_what_follows(two_ranks: RankSets) -> None:
    answers = trained(two_ranks, "restless", "feed_loader", compare=True, precision_percent=1e-9)
    assert steps_of(answers) == [20, 20]
    assert all(len(answer["backward_alone_s"]) == 5 for answer in answers)


def test_ranks_that_wait_for_nobody_agree_on_what_the_slowest_does(two_ranks: RankSets) -> None:
    """Rank 1 by itself would have stopped after a block."""
    answers = trained(two_ranks, "restless", "no_comm")
    assert steps_of(answers) == [20, 20]
    assert enough(answers[1]["step_s"][:BLOCK], LOOSE)
    assert not enough(Launch.of(answers, Counter()).step_s[:BLOCK], LOOSE)


def test_long_steps_are_fewer_on_ranks_that_wait_for_nobody(two_ranks: RankSets) -> None:
    """Steps that are never known well enough, 140 ms on rank 0 alone: a block of 20, two of 40."""
    assert steps_of(trained(two_ranks, "slow", "no_comm", precision_percent=1e-9)) == [BLOCK, BLOCK]
    assert steps_of(trained(two_ranks, "slow", "no_comm", precision_percent=1e-9, steps=40)) == [2 * BLOCK] * 2
    assert steps_of(trained(two_ranks, "slow", "no_comm", precision_percent=0, steps=BLOCK + 1)) == [BLOCK + 1] * 2


@pytest.mark.parametrize(("config", "warmup"), [("no_comm", 2), ("powersgd_rank1", 4), ("feed_loader", 4)])
def test_steps_are_not_timed_before_they_are_what_is_measured(two_ranks: RankSets, config: str, warmup: int) -> None:
    """Neither the first one, nor before PowerSGD compresses, nor with batches that are loaded already."""
    answers = trained(two_ranks, "slow", config, precision_percent=1e-9, warmup=warmup, steps=BLOCK + 1)
    assert steps_of(answers) == [BLOCK + 1] * 2


def test_the_first_step_after_a_look_is_trained_and_not_measured(two_ranks: RankSets) -> None:
    """Every second step of rank 0 is long: of 6 + 8 + 1 + 8 + 1 + 4 steps, the 15th and the 24th are left out."""
    step_s = Launch.of(trained(two_ranks, "restless", "no_comm"), Counter()).step_s
    long = [step > 0.03 for step in step_s]
    assert len(set(long[:8:2])) == len(set(long[1:8:2])) == 1
    assert long[7] == long[8]
    assert long[15] == long[16]


def test_every_step_reaches_the_hook(two_ranks: RankSets) -> None:
    """A PowerSGD that saw fewer steps than were trained fails its launch; one lies between the blocks."""
    answers = trained(two_ranks, "restless", "powersgd_rank1", precision_percent=1e-9, warmup=4, steps=BLOCK + 1)
    assert steps_of(answers) == [BLOCK + 1] * 2


# What is kept


def test_a_record_replays_the_rule_launch_by_launch(tmp_path: Path) -> None:
    outcome = pytest_perf(
        tmp_path / "baselines",
        *("perf/test_scaling.py", "-k", "2cpu", "--launches=2", "--steps=20", "--warmup=6", "--explain=none"),
        *("--workload=tests.workloads_for_tests:steady", "--workload=tests.workloads_for_tests:restless"),
        f"--benchmark-json={tmp_path / 'run.json'}",
    )
    assert outcome.exit_code == 0, outcome.output
    for benchmark in json.loads((tmp_path / "run.json").read_text())["benchmarks"]:
        info, left = benchmark["extra_info"], benchmark["stats"]["data"]
        for steps, launch_median_s in zip(info["launch_steps"], info["launch_medians_s"], strict=True):
            launch, left = left[:steps], left[steps:]
            looks = [number for number in (8, 16) if enough(launch[:number], 0.25) and number <= steps]
            assert steps == min([*looks, 20])
            assert launch_median_s == median(launch)
        assert left == []
        assert info["workload"] == "steady" or info["launch_steps"] == [20, 20]


@pytest.mark.parametrize(("slowdown", "precision"), [(0.2, 0.05), (1, 0.25), (30, 0.25)])
def test_the_precision_is_a_quarter_of_the_smallest_slowdown_but_no_coarser_than_of_one_percent(
    slowdown: float, precision: float
) -> None:
    assert replace(SETTINGS, min_slowdown_percent=slowdown).precision_percent == precision


def test_a_round_of_slow_workers_is_as_long_as_they_take() -> None:
    """Three batches come at once, the fourth with the next load: the median step would be a quarter of the mean."""
    steps = [1.0, 1.0, 1.0, 13.0] * 5
    assert by_round(steps, 4) == [4.0] * 5
    assert by_round(steps, 1) == steps


@pytest.mark.parametrize(("most", "workers", "sizes"), [(24, 8, [8, 8, 8]), (21, 7, [14, 7]), (20, 1, [8, 8, 4])])
def test_blocks_are_whole_rounds(most: int, workers: int, sizes: list[int]) -> None:
    assert blocks(most, workers) == sizes
