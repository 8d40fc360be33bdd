"""Configs that took turns: they decide what the launches do not."""

from collections.abc import Sequence
from dataclasses import replace

from fixtures.records.config_comparison import Turns, best_of, leaders_of
from fixtures.records.measurement import Measurement
from fixtures.records.step_limits import step_limits
from fixtures.stats.step_account import host_time
from tests.builders import launch, measured


def of(config: str, *step_ms: float) -> Measurement:
    """Launches of these steps, whose input takes 1 %."""
    launches = tuple(
        replace(launch(ms / 1e3), phase_s={"input": ms / 1e5, "forward": 0.0}, gradient_error=0.0) for ms in step_ms
    )
    return measured(config, 1, world="2gpu", launches=launches)


def turns_of(**step_ms: float) -> Turns:
    """Four copies that differ by up to 0.1 %, six rounds each."""

    def copies(ms: float) -> Sequence[Sequence[float]]:
        return [[ms / 1e3 * (1 + copy / 3000 + number % 2 / 5000) for number in range(6)] for copy in range(4)]

    return Turns(block_s={config: copies(ms) for config, ms in step_ms.items()})


DEFAULT, SMALL, LARGE = of("ddp_default", 100, 103), of("bucket_10mb", 99.5, 103), of("bucket_50mb", 99, 104)
TABLE = DEFAULT.cell[:3]


def test_turns_decide_among_those_that_the_launches_do_not_tell_apart() -> None:
    (undecided,) = best_of([DEFAULT, SMALL])
    assert not undecided.decided
    assert undecided.use == "ddp_default"
    (best,) = best_of([DEFAULT, SMALL], turns={TABLE: turns_of(ddp_default=100, bucket_10mb=99)})
    assert (best.decided, best.in_turns, best.config, best.use) == (True, True, "bucket_10mb", "bucket_10mb")
    assert best.lines  # it is clearly faster than PyTorch's default


def test_a_difference_below_what_turns_decide_is_said_with_what_they_decide() -> None:
    (best,) = best_of([DEFAULT, SMALL], turns={TABLE: turns_of(ddp_default=100, bucket_10mb=99.95)})
    assert (best.decided, best.config, best.use) == (False, "bucket_10mb", "ddp_default")
    assert 0.04 < (best.apart_percent or 0) < 0.06
    assert 0.1 < (best.decided_from_percent or 0) < 0.5


def test_a_config_that_took_no_turn_stays_among_those_that_may_be_the_fastest() -> None:
    leaders = leaders_of([DEFAULT, SMALL, LARGE], turns_of(ddp_default=100, bucket_10mb=99))
    assert [m.config.name for m in leaders.among] == ["bucket_10mb", "bucket_50mb"]


def test_what_launches_put_far_behind_is_not_among_them() -> None:
    turns = replace(turns_of(ddp_default=100, bucket_10mb=99), far=frozenset({"bucket_50mb"}))
    leaders = leaders_of([DEFAULT, SMALL, LARGE], turns)
    assert [m.config.name for m in leaders.among] == ["bucket_10mb"]


def test_in_a_disturbed_run_launches_exclude_none_that_took_turns() -> None:
    slow, quick = of("bucket_10mb", 150, 151), of("ddp_default", 100, 100.1)
    turns = turns_of(ddp_default=100, bucket_10mb=95)
    assert [m.config.name for m in leaders_of([quick, slow], turns).among] == ["ddp_default"]
    assert [m.config.name for m in leaders_of([quick, slow], turns, disturbed=True).among] == ["bucket_10mb"]


def test_turns_decide_in_a_disturbed_run_too() -> None:
    turns = {TABLE: turns_of(ddp_default=100, bucket_10mb=99)}
    (best,) = best_of([DEFAULT, SMALL], turns=turns, run_disturbed=True)
    assert (best.decided, best.disturbed, best.use) == (True, False, "bucket_10mb")
    (none,) = best_of([DEFAULT, SMALL], run_disturbed=True)
    assert (none.decided, none.disturbed, none.use) == (False, True, None)


def test_turns_tell_what_communication_costs_after_one_launch_of_each() -> None:
    default = of("ddp_default", 100)
    ahead = host_time([{"forward": 0.05, "backward": 0.05}] * 16, {}, lead_ms=50.0)
    (one,) = default.launches
    default = replace(default, launches=(replace(one, host_times=(ahead,) * default.world.size),))
    group = [default, of("no_comm", 70)]
    assert step_limits(group, {})[default.cell][1].by is None
    _, limit = step_limits(group, {}, {TABLE: turns_of(ddp_default=100, no_comm=80)})[default.cell]
    assert limit.by == "transfer"
    assert 19 < (limit.percent or 0) < 21
    assert 25 < (limit.most_gain_percent or 0) < 45
