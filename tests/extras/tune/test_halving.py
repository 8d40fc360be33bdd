"""The search for the fastest candidate, on simulated launches."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random

import pytest

from fixtures.extras.tune.halving import (
    LEAST_DIFFERENCES,
    LEAST_PERCENT,
    Decision,
    OutOfTime,
    Pass,
    Search,
    clipped,
    find_best,
    noise_of,
)
from fixtures.stats.difference import Turns

# Bucket size in MB, DDP's arguments, another setting of DDP, one of NCCL; the default has none.
Config = tuple[int, str, str, str]
DEFAULT: Config = (25, "plain", "", "")
COARSE = (5, 10, 25, 50, 100, 400, 2000)
SIZES = (5, 7, 10, 14, 18, 25, 35, 50, 70, 100, 140, 200, 400, 2000)
ARGUMENTS = ("plain", "static", "view", "both")
DDP_SETTINGS = ("", "first_1", "last_1", "batched", "comm_mem")
NCCL_SETTINGS = ("", "ctas_4", "ctas_8", "ring", "simple")
EXHAUSTIVE_LAUNCHES = 3 * len([*product(SIZES, ARGUMENTS, DDP_SETTINGS, NCCL_SETTINGS)])
SEEDS = range(5)


@dataclass(kw_only=True)
class Machine:
    """Simulated launches: each machine has another best size, and settings that help and that harm.

    noise: standard deviation of a launch of all steps. disturbed: share of the launches that are slower by 3 to 20 %.
    Sets of ranks differ by 1 %, and the machine gets slower by 2 % in a hundred launches.
    """

    seed: int
    noise: float = 0.002
    disturbed: float = 0.0
    launches: int = 0
    sets: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = Random(1000 + self.seed)

    def true_s(self, config: Config) -> float:
        size, arguments, *settings = config
        shape = Random(self.seed)
        best_size, curvature = shape.uniform(8, 120), shape.uniform(0.003, 0.02)
        gain = {"plain": 0.0, "static": 0.001, "view": 0.004, "both": 0.005}[arguments]
        effects = [Random(f"{self.seed}{word}").uniform(-0.01, 0.006) for word in settings if word]
        return 0.1 * (1 + curvature * math.log(size / best_size) ** 2) * (1 - gain) * math.prod(1 + e for e in effects)

    def launch(self, config: Config, one: Pass) -> float:
        self.launches += 1
        number = one.number if one.last is None or one.last < 3 else 100 + one.number  # new processes
        of_set = self.sets.setdefault(number % 3 if number < 100 else number, self.random.gauss(0, 0.01))
        noise = self.random.gauss(0, self.noise)
        if self.random.random() < self.disturbed:
            noise += self.random.uniform(0.03, 0.2)
        return self.true_s(config) * math.exp(of_set + noise + 2e-4 * self.launches)

    @property
    def best_s(self) -> float:
        return min(map(self.true_s, product(SIZES, ARGUMENTS, DDP_SETTINGS, NCCL_SETTINGS)))


def stages(search: Search[Config]) -> list[Callable[[Config], Iterator[Config]]]:
    """Sizes, then one thing of the leader at a time, then sizes around it once more."""

    def sizes(leader: Config) -> Iterator[Config]:
        place = SIZES.index(leader[0])
        return ((size, *leader[1:]) for size in SIZES[max(0, place - 1) : place + 2])

    return [
        lambda leader: ((size, "both", "", "") for size in COARSE),
        sizes,
        lambda leader: ((leader[0], words, *leader[2:]) for words in ARGUMENTS),
        lambda leader: ((*leader[:2], word, leader[3]) for word in DDP_SETTINGS),
        lambda leader: ((*leader[:3], word) for word in NCCL_SETTINGS),
        sizes,
    ]


class Launches(list[int]):
    """The candidates that were launched, in their order. step_s: what a launch of one takes."""

    def __init__(self, step_s: Callable[[int, Pass], float]) -> None:
        self.step_s = step_s

    def __call__(self, key: int, one: Pass) -> float:
        self.append(key)
        return self.step_s(key, one)


def settings_of(config: Config) -> int:
    return 0 if config == DEFAULT else 1 + sum(map(bool, config[2:]))


def found(
    machine: Machine,
    *,
    holds: Callable[[Config], bool] = lambda config: True,
    launches_left: Callable[[], float] = lambda: math.inf,
) -> Decision[Config]:
    search = Search(default=DEFAULT, launch=machine.launch, complexity=settings_of, launches_left=launches_left)
    return find_best(search, stages(search), holds=holds)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_is_found_to_half_a_percent_in_a_quarter_of_the_launches(seed: int) -> None:
    machine = Machine(seed=seed)
    best = found(machine)
    assert best.word == "faster"
    assert machine.true_s(best.best) < 1.005 * machine.best_s
    assert machine.launches < EXHAUSTIVE_LAUNCHES / 4


@pytest.mark.parametrize("seed", SEEDS)
def test_single_disturbed_launches_do_not_hide_the_best(seed: int) -> None:
    machine = Machine(seed=seed, noise=0.001, disturbed=0.05)
    best = found(machine, launches_left=lambda: 160 - machine.launches)
    assert best.word == "faster"
    assert machine.true_s(best.best) < 1.01 * machine.best_s


@pytest.mark.parametrize("seed", SEEDS)
def test_disturbed_launches_make_no_winner_and_of_equally_fast_candidates_the_one_with_the_fewest_settings_wins(
    seed: int,
) -> None:
    machine = Machine(seed=seed, noise=0.001, disturbed=0.05)
    machine.true_s = lambda config: 0.1  # type: ignore[method-assign]
    assert found(machine).best == DEFAULT
    machine = Machine(seed=0, noise=0.0005)
    machine.true_s = lambda config: 0.1 if config == DEFAULT else 0.09  # type: ignore[method-assign]
    best = found(machine)
    assert (settings_of(best.best), best.word) == (1, "faster")


def test_noise_and_limit_of_a_disturbed_series() -> None:
    random = Random(0)
    series = [[random.gauss(0, 0.01) for _ in range(3)] for _ in range(200)]
    assert noise_of(series) == pytest.approx(0.01, rel=0.1)
    for values in series[:40]:
        values[random.randrange(3)] += 1
    assert noise_of(series) == pytest.approx(0.01, rel=0.35)
    assert clipped([0.0, 0.001, 0.17], 0.001) == pytest.approx([0.0, 0.001, 0.004])
    assert noise_of([[0.1, 0.2]] * (LEAST_DIFFERENCES - 1)) is None
    assert clipped([0.0, 1.0], None) == [0.0, 1.0]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wrong_candidate_never_wins_although_it_is_the_fastest(seed: int) -> None:
    machine = Machine(seed=seed)
    true_s = machine.true_s
    # This machine's only.
    machine.true_s = lambda config: {50: 0.5, 100: 0.5}.get(config[0], 1) * true_s(config)  # type: ignore[method-assign]
    assert found(machine).best[0] in (50, 100)
    best = found(machine, holds=lambda config: config[0] not in (50, 100))
    assert best.best[0] not in (50, 100)
    assert best.word == "faster"


def test_what_the_noise_hides_is_not_called_faster() -> None:
    best = found(Machine(seed=0, noise=0.2))
    assert (best.best, best.word) == (DEFAULT, "default")
    assert best.tied


@pytest.mark.parametrize("launches", [1, 5, 20])
def test_when_the_time_is_over_the_best_known_is_the_answer(launches: int) -> None:
    machine = Machine(seed=1)
    best = found(machine, launches_left=lambda: launches - machine.launches)
    assert best.word == "unfinished"
    assert machine.true_s(best.best) <= machine.true_s(DEFAULT)


@pytest.mark.parametrize("launches", [45, 70, 100, 160])
def test_a_search_decides_in_the_launches_that_there_is_time_for(launches: int) -> None:
    def decides(seed: int) -> bool:
        machine = Machine(seed=seed)
        word = found(machine, launches_left=lambda: launches - machine.launches).word
        assert machine.launches <= launches
        return word == "faster"

    assert sum(map(decides, range(40))) >= 32


def test_the_fastest_is_checked_and_named_even_if_the_time_is_over() -> None:
    """No slower candidate that was checked earlier replaces it, and no reference does."""
    step_s = {0: 1.0, 1: 0.9, 2: 0.8, 3: 0.7, 9: 0.5}
    launched, asked = Launches(lambda key, one: step_s[key]), list[int]()

    def holds(key: int) -> bool:
        asked.append(key)
        launched.extend([key] * 100)  # takes the rest of the time
        return key != 3

    search = Search(default=0, launch=launched, complexity=int, launches_left=lambda: 30 - len(launched))
    found = find_best(search, [lambda leader: [1, 2, 3]], holds=holds, references=lambda last: [9])
    assert (found.best, found.word) == (2, "unfinished")
    assert {3, 2} <= {*asked} <= {1, 2, 3}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_difference_at_the_smallest_that_counts_ends_the_search_too(seed: int) -> None:
    step_s = {"default": 0.1, "one": 0.0965, "other": 0.0965 * (1 + LEAST_PERCENT / 100)}
    random = Random(seed)
    search: Search[str] = Search(
        default="default",
        launch=lambda name, one: step_s[name] * math.exp(random.gauss(0, 0.001)),
        complexity=lambda name: 1,
    )
    decision = search.decide(["one", "other"])
    assert search.decided
    assert (decision.word, {decision.best, *decision.tied} <= {"one", "other"}) == ("faster", True)


@pytest.mark.parametrize(("time_for", "with_limit"), [(12, True), (9, False)])
def test_references_are_launched_only_if_there_is_time_for_the_fewest_passes_of_all(
    time_for: int, with_limit: bool
) -> None:
    search: Search[str] = Search(
        default="default",
        launch=lambda name, one: {"default": 0.1, "one": 0.09, "other": 0.095, "limit": 0.08}[name],
        complexity=lambda name: 1,
        launches_left=lambda: time_for - search.launches,
    )
    decision = search.decide(["one", "other"], references=["limit"])
    assert (decision.best, decision.word, search.decided) == ("one", "faster", True)
    assert (search.compared("limit", "one") is not None) == with_limit


TURNS_S = {"default": 0.1, "one": 0.0965, "other": 0.0963, "limit": 0.09}


@pytest.mark.parametrize(
    ("noise", "looks", "found"),
    [(5e-4, [0], ("one", "faster", True)), (0.05, [0, 1], ("default", "default", False))],
)
def test_turns_end_the_search_without_a_launch(noise: float, looks: list[int], found: tuple[str, str, bool]) -> None:
    """The simpler of two that differ by 0.2 %. Blocks that vary by 5 % decide nothing, twice."""
    random, taken = Random(0), list[int | None]()

    def take_turns(names: Sequence[str], look: int | None) -> Turns[str]:
        taken.append(look)
        block_s = {
            name: [[TURNS_S[name] * math.exp(random.gauss(0, noise)) for _ in range(6)] for _ in range(4)]
            for name in names
        }
        return Turns(block_s=block_s, on_gpu=True)

    search: Search[str] = Search(
        default="default",
        launch=lambda name, one: None,
        complexity=lambda name: len(name),
        takes_turns=lambda name: True,
        take_turns=take_turns,
    )
    decision = search.decide(["one", "other"], references=["limit"])
    assert (decision.best, decision.word, search.decided) == found
    assert (taken, search.launches) == (looks, 0)
    limit = search.compared("limit", decision.best)
    assert limit is not None
    assert limit.percent == pytest.approx(100 * (0.09 / TURNS_S[decision.best] - 1), abs=max(0.3, 100 * noise))


@pytest.mark.parametrize("decides", [True, False])
def test_where_there_is_no_time_for_more_turns_what_they_found_faster_is_named(decides: bool) -> None:
    """Two that turns do not tell apart: blocks of one vary by 2 %."""

    def take_turns(keys: Sequence[int], look: int | None) -> Turns[int] | None:
        if look is None:
            return None
        if look > 0:
            raise OutOfTime
        gain, varying = (0.1 if decides else 0.001), [1.02, 0.98, 1.0, 1.01, 0.99, 1.0]
        blocks = {0: varying, 1: [1 - gain] * 6, 2: [(1 - gain) * block_s for block_s in varying]}
        return Turns(block_s={key: [blocks[key]] * 2 for key in keys}, on_gpu=True)

    search = Search(
        default=0, launch=lambda key, one: 1.0, complexity=int, takes_turns=lambda key: True, take_turns=take_turns
    )
    decision = find_best(search, [lambda leader: [1, 2]], holds=lambda key: True)
    assert (decision.word, search.decided, search.timed_out) == ("faster" if decides else "default", False, True)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_decided_search_is_not_called_unfinished(seed: int) -> None:
    """Of three candidates that are 0.2 to 0.3 % faster, which is too little to count."""
    random = Random(seed)
    seconds = {0: 1.0, 1: 0.998, 2: 0.9975, 3: 0.997}
    search = Search(default=0, launch=lambda key, one: seconds[key] * math.exp(random.gauss(0, 0.002)), complexity=int)
    decision = search.decide([1, 2, 3])
    assert search.decided is (decision.word != "unfinished") or len(search.times_s(0)) == search.most_passes


def test_as_many_candidates_are_tried_as_there_is_time_for() -> None:
    """With one more that takes turns it is worth it, and the three take less than two launches."""
    search = Search(
        default=0,
        launch=lambda key, one: 1.0,
        complexity=int,
        takes_turns=lambda key: key != 3,
        launches_left=lambda: 14,
    )
    leaders = [1, 2, 3]
    assert search.cost([*leaders, 4]) > search.cost([*leaders, 4, 5])
    assert search.affordable([4, 5], leaders=leaders) == [4, 5]


def test_what_is_far_behind_is_launched_once() -> None:
    """Candidate 1 is four times as fast as the nine others; then it is launched with the default alone."""
    launched = Launches(lambda key, one: 0.25 if key == 1 else 1.0)
    assert Search(default=0, launch=launched, complexity=int).narrow(range(1, 11)) == [1]
    assert sorted(launched) == list(range(11))


def test_turns_that_find_nothing_faster_end_a_search_whose_stages_ran_out_of_time() -> None:
    search = Search(
        default=0,
        launch=lambda key, one: 1.0,
        complexity=int,
        takes_turns=lambda key: True,
        take_turns=lambda keys, look: Turns(block_s={key: [[1.0, 1.001, 0.999] * 4] * 4 for key in keys}, on_gpu=True),
    )
    search.timed_out = True
    assert search.decide([1, 2]) == Decision(best=0, word="default", tied=(1, 2))
    assert (search.decided, search.launches) == (True, 0)


def test_an_interruption_is_raised_and_the_best_known_can_be_asked_for() -> None:
    machine = Machine(seed=1)

    def launch(config: Config, one: Pass) -> float:
        if machine.launches == 20:
            raise KeyboardInterrupt
        return machine.launch(config, one)

    search = Search(default=DEFAULT, launch=launch, complexity=settings_of)
    with pytest.raises(KeyboardInterrupt):
        find_best(search, stages(search), holds=lambda config: True)
    known = search.best_known(lambda config: config[0] != 50)
    assert known.word == "unfinished"
    assert machine.true_s(known.best) < machine.true_s(DEFAULT)
    assert known.best[0] != 50


def test_a_disturbed_default_makes_no_candidate_of_a_single_launch_the_best_known() -> None:
    step_s = {0: 1.0, 1: 0.97, 2: 0.975, 3: 0.98, 4: 0.99}
    known: list[int] = []
    # The only pass of 4 is disturbed.
    launched = Launches(lambda key, one: step_s[key] * (1.2 if key == 0 and one.number == 1 else 1.0))
    search = Search(
        default=0,
        launch=launched,
        complexity=int,
        on_pass=lambda search, one: known.append(search.best_known(bool).best),
    )
    find_best(search, [lambda leader: [1, 2, 3], lambda leader: [4]], holds=bool)
    assert launched.count(4) == 1
    assert set(known) == {1}


def test_a_candidate_that_cannot_run_is_dropped() -> None:
    machine = Machine(seed=0)
    search: Search[Config] = Search(
        default=DEFAULT,
        launch=lambda config, one: None if "both" in config else machine.launch(config, one),
        complexity=settings_of,
    )
    assert "both" not in find_best(search, stages(search), holds=lambda config: True).best
    assert search.dropped >= {(size, "both", "", "") for size in COARSE}


def test_a_pass_has_the_reverse_order_of_the_one_before() -> None:
    order = Launches(lambda key, one: 1.0 + key / 100)
    Search(default=0, launch=order, complexity=int).decide([1, 2, 3])
    first, second, third = ([key for key in order[begin : begin + 4] if key] for begin in (0, 4, 8))
    assert first == second[::-1] != third
    assert order[0] == 0


@pytest.mark.parametrize("able", [8, 5], ids=["all", "some"])
def test_of_a_stage_the_three_fastest_in_turns_stay_and_only_those_that_cannot_are_launched(able: int) -> None:
    """The candidates 1 to 8, the next always 1 % slower; odd rounds take 30 % longer."""
    launched = Launches(lambda key, one: 1.01**key if key else 1.2)

    def take_turns(keys: Sequence[int], look: int | None) -> Turns[int] | None:
        if look is not None:
            return None
        seconds = {key: 1.01**key if key else 1.2 for key in keys}
        return Turns(block_s={key: [[s, 1.3 * s, s]] for key, s in seconds.items()}, on_gpu=True)

    search = Search(
        default=0, launch=launched, complexity=int, takes_turns=lambda key: key <= able, take_turns=take_turns
    )
    assert search.narrow([*range(8, 0, -1)]) == [1, 2, 3]
    assert sorted(search.tried) == [*range(9)]
    assert set(launched) == (set() if able == 8 else {0, 1, 6, 7, 8})
    assert search.against_default(2) == pytest.approx(math.log(1.01**2 / 1.2))
    assert search.seconds(1) == pytest.approx(1.01)


def test_where_memory_is_short_the_candidates_of_a_stage_take_turns_in_groups() -> None:
    """Of two and the default; the second group runs next to other work, which makes it a third longer. 5 cannot run."""
    groups: list[list[int]] = []

    def take_turns(keys: Sequence[int], look: int | None) -> Turns[int]:
        group = [key for key in keys if key != 5][:3]
        groups.append(group)
        longer = 1.3 if len(groups) == 2 else 1.0
        seconds = {key: longer * (1.01**key if key else 1.2) for key in group}
        return Turns(block_s={key: [[s, s, s]] for key, s in seconds.items()}, on_gpu=True)

    search = Search(
        default=0,
        launch=lambda key, one: None if key == 5 else 1.01**key if key else 1.2,
        complexity=int,
        takes_turns=lambda key: True,
        take_turns=take_turns,
    )
    assert search.narrow([5, 4, 2, 3, 1]) == [1, 2, 3]
    assert groups == [[0, 4, 2], [0, 3, 1], [0]]


def test_what_takes_turns_comes_first_where_time_is_short() -> None:
    """Odd ones cannot. Of 16 launches 9 are left for a stage: eight in turns and the default take five."""
    search = Search(
        default=0,
        launch=lambda key, one: 1.0,
        complexity=int,
        takes_turns=lambda key: key % 2 == 0,
        launches_left=lambda: 16,
    )
    found = search.affordable([*range(1, 17)], leaders=[])
    assert found == [2, 4, 6, 8, 10, 12, 14, 16, 1, 3]
    assert search.cost(found) == 9
    assert search.left_out == [5, 7, 9, 11, 13, 15]


@pytest.mark.parametrize(
    ("gain", "noise", "launched"), [(0.001, 0.0, False), (0.01, 0.0, True), (0.01, 0.05, False), (0.5, 0.05, True)]
)
def test_a_last_candidate_that_cannot_take_turns_is_launched_only_if_it_was_faster(
    gain: float, noise: float, launched: bool
) -> None:
    """noise: standard deviation of a launch; with one of 5 % a gain of 1 % may be chance."""
    seconds, random = {0: 1.0, 1: 0.9, 2: 0.9 * (1 - gain)}, Random(2)
    launches = Launches(lambda key, one: seconds[key] * math.exp(random.gauss(0, noise)))

    def take_turns(keys: Sequence[int], look: int | None) -> Turns[int]:
        return Turns(block_s={key: [[seconds[key], seconds[key] * 1.0001] * 3] * 2 for key in keys}, on_gpu=True)

    search = Search(default=0, launch=launches, complexity=int, takes_turns=lambda key: key < 2, take_turns=take_turns)
    for _ in range(1 + 6 * (noise > 0)):
        leaders = search.narrow([1, 2])
    before = len(launches)
    assert search.decide(leaders).best == (2 if launched else 1)
    assert (len(launches) > before) is launched
