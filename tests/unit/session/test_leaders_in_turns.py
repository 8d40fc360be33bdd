"""Which configs take turns at the end of a run, for how long, and what the ranks are asked."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fixtures.launch.protocol import CannotRun, InterleaveRequest
from fixtures.launch.rank_sets import RankSets
from fixtures.machine.cpu import HostLoad
from fixtures.matrix.configs import DDP_SETTINGS
from fixtures.records.config_comparison import best_of
from fixtures.records.measurement import Measurement
from fixtures.session.leaders_in_turns import differing_launches, setting_gains, take_turns
from fixtures.session.run_state import Run
from tests.builders import launch, measured, run_of


@dataclass
class Asked:
    """A set of ranks that notes what it is asked. Each copy is as fast as the others, in five rounds.

    longer: how much other work lengthens some blocks of the second config. captures: False refuses CUDA graphs. said:
    to the user.
    """

    longer: float = 0.0
    captures: bool = True
    requests: list[InterleaveRequest] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    # Any: a world, and what ranks answer.
    def ask(self, world: Any, request: InterleaveRequest, *, doing: str) -> Any:
        self.requests.append(request)
        if not self.captures and any("graph-" in config for config in request.configs):
            raise CannotRun("a CUDA graph cannot capture its step", broken=True)
        disturbed = [0.1, 0.1 + self.longer, 0.1, 0.1 + self.longer, 0.1 + self.longer]
        return [[[disturbed if place == 1 else [0.1] * 5] * request.copies for place, _ in enumerate(request.configs)]]


def of(config: str, *step_ms: float, lossless: bool = True, world: str = "2gpu") -> Measurement:
    error = 0.0 if lossless else 2e-3
    launches = tuple(
        replace(launch(ms / 1e3), gradient_error=error, gradient_lossless=lossless, gradients=[(4 << 28, 4)])
        for ms in step_ms
    )
    return measured(config, 1, world=world, launches=launches)


def turns_of(
    *measurements: Measurement, ranks: Asked | None = None, busy: bool = False, **settings: Any
) -> tuple[Run, list[InterleaveRequest]]:
    """The run after the turns, and what the ranks were asked. busy: beside other work. settings: that differ."""
    run, ranks = run_of(*measurements), ranks or Asked()
    run.host_load = HostLoad(others=1.5 if busy else 0, cores=2)
    run.settings = replace(run.settings, **settings)
    run.rank_sets = [cast(RankSets, SimpleNamespace(of=lambda interconnect, code: [ranks] * 3))]
    take_turns(run, ranks.said.append)
    return run, ranks.requests


DEFAULT, SMALL = of("ddp_default", 100.0, 100.6), of("bucket_10mb", 100.3, 100.1)
FAR, LIMIT = of("bucket_100mb", 120, 120.1), of("no_comm", 90, 90.1)


def test_the_configs_that_launches_do_not_tell_apart_take_turns_with_their_limit() -> None:
    run, requests = turns_of(DEFAULT, SMALL, FAR, LIMIT)
    assert [request.configs for request in requests] == [["ddp_default", "bucket_10mb", "no_comm"]]
    (turns,) = run.turns.values()
    assert {config: (len(copies), len(copies[0])) for config, copies in turns.block_s.items()} == dict.fromkeys(
        ("ddp_default", "bucket_10mb", "no_comm"), (1, 5)
    )


@pytest.mark.parametrize(
    ("step_ms", "busy", "decides"),
    [
        ((100, 112, 106), False, "decide only 39.6 % or more,"),
        ((100, 112, 106), True, "do not decide"),
        ((100,), False, "do not decide"),
    ],
)
def test_the_user_is_told_what_launches_decide_before_configs_take_turns(
    step_ms: tuple[float, ...], busy: bool, decides: str
) -> None:
    ranks = Asked()
    turns_of(of("ddp_default", *step_ms), of("bucket_10mb", *step_ms[::-1]), ranks=ranks, busy=busy)
    assert f"because their launches {decides}" in ranks.said[0]


@pytest.mark.parametrize(
    ("config", "step_ms", "world", "told"),
    [
        ("as_written", (47, 52, 53), "2gpu", ("12 %", "3 launches decide 27 %", "turns (--quick) 0.3 %")),
        ("ddp_default", (47, 52, 53), "2cpu", ("12 %", "3 launches decide 27 %", "turns 4.7 %")),
        ("as_written", (50, 52, 53), "2gpu", ()),
        ("bucket_10mb", (47, 52, 53), "2gpu", ()),
        ("as_written", (47,), "2gpu", ()),
    ],
)
def test_where_launches_of_what_is_compared_with_differ_the_user_is_told_what_they_decide(
    config: str, step_ms: tuple[float, ...], world: str, told: tuple[str, ...]
) -> None:
    m = of(config, *step_ms, world=world)
    if config == "as_written":
        m = replace(m, workload=replace(m.workload, training=cast(Any, "train.py")))
    said = differing_launches(m)
    assert bool(said) == bool(told)
    assert [words for words in told if words not in (said or "")] == []


def test_where_a_graph_cannot_be_captured_the_others_take_turns() -> None:
    run, requests = turns_of(DEFAULT, SMALL, of("graph-bucket_25mb", 99.9, 100.4), ranks=Asked(captures=False))
    eager = ["ddp_default", "bucket_10mb"]
    assert [request.configs for request in requests] == [[*eager, "graph-bucket_25mb"], eager]
    (turns,) = run.turns.values()
    assert [*turns.block_s] == eager


def test_only_the_configs_of_the_largest_world_take_turns() -> None:
    larger = of("ddp_default", 100.0, 100.6, world="4gpu"), of("bucket_10mb", 100.3, 100.1, world="4gpu")
    run, requests = turns_of(*larger, DEFAULT, SMALL)
    assert [request.world for request in requests] == ["4gpu"]
    assert [world for _, world, _ in run.turns] == ["4gpu"]


@pytest.mark.parametrize(("longer", "counts"), [(0.0, True), (0.0001, True), (0.01, False)])
def test_turns_that_decide_less_than_the_launches_do_not_count(longer: float, counts: bool) -> None:
    """The launches of a run on four GPUs, whose turns decided only differences of 7.9 %."""
    large = of("bucket_50mb", 89.51, 88.92, 89.64)
    small, far = of("bucket_10mb", 89.24, 89.04, 89.22), of("ddp_default", 91.51, 90.92, 91.20)
    run, requests = turns_of(small, large, far, ranks=Asked(longer=longer))
    assert len(requests) == 1
    assert bool(run.turns) == counts
    beaten = of("no_comm", 95.0, 95.1, 95.2)  # which is impossible: the launches were disturbed
    assert turns_of(small, large, far, beaten, ranks=Asked(longer=longer))[0].turns


def test_settings_that_launches_do_not_decide_take_turns_with_what_they_change() -> None:
    """One that launches show slower does not; nor one that changes the process."""
    plain = of("bucket_25mb", 90, 90.1)
    may, slower = of("lazy_buckets-bucket_25mb", 90.1, 89.9), of("batched_copy-bucket_25mb", 99, 99.1)
    run, requests = turns_of(plain, may, slower, of("comm_mem-bucket_25mb", 89, 91), FAR)
    assert [request.configs for request in requests] == [["bucket_25mb", "lazy_buckets-bucket_25mb"]] * 2
    (gain,) = setting_gains([plain, may], *run.turns_of_settings.values())
    assert (gain.found.design, gain.decided, gain.found.percent) == ("paired", False, 0)
    low, high = gain.found.interval_percent
    assert low < 0 < high < 1


def test_turns_of_settings_choose_no_config() -> None:
    """Where the fastest cannot take turns."""
    graph, plain, setting = of("graph-bucket_25mb", 60), of("bucket_25mb", 100), of("batched_copy-bucket_25mb", 99.9)
    run, requests = turns_of(graph, plain, setting)
    assert [request.configs for request in requests] == [["bucket_25mb", "batched_copy-bucket_25mb"]]
    assert run.turns == {}
    (best, *_) = best_of([graph, plain, setting], turns=run.turns)
    assert best.config == "graph-bucket_25mb"


def test_only_the_settings_that_may_gain_most_take_turns() -> None:
    settings = [of(name, 90 + number / 100) for number, name in enumerate(DDP_SETTINGS)]
    _, (*_, request) = turns_of(of("bucket_25mb", 90), of("fp16-bucket_25mb", 90), *settings)
    assert len(request.configs) <= 6


def test_what_the_launches_decide_takes_no_turns() -> None:
    assert turns_of(DEFAULT, FAR)[1] == []
    assert turns_of(DEFAULT, FAR, of("bf16", 90, 90.1, lossless=False))[1] == []


def test_after_one_launch_of_each_those_near_the_fastest_take_turns() -> None:
    near, far = of("bucket_10mb", 102), of("bucket_100mb", 104)
    (request,) = turns_of(of("ddp_default", 100), near, far, quick=True)[1]
    assert request.configs == ["ddp_default", "bucket_10mb"]
    assert request.seconds == 6
    on_cpu = [of(m.config.name, 1e3 * m.seconds_per_step, world="2cpu") for m in (DEFAULT, near, far)]
    (request,) = turns_of(*on_cpu)[1]
    assert request.configs == ["ddp_default", "bucket_10mb", "bucket_100mb"]
    assert request.copies == 1


def test_beside_other_work_no_launch_rules_a_config_out_and_turns_last_longer() -> None:
    far = of("bucket_100mb", 500)
    assert turns_of(DEFAULT, SMALL, far)[1][0].configs == ["ddp_default", "bucket_10mb"]
    (request,) = turns_of(DEFAULT, SMALL, far, busy=True)[1]
    assert request.configs == ["ddp_default", "bucket_10mb", "bucket_100mb"]
    assert request.seconds == 30


def test_a_config_that_changes_its_process_takes_no_turns() -> None:
    run, requests = turns_of(of("ddp_default", 100), of("powersgd_rank1", 100, lossless=False))
    assert requests == []
    assert run.turns == {}


@pytest.mark.parametrize(
    ("step_ms", "copies", "block", "rounds"),
    [(10, 2, 8, 6), (100, 2, 3, 6), (200, 1, 3, 6), (500, 1, 2, 6), (1000, 1, 2, 3)],
)
def test_where_steps_are_long_blocks_are_short_and_copies_few_before_rounds_are(
    step_ms: float, copies: int, block: int, rounds: int
) -> None:
    (request,) = turns_of(of("ddp_default", step_ms), of("bucket_10mb", step_ms))[1]
    assert (request.copies, request.block, request.rounds[0]) == (copies, block, rounds)
