"""A measurement next to its references, and configs that took turns: they decide what the launches do not."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fixtures.matrix.configs import CONFIGS
from fixtures.records.config_comparison import best_of, comparisons, is_clearly_faster, leaders_of
from fixtures.records.measurement import Measurement
from fixtures.records.schema import Reason
from fixtures.records.step_limits import step_limits
from fixtures.stats.difference import Turns
from fixtures.stats.step_account import host_time
from tests.builders import DDP, launch, measured
from tests.unit.report.test_table import ALONE, NO_COMM, SINGLE, on_one, quiet

BF16 = measured("bf16", 9)
RESIDENT = measured("feed_resident", 10)
GRAPH, GRAPH_LIMIT = measured("graph-bucket_25mb", 20), measured("graph-no_comm-bucket_25mb", 25)
OTHER_SINGLE = measured("single", 5, world="1gpu", workload="resnet50")
TWICE = measured("bf16", 5)
TWICE = replace(TWICE, workload=replace(TWICE.workload, batch_size=2 * TWICE.workload.batch_size))


@pytest.mark.parametrize(
    ("measurement", "others", "expected"),
    [
        (BF16, [SINGLE, DDP, NO_COMM], {"against_naive": 12.5, "against_single": -10, "of_limit": 900 / 9.5}),
        (DDP, [], {"against_naive": 0, "communication": None}),
        (BF16, [], {"against_naive": None, "against_single": None, "of_limit": None}),
        # Steps of 125 and 100 ms: 25 of 125 are communication.
        (DDP, [measured("no_comm", 10)], {"communication": 20}),
        # The limit is that of the fastest config without communication.
        (DDP, [NO_COMM, measured("no_comm-bucket_25mb", 16)], {"of_limit": 50}),
        (measured("compile-ddp_optimizer", 8), [NO_COMM, measured("compile-no_comm", 16)], {"of_limit": 50}),
        # 25 of 125 ms are copies.
        (measured("feed_prefetch", 8), [RESIDENT, DDP], {"copies": 20}),
        (measured("feed_loader_4", 5), [RESIDENT, DDP], {"copies": 50}),
        (measured("loss_item_every_10", 4), [RESIDENT], {"copies": None}),  # its batch is copied as well
        (measured("loss_item_every_10", 4), [RESIDENT, measured("feed_pinned", 5)], {"copies": 20}),
        (RESIDENT, [DDP], {"copies": None}),
        (BF16, [RESIDENT], {"copies": None}),
        # Another world, workload or interconnect is no reference, except one device for all worlds of its workload.
        *(
            (
                BF16,
                [measured("ddp", 8, **elsewhere), measured("no_comm", 9, **elsewhere)],  # type: ignore[arg-type]
                {"against_naive": None, "of_limit": None},
            )
            for elsewhere in ({"world": "4gpu"}, {"workload": "resnet50"}, {"interconnect": "shm"})
        ),
        (measured("ddp", 8, world="2gpu"), [SINGLE, OTHER_SINGLE], {"against_single": -20}),
        (DDP, [OTHER_SINGLE], {"against_single": None}),
        (measured("ddp", 9), [SINGLE], {"scaling_efficiency": 90}),
        (SINGLE, [], {"scaling_efficiency": 100}),
        (DDP, [measured("single", 10, world="1gpu", interconnect="shm")], {"scaling_efficiency": None}),
        # Twice the batch in 1.6 times the step is 1.25 times as fast.
        (TWICE, [DDP, NO_COMM, SINGLE], {"against_naive": 25, "of_limit": 1000 / 9.5, "scaling_efficiency": 100}),
        # A graph has the limit of graphs and scales against one graph; it is compared with eager DDP all the same.
        (
            GRAPH,
            [SINGLE, DDP, NO_COMM, GRAPH_LIMIT, measured("single_graph", 32, world="1gpu")],
            {"of_limit": 80, "scaling_efficiency": 62.5, "against_naive": 150, "against_single": 100},
        ),
        (GRAPH, [SINGLE, DDP, NO_COMM], {"of_limit": None, "scaling_efficiency": None}),
        (DDP, [SINGLE, NO_COMM, GRAPH_LIMIT], {"of_limit": 800 / 9.5}),
        # Accumulated batches save optimizer steps as well; another optimizer trains something else.
        (
            measured("accumulate_4", 9),
            [SINGLE, DDP, NO_COMM],
            {"of_limit": None, "communication": None, "scaling_efficiency": None, "against_naive": 350},
        ),
        (
            measured("adamw", 9),
            [SINGLE, DDP, NO_COMM],
            {"against_naive": None, "against_single": None, "of_limit": None},
        ),
    ],
)
def test_a_measurement_is_compared_with_its_references(
    measurement: Measurement, others: list[Measurement], expected: dict[str, float | None]
) -> None:
    compared = comparisons([*others, measurement])[measurement.cell]
    assert {name: getattr(compared, f"{name}_percent") for name in expected} == pytest.approx(expected)


def test_of_two_batches_the_one_with_more_samples_a_second_is_faster() -> None:
    assert is_clearly_faster(replace(TWICE, launches=(launch(0.2), launch(0.2001))), quiet("ddp", 8))


def test_on_one_device_ddp_is_compared_with_training_without_it_and_without_a_graph() -> None:
    graph = next(name for name, config in CONFIGS.items() if config.graph and config.ddp and config.hook == "none")
    (best, *_) = best_of([ALONE, on_one("ddp", 103.1, 103, 103.2), on_one(graph, 80, 80.1, 80.2)])
    assert (best.reason, best.use, best.over) == (Reason.WITHOUT_DDP, "single", "ddp")
    assert best.gain_percent == pytest.approx(3.1, abs=0.01)


# Configs that took turns: they decide what the launches do not


def of(config: str, *step_ms: float) -> Measurement:
    """Launches of these steps, whose input takes 1 %."""
    launches = tuple(
        replace(launch(ms / 1e3), phase_s={"input": ms / 1e5, "forward": 0.0}, gradient_error=0.0) for ms in step_ms
    )
    return measured(config, 1, world="2gpu", launches=launches)


def lossy_of(config: str, *step_ms: float) -> Measurement:
    m = of(config, *step_ms)
    return replace(m, launches=tuple(replace(one, gradient_error=2e-3, gradient_lossless=False) for one in m.launches))


def turns_of(**step_ms: float) -> Turns[str]:
    """Four copies that differ by up to 0.1 %, six rounds each."""

    def copies(ms: float) -> Sequence[Sequence[float]]:
        return [[ms / 1e3 * (1 + copy / 3000 + number % 2 / 5000) for number in range(6)] for copy in range(4)]

    return Turns(block_s={config: copies(ms) for config, ms in step_ms.items()}, on_gpu=True)


DEFAULT, SMALL, LARGE = of("ddp_default", 100, 103), of("bucket_10mb", 98, 103), of("bucket_50mb", 99, 104)
TABLE = DEFAULT.cell[:3]


def test_turns_decide_among_those_that_the_launches_do_not_tell_apart() -> None:
    (undecided,) = best_of([DEFAULT, SMALL])
    assert (undecided.reason, undecided.use) == (Reason.UNDECIDED, None)
    (best,) = best_of([DEFAULT, SMALL], turns={TABLE: turns_of(ddp_default=100, bucket_10mb=98.5)})
    assert (best.reason, best.in_turns, best.config, best.use) == (Reason.FASTER, True, "bucket_10mb", "bucket_10mb")
    assert best.lines
    low, high = best.gain_interval_percent or (0, 0)
    assert low < (best.gain_percent or 0) < high


@pytest.mark.parametrize(("step_ms", "reason"), [(99.2, Reason.NOT_FASTER), (98.5, Reason.FASTER)])
def test_below_one_percent_there_are_neither_lines_nor_a_config_to_use(step_ms: float, reason: Reason) -> None:
    (best,) = best_of([DEFAULT, SMALL], turns={TABLE: turns_of(ddp_default=100, bucket_10mb=step_ms)})
    advised = reason is Reason.FASTER
    assert (best.reason, bool(best.use), bool(best.lines)) == (reason, advised, advised)


def test_a_difference_below_what_turns_decide_is_said_with_what_they_decide() -> None:
    (best,) = best_of([DEFAULT, SMALL], turns={TABLE: turns_of(ddp_default=100, bucket_10mb=99.95)})
    assert (best.reason, best.config, best.use) == (Reason.NOT_FASTER, "bucket_10mb", None)
    assert 0.04 < (best.apart_percent or 0) < 0.06
    assert 0.1 < (best.decided_from_percent or 0) < 0.5


def test_a_config_that_took_no_turn_stays_among_those_that_may_be_the_fastest() -> None:
    leaders = leaders_of([DEFAULT, SMALL, LARGE], turns_of(ddp_default=100, bucket_10mb=99))
    assert [m.config.name for m in leaders.among] == ["bucket_10mb", "bucket_50mb"]


def test_what_launches_put_far_behind_is_not_among_them() -> None:
    turns = replace(turns_of(ddp_default=100, bucket_10mb=99), far=frozenset({"bucket_50mb"}))
    assert [m.config.name for m in leaders_of([DEFAULT, SMALL, LARGE], turns).among] == ["bucket_10mb"]


def test_configs_whose_order_and_estimate_disagree_are_not_apart() -> None:
    """One quick block puts the first ahead; the trimmed mean, whose error is smaller, puts it behind."""
    block_s = {"ddp_default": [[0.1] * 9], "bucket_10mb": [[0.095] + [0.1003] * 8]}
    leaders = leaders_of([DEFAULT, SMALL], Turns(block_s=block_s, on_gpu=True))
    assert ([m.config.name for m in leaders.among], leaders.apart_percent) == (["bucket_10mb", "ddp_default"], 0.0)


def test_in_a_disturbed_run_launches_exclude_none_that_took_turns() -> None:
    slow, quick = of("bucket_10mb", 150, 151), of("ddp_default", 100, 100.1)
    turns = turns_of(ddp_default=100, bucket_10mb=95)
    assert [m.config.name for m in leaders_of([quick, slow], turns).among] == ["ddp_default"]
    assert [m.config.name for m in leaders_of([quick, slow], turns, disturbed=True).among] == ["bucket_10mb"]


def test_turns_decide_in_a_disturbed_run_too() -> None:
    turns = {TABLE: turns_of(ddp_default=100, bucket_10mb=98)}
    (best,) = best_of([DEFAULT, SMALL], turns=turns, run_disturbed=True)
    assert (best.reason, best.use) == (Reason.FASTER, "bucket_10mb")
    (none,) = best_of([DEFAULT, SMALL], run_disturbed=True)
    assert (none.reason, none.use) == (Reason.DISTURBED, None)


def test_what_a_config_gains_that_took_no_turn_in_a_disturbed_run_is_not_decided() -> None:
    equal = {TABLE: turns_of(ddp_default=100, bucket_10mb=99.9)}
    (best,) = best_of([DEFAULT, SMALL], turns=equal, run_disturbed=True)
    assert (best.reason, (best.at_most_percent or 0) < 1) == (Reason.NOT_FASTER, True)
    (best,) = best_of([DEFAULT, SMALL, LARGE], turns=equal, run_disturbed=True)
    assert (best.reason, best.at_most_percent) == (Reason.UNDECIDED, None)


def test_a_lossy_config_that_took_turns_alone_of_its_kind_is_compared_in_a_disturbed_run() -> None:
    lossy = [lossy_of(name, 90, 150) for name in ("bf16", "powersgd_rank1")]
    _, best = best_of([DEFAULT, *lossy], turns={TABLE: turns_of(ddp_default=100, bf16=80)}, run_disturbed=True)
    assert (best.reason, best.use, best.among) == (Reason.FASTER, "bf16", ["bf16", "powersgd_rank1"])


def test_the_share_of_the_limit_is_that_of_the_turns() -> None:
    group = [of("ddp_default", 100, 101), of("no_comm", 70, 71), of("bucket_10mb", 90, 91)]
    turns = {TABLE: turns_of(ddp_default=100, no_comm=80)}
    found = comparisons(group, turns)
    default, _, small = (found[m.cell].communication_percent or 0 for m in group)
    _, limit = step_limits(group, {}, turns)[group[0].cell]
    assert default == pytest.approx(limit.communication_percent)
    assert small == pytest.approx(100 * (1 - 70.5 / 90.5), abs=0.1)  # by the launches


def test_turns_tell_what_communication_costs_after_one_launch_of_each() -> None:
    default = of("ddp_default", 100)
    ahead = host_time([{"forward": 0.05, "backward": 0.05}] * 16, {}, lead_ms=50.0)
    (one,) = default.launches
    default = replace(default, launches=(replace(one, host_times=(ahead,) * default.world.size),))
    group = [default, of("no_comm", 70)]
    assert step_limits(group, {})[default.cell][1].by is None
    _, limit = step_limits(group, {}, {TABLE: turns_of(ddp_default=100, no_comm=79)})[default.cell]
    assert limit.by == "transfer"
    assert 20 < (limit.percent or 0) < 22
    assert 25 < (limit.most_gain_percent or 0) < 45
