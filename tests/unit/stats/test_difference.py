"""Whether two configs or builds differ: the error of each design, the words of a decision, the fastest of several."""

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from fixtures.session.ab_launches import judge_sides
from fixtures.stats.difference import (
    LEAST_ROUNDS,
    Difference,
    Replicates,
    Side,
    Turns,
    decide,
    fastest_by_launches,
    of_launches,
    of_pairs,
    of_turns,
)
from fixtures.stats.thresholds import COPY_PERCENT, CPU_COPY_PERCENT, FALSE_ALARMS_PERCENT

ERROR = FALSE_ALARMS_PERCENT / 100

# --- launches

QUIET = [1.0, 1.001, 0.999]


@pytest.mark.parametrize("launches", [3, 6, 9, 12])
def test_two_samples_are_compared_as_by_scipy(launches: int) -> None:
    rng = np.random.default_rng(launches)
    own, other = (np.exp(0.01 * rng.standard_normal(launches) + change) for change in (0.02, 0.0))
    verdict, (low, high) = judge_sides(list(own), list(other))
    expected = stats.ttest_ind(
        np.log(own), np.log(other), equal_var=False, trim=launches // 4 / launches, alternative="greater"
    )
    assert verdict.p_value == pytest.approx(expected.pvalue)
    assert math.log1p(low / 100) + math.log1p(high / 100) == pytest.approx(
        2 * math.log1p((verdict.change_percent or 0) / 100)
    )


@pytest.mark.parametrize(
    ("own", "word", "reason"),
    [
        ([1.3 * time for time in QUIET], "slower", "slower by 30.00 % than the other build (95 % interval "),
        ([0.7 * time for time in QUIET], "faster", "faster by 30.00 % than the other build (95 % interval "),
        (QUIET, "ok", "no difference of 1 %: 0.00 % (95 % interval "),
        ([1.01, 1.02, 1.03], "unclear", "; it takes a change over "),
        ([0.5, 1.0, 2.0], "unclear", "; it takes more launches, or an interval within 1 %, to decide: "),
    ],
)
def test_each_kind_of_change_has_its_words(own: list[float], word: str, reason: str) -> None:
    verdict, _ = judge_sides(own, QUIET)
    assert verdict.word == word
    assert reason in verdict.reason


def test_an_undecided_test_names_the_change_that_decides_and_a_small_one_is_ok() -> None:
    verdict, (low, _) = judge_sides([1.018, 1.02, 1.024], QUIET, looks=4, tests=10)
    assert verdict.word == "unclear"
    assert low > 0
    assert f"it takes a change over {verdict.threshold_percent:.2f} %" in verdict.reason
    assert judge_sides([1.0051, 1.005, 1.0049] * 3, QUIET * 3)[0].word == "ok"


def test_swapping_the_sides_negates_the_change() -> None:
    verdict, (low, high) = judge_sides([1.02, 1.03, 1.05], QUIET)
    other, (other_low, other_high) = judge_sides(QUIET, [1.02, 1.03, 1.05])
    for one, opposite in [(verdict.change_percent, other.change_percent), (low, other_high), (high, other_low)]:
        assert math.log1p((one or 0) / 100) == pytest.approx(-math.log1p((opposite or 0) / 100))


@pytest.mark.parametrize(("change", "word"), [(1.0, "ok"), (1.03, "slower")])
def test_one_slow_process_a_side_neither_decides_nor_keeps_a_test_undecided(change: float, word: str) -> None:
    own = [change * time for time in (*QUIET, *QUIET[:2], 1.08)]
    assert judge_sides(own, QUIET * 2, looks=4)[0].word == word
    assert judge_sides(own, [*QUIET, *QUIET[:2], 1.12], looks=4)[0].word == word
    assert judge_sides([change, 1.001 * change, 1.08 * change], QUIET, looks=4)[0].word == "unclear"
    assert Side.of(own).outlying_percent == pytest.approx((8.0,), abs=0.1)
    assert Side.of([1.0, 1.02, 1.04, 1.06, 1.08, 1.1]).outlying_percent == ()


def test_one_launch_a_side_and_two_that_contradict_decide_nothing() -> None:
    assert judge_sides([1.3], [1.0])[0].word == "unclear"
    with pytest.raises(ValueError, match="no launch"):
        judge_sides([], [])
    verdict, (low, high) = judge_sides([0.5, 2.0], QUIET[:2], looks=10**6)
    assert verdict.word == "unclear"
    assert verdict.threshold_percent == pytest.approx(999_900)
    assert -100 < low < 0 < high < 1e7


def test_the_variance_of_pairs_is_moderated_by_the_prior() -> None:
    found = of_pairs([0.02, 0.03, 0.01], prior_variance=1e-4, prior_degrees=4)
    s = math.sqrt((4 * 0.01**2 + 2 * 0.01**2) / 6 / 3)
    assert found.margin(comparisons=10, looks=8) == pytest.approx(stats.t.ppf(1 - ERROR / 80, 6) * s)
    assert found.half_width == pytest.approx(stats.t.ppf(0.975, 6) * s)
    assert decide(found, comparisons=10, looks=8).p_value == pytest.approx(stats.t.sf(0.02 / s, 6))


def test_without_a_prior_pairs_are_compared_as_by_scipy_and_one_pair_decides_nothing() -> None:
    assert of_pairs([0.08, 0.03, 0.07]).p_value() == pytest.approx(
        stats.ttest_1samp([0.08, 0.03, 0.07], 0, alternative="greater").pvalue
    )
    assert not of_pairs([0.3]).is_known
    assert decide(of_pairs([0.3])).word == "unclear"


@pytest.mark.parametrize(
    ("logs", "word"), [([0.3, 0.31, 0.29], "slower"), ([-0.3, -0.31, -0.29], "faster"), ([0.0] * 3, "ok")]
)
def test_each_kind_of_difference_has_its_word(logs: list[float], word: str) -> None:
    assert decide(of_pairs(logs), least_percent=1).word == word


def test_the_launches_of_a_table_count_as_much_as_those_of_a_pair() -> None:
    times = [[1.0, 1.0, 1.0], [1.01, 1.02, 1.03], [1.02, 1.02, 1.05]]
    (first, _), (alone,) = of_launches(times), of_launches(times[:2])
    assert (first.degrees, alone.degrees) == (4, 2)
    assert first.log == alone.log == pytest.approx(np.log([1.01, 1.02, 1.03]).mean())


def test_two_configs_alone_have_the_interval_of_a_paired_t_test() -> None:
    times = [[1.0, 1.01, 1.02], [1.02, 1.02, 1.05]]
    (found,) = of_launches(times)
    interval = stats.ttest_rel(*np.log(times[::-1])).confidence_interval(0.95)
    assert found.interval_percent == pytest.approx(100 * np.expm1([interval.low, interval.high]))


LADDER = [(0.1000 + i / 1e3, 0.1001 + i / 1e3, 0.1002 + i / 1e3) for i in range(5)]
# As on one H200 in autocast: CUDA graphs of 18 ms, and eager steps of 60 to 80 ms that the host limits.
GRAPHS = [(0.01801, 0.01802, 0.018015), (0.01805, 0.01803, 0.01804), (0.01967, 0.01979, 0.0197)]
EAGER = [tuple((0.059 + i / 500) * f for f in ((1, 1.1, 0.95) if i % 2 else (1, 0.8, 1.05))) for i in range(10)]


@pytest.mark.parametrize(
    ("times", "candidates"),
    [
        ([(0.1100, 0.1101, 0.1102), (0.1000, 0.1001, 0.1002), (0.1200, 0.1201, 0.1202)], [1]),
        ([(0.101, 0.099, 0.103), (0.099, 0.102, 0.100), (0.2, 0.21, 0.19)], [1, 0]),  # within the noise
        ([(0.1010, 0.1515, 0.2021), (0.1000, 0.1500, 0.2000)], [1]),  # the effect of the rank set cancels
        ([*LADDER, (0.1, 0.2, 0.4)], [0, 5]),  # noise hides no difference of quiet ones
        ([*LADDER, (0.3, 0.4, 0.5)], [0]),
        ([*GRAPHS, *EAGER], [0, 1]),
        ([(0.3,), (0.1,), (0.2,)], [1, 2, 0]),  # one launch decides nothing
        ([(0.3, 0.3), (0.1,)], [1, 0]),
        ([(0.1, 0.2)], [0]),
        ([(0.1, 0.2), (0.1, 0.2)], [0, 1]),
    ],
)
def test_what_may_be_the_best_is_named_the_fastest_first(times: list[tuple[float, ...]], candidates: list[int]) -> None:
    assert fastest_by_launches(times)[0] == candidates


@pytest.mark.parametrize("times", [(), (0.0, 1.0), (float("nan"), 1.0), (float("inf"), 1.0)])
def test_invalid_times_are_refused(times: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must be positive and finite"):
        fastest_by_launches([times, (0.1, 0.1)])


# Noise of each config relative to the quietest one.
NOISE = {
    "2 alike": [1, 1],
    "3 alike": [1, 1, 1],
    "10 alike": [1] * 10,
    "1 of 2 noisy": [1, 10],
    "1 of 3 noisy": [1, 1, 10],
    "1 of 10 noisy": [1] * 9 + [10],
    "half of 10 noisy": [1] * 5 + [10] * 5,
    "1 of 10 quiet": [1] + [10] * 9,
}
RUNS = 1000
BY_DAY = [("3 alike", 2), ("1 of 3 noisy", 3)]


@pytest.mark.parametrize(
    ("name", "launches"),
    [
        pytest.param(name, launches, marks=() if (name, launches) in BY_DAY else pytest.mark.nightly)
        for launches in (2, 3)
        for name in NOISE
    ],
)
def test_equally_fast_configs_have_a_single_best_at_most_at_the_stated_rate(name: str, launches: int) -> None:
    spreads = NOISE[name]
    random = np.random.default_rng(19)
    noise = 0.02 * random.standard_normal((RUNS, len(spreads), launches)) * np.array(spreads)[:, None]
    rank_set = 0.1 * random.standard_normal((RUNS, 1, launches))
    called = sum(len(fastest_by_launches(run)[0]) == 1 for run in np.exp(noise + rank_set).tolist())
    # The error plus three standard errors.
    assert called / RUNS <= ERROR + 3 * (ERROR * (1 - ERROR) / RUNS) ** 0.5


@pytest.mark.parametrize(("ahead", "least"), [(0.001, 0.0), (0.013, 0.8)])
def test_the_best_of_ten_is_found_when_clearly_ahead_and_rarely_excluded(ahead: float, least: float) -> None:
    noise = 0.002 * np.random.default_rng(19).standard_normal((500, 10, 3))
    noise[:, 0] -= ahead
    groups = [fastest_by_launches(run)[0] for run in np.exp(noise).tolist()]
    assert sum(group == [0] for group in groups) / 500 >= least
    assert sum(0 not in group for group in groups) / 500 <= ERROR


# --- turns


def fastest_in_turns(configs: Sequence[Replicates], *, on_gpu: bool) -> tuple[list[int], list[Difference]]:
    turns = Turns(block_s=dict(enumerate(configs)), on_gpu=on_gpu)
    return turns.fastest(turns.block_s)


# Of the difference of two blocks of a round, in %: eight steps on two H200, and one on two busy cores.
GPU_PAIR_PERCENT, CPU_PAIR_PERCENT = 0.08, 10.0


def heavy_tailed(rng: random.Random) -> float:
    """Student's t with three degrees of freedom, of variance 1."""
    return rng.gauss(0, 1) / math.sqrt(sum(rng.gauss(0, 1) ** 2 for _ in range(3)))


def measured(
    rng: random.Random, configs: int, copies: int, rounds: int, *, on_gpu: bool, tails: bool, longer_percent: float = 0
) -> list[Replicates]:
    """All configs but the first take longer by so much."""
    pair, copy = (GPU_PAIR_PERCENT, COPY_PERCENT) if on_gpu else (CPU_PAIR_PERCENT, CPU_COPY_PERCENT)
    draw = heavy_tailed if tails else lambda rng: rng.gauss(0, 1)

    def rounds_of(longer: float) -> list[float]:
        own = rng.gauss(0, copy)
        return [math.exp((longer + own + draw(rng) * pair / math.sqrt(2)) / 100) for _ in range(rounds)]

    return [[rounds_of(longer_percent if number else 0) for _ in range(copies)] for number in range(configs)]


@pytest.mark.parametrize("tails", [False, True])
@pytest.mark.parametrize(("on_gpu", "copies", "rounds"), [(True, 2, 3), (True, 4, 6), (False, 1, 12), (False, 2, 20)])
@pytest.mark.parametrize("configs", [2, 10])
def test_of_equal_configs_one_is_rarely_called_the_fastest(
    configs: int, on_gpu: bool, copies: int, rounds: int, tails: bool
) -> None:
    rng, runs = random.Random(configs + copies), 600
    alone = sum(
        len(fastest_in_turns(measured(rng, configs, copies, rounds, on_gpu=on_gpu, tails=tails), on_gpu=on_gpu)[0]) == 1
        for _ in range(runs)
    )
    assert alone / runs <= 1.5 * ERROR


@pytest.mark.parametrize(("copies", "percent"), [(2, 0.5), (4, 0.3)])
def test_a_small_difference_on_gpus_is_decided_in_nineteen_of_twenty(copies: int, percent: float) -> None:
    """As of --quick, and of a whole run."""
    rng, runs = random.Random(2), 400
    decided = sum(
        fastest_in_turns(measured(rng, 2, copies, 3, on_gpu=True, tails=False, longer_percent=percent), on_gpu=True)[0]
        == [0]
        for _ in range(runs)
    )
    assert decided / runs >= 0.95


def test_a_burst_in_one_block_decides_nothing_and_hides_nothing() -> None:
    quick, slow = [[1.0] * 9, [1.001] * 9], [[1.05] * 9, [1.051] * 9]
    burst = [[1.0] * 8 + [9.0], [1.001] * 9]
    assert fastest_in_turns([slow, burst], on_gpu=True)[0] == [1]
    order, behind = fastest_in_turns([burst, quick], on_gpu=True)
    assert sorted(order) == [0, 1]
    assert abs(behind[0].percent) < 0.1


@pytest.mark.parametrize("share", [0.4, 0.6])
def test_other_work_in_many_blocks_decides_nothing_and_hides_nothing(share: float) -> None:
    """As on a machine with four H100: bursts of seconds made blocks 1 to 30 % longer. One copy, six rounds."""
    rng, runs = random.Random(5), 400

    def disturbed(longer_percent: float) -> list[Replicates]:
        return [
            [[t * (1 + (rng.random() < share) * rng.lognormvariate(0, 1) / 30) for t in copy] for copy in copies]
            for copies in measured(rng, 4, 1, 6, on_gpu=True, tails=False, longer_percent=longer_percent)
        ]

    named = [fastest_in_turns(disturbed(0), on_gpu=True)[0] for _ in range(runs)]
    assert sum(len(leaders) == 1 for leaders in named) / runs <= ERROR
    named = [fastest_in_turns(disturbed(1.0), on_gpu=True)[0] for _ in range(runs)]
    assert sum(0 in leaders for leaders in named) / runs >= 0.99
    assert sum(leaders == [0] for leaders in named) / runs >= (0.4 if share < 0.5 else 0.02)


def test_what_changes_slowly_cancels() -> None:
    """The machine gets slower by half; a difference of 1 % stays."""
    drift = [1 + 0.5 * number / 19 for number in range(20)]
    found = of_turns([[1.01 * t for t in drift]] * 4, [drift] * 4, on_gpu=True)
    assert found.percent == pytest.approx(1)
    assert found.is_slower()


def test_all_that_are_not_slower_are_named_with_what_would_have_been_decided() -> None:
    order, behind = fastest_in_turns([[[1.2] * 6] * 4, [[1.0] * 6] * 4, [[1.0005] * 6] * 4], on_gpu=True)
    assert order == [1, 2]
    (of_last,) = behind
    assert of_last.percent == pytest.approx(0.05, rel=1e-3)
    assert 0.1 < of_last.least_percent(comparisons=2) < 0.5
    assert not of_last.is_slower()


def test_too_few_rounds_are_refused() -> None:
    short = [[1.0] * (LEAST_ROUNDS - 1)]
    with pytest.raises(ValueError, match="at least 3 rounds"):
        of_turns(short, short, on_gpu=True)
