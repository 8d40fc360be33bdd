"""What a speed means beside the others, and the lines of the table, from measurements made by hand."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from fixtures.explain.gpu_state import LaunchState, Reading
from fixtures.explain.topology import Gpus
from fixtures.judge.comparison import Comparison, comparisons
from fixtures.judge.measurement import Launch, Measurement
from fixtures.judge.run import Judged, Run
from fixtures.judge.settings import Settings
from fixtures.judge.verdict import judge
from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import parse_world, worlds_of
from fixtures.report.recording import recording_command
from fixtures.report.table import best_lines, blunt_lines, record_lines, report_lines

SETTINGS = Settings(
    gpus=Gpus(),
    instance="8x-nvidia-h200-nv18",
    worlds=worlds_of(8),
    workloads=WORKLOADS,
    hooks={},
    interconnects=INTERCONNECTS,
    launches=1,
    steps=3,
    warmup=10,
    rank_timeout_s=120,
    min_slowdown_percent=1,
    false_alarms_percent=1,
    recheck_s=60,
    against=None,
    max_pairs=10,
    require_baseline=False,
    explain="failures",
    traces=None,
    nsys=None,
)


def launch(*step_s: float) -> Launch:
    return Launch(
        step_s=step_s,
        phase_s={},
        spent_s={},
        peak_memory_bytes=3_000_000_000,
        bucket_bytes=(1_226_141_600,),
        wire_bytes_per_step=17_200_000,
        wire_dtype="float32",
        gradient_error=2e-3,
        gradient_lossless=None,
        transport=Counter({"P2P/CUMEM": 192}),
    )


def measured(
    config: str,
    steps_per_s: float,
    *,
    world: str = "8gpu",
    workload: str = "vit_l_32",
    interconnect: str = "native",
    launches: tuple[Launch, ...] = (),
) -> Measurement:
    return Measurement(
        workload=WORKLOADS[workload],
        world=parse_world(world),
        config=CONFIGS[config],
        interconnect=INTERCONNECTS[interconnect],
        launches=launches or (launch(1 / steps_per_s),),
    )


def beside(measurement: Measurement, *others: Measurement) -> Comparison:
    return comparisons([*others, measurement])[measurement.cell]


def lines(*measurements: Measurement, history_s: Iterable[float] = ()) -> list[str]:
    """The table of a run that has judged these, each by a test of its own."""
    run = Run(settings=SETTINGS)
    for number, measurement in enumerate(measurements):
        verdict = judge(measurement.launch_medians_s, [[time] for time in history_s])
        run.judged[f"perf/test_{number}"] = Judged(measurement=measurement, verdict=verdict)
    return report_lines(run, {})


def rows(table: list[str]) -> dict[str, list[str]]:
    """Config -> the cells of its row."""
    return {cells[0]: cells[1:] for line in table if (cells := line.split()) and cells[0] in CONFIGS}


SINGLE = measured("single", 10, world="1gpu")
DDP = measured("ddp", 8)
BF16 = measured("bf16", 9)
NO_COMM = measured("no_comm", 9.5)


def test_a_config_is_compared_with_ddp_one_device_and_the_limit() -> None:
    compared = beside(BF16, SINGLE, DDP, NO_COMM)
    assert compared.against_naive_percent == pytest.approx(12.5)
    assert compared.against_single_percent == pytest.approx(-10)
    assert compared.of_limit_percent == pytest.approx(100 * 9 / 9.5)


def test_ddp_is_no_faster_than_itself() -> None:
    assert beside(DDP).against_naive_percent == 0


def test_the_limit_is_that_of_the_fastest_config_without_communication() -> None:
    compared = beside(DDP, NO_COMM, measured("no_comm-bucket_25mb", 16), measured("no_comm-bucket_10mb", 12))
    assert compared.of_limit_percent == pytest.approx(50)


def test_what_was_not_measured_is_no_reference() -> None:
    assert beside(BF16) == Comparison(against_naive_percent=None, against_single_percent=None, of_limit_percent=None)


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"world": "4gpu"},
        {"workload": "resnet50"},
        {"interconnect": "shm"},
    ],
)
def test_another_world_workload_or_interconnect_is_no_reference(elsewhere: dict[str, str]) -> None:
    compared = beside(BF16, measured("ddp", 8, **elsewhere), measured("no_comm", 9, **elsewhere))  # type: ignore[arg-type]
    assert (compared.against_naive_percent, compared.of_limit_percent) == (None, None)


def test_one_device_is_the_reference_of_every_world_of_its_workload_only() -> None:
    elsewhere = measured("single", 5, world="1gpu", workload="resnet50")
    assert beside(measured("ddp", 8, world="2gpu"), SINGLE, elsewhere).against_single_percent == pytest.approx(-20)
    assert beside(DDP, elsewhere).against_single_percent is None


@pytest.mark.parametrize(
    ("leads_s", "limited"),
    [((0.08, 0.09, 0.07), False), ((0.009, 0.003, 0.08), True), ((0.011, 0.011, 0.001), False), ((None,) * 3, False)],
)
def test_the_host_limits_a_step_when_the_device_has_hardly_any_work_left(
    leads_s: tuple[float | None, ...], limited: bool
) -> None:
    one = measured("ddp", 10, launches=tuple(replace(launch(0.1), host_lead_s=lead) for lead in leads_s))
    assert one.host_limited == limited
    assert one.extra_info()["host_lead_ms"] == (leads_s[0] and pytest.approx(1e3 * leads_s[0]))


def test_a_row_has_speed_spread_references_wire_memory_and_verdict() -> None:
    three = (launch(0.1, 0.1, 0.4), launch(0.102), launch(0.098))
    row = rows(lines(measured("bf16", 0, launches=three), DDP, SINGLE, NO_COMM))["bf16"]
    steps_per_s = (0.1 * 0.102 * 0.098) ** (-1 / 3)
    assert row == [
        f"{steps_per_s:.2f}",
        f"{1e3 / steps_per_s:.2f}",
        f"{100 * 0.004 * steps_per_s:.1f}",
        f"{100 * (steps_per_s / 8 - 1):+.1f}",
        f"{100 * (steps_per_s / 10 - 1):+.1f}",
        f"{100 * steps_per_s / 9.5:.1f}",
        "17.2",
        "3000",
        "2e-03",
        "-",
        "lossy",
        "no",
        "baseline",
    ]


def test_a_missing_reference_is_a_dash() -> None:
    assert rows(lines(BF16))["bf16"][2:6] == ["-", "-", "-", "-"]  # nor is there a spread of one launch


def test_a_peak_that_is_not_known_is_a_dash() -> None:
    launches = (replace(launch(0.1), peak_memory_bytes=None),)
    assert rows(lines(measured("bf16", 9, launches=launches)))["bf16"][7] == "-"


def test_the_verdict_stands_in_the_row_with_the_change() -> None:
    assert rows(lines(DDP, history_s=[1 / 8]))["ddp"][-3:] == ["ok", "+0.0", "%"]
    assert rows(lines(DDP, history_s=[1 / 10]))["ddp"][-3:] == ["slower", "+25.0", "%"]
    assert rows(lines(DDP, history_s=[1 / 4]))["ddp"][-3:] == ["faster", "-50.0", "%"]


def test_what_spoils_a_number_stands_beside_it_once() -> None:
    fine = Reading(sm_mhz=1980, max_sm_mhz=1980, reasons=())
    spoiled = LaunchState(before=(fine,), after=(replace(fine, sm_mhz=1410),), lasted_s=4)
    launches = tuple(replace(launch(0.1), gpu_state=spoiled) for _ in range(3))
    table = lines(DDP, measured("bf16", 9, launches=launches))
    remark = "GPU 0: SM clock 1410 of 1980 MHz"
    assert [line.count(remark) for line in table if remark in line] == [1]
    assert next(line for line in table if remark in line).startswith("bf16")


def test_without_anything_that_spoils_there_is_no_such_column() -> None:
    assert not any("remarks" in line for line in lines(DDP, BF16))


def bucketed(config: str, *bucket_mb: float, largest_mb: float = 154.4) -> Measurement:
    """Measured with these buckets, of a model whose largest parameter is that of gpt2_124m."""
    gradients = ((round(1e6 * largest_mb), 4), (3072, 4))
    sizes = tuple(round(1e6 * size) for size in bucket_mb)
    launches = (replace(launch(0.1), bucket_bytes=sizes, gradients=gradients),)
    return measured(config, 0, workload="gpt2_124m", launches=launches)


def test_buckets_that_cannot_be_as_small_as_asked_are_said_once_with_their_sizes() -> None:
    small = [bucketed(f"{hook}bucket_10mb", 11.8, 12.1, 164.6) for hook in ("", "bf16-")]
    table = lines(*small, bucketed("bucket_50mb", 54.3, 180.2), bucketed("bucket_400mb", 420, 78))
    assert [line for line in table if "never smaller" in line] == [
        "a bucket is never smaller than its largest parameter, here of 154.4 MB: the largest bucket has "
        "164.6 MB with bucket_cap_mb=10 (10.5 MB), 180.2 MB with bucket_cap_mb=50 (52.4 MB)"
    ]


def test_a_bucket_that_is_full_and_no_more_is_not_said_nor_one_whose_size_nobody_asked_for() -> None:
    full = bucketed("bucket_10mb", 11.8, 12.1, largest_mb=2)
    assert not any("never smaller" in line for line in lines(full, bucketed("ddp_default", 164.6)))


def test_each_workload_world_and_interconnect_has_a_table_with_its_transport() -> None:
    table = lines(measured("ddp", 4, interconnect="shm"), SINGLE, DDP, measured("ddp", 7, workload="resnet50"))
    assert [line for line in table if "samples a rank" in line] == [
        "resnet50, 8gpu, 64 samples a rank, native (P2P/CUMEM on 192 channels)",
        "vit_l_32, 1gpu, 32 samples a rank (P2P/CUMEM on 192 channels)",
        "vit_l_32, 8gpu, 32 samples a rank, native (P2P/CUMEM on 192 channels)",
        "vit_l_32, 8gpu, 32 samples a rank, shm (P2P/CUMEM on 192 channels)",
    ]


def test_configs_stand_in_the_order_in_which_they_are_listed() -> None:
    table = lines(NO_COMM, BF16, DDP, measured("bucket_10mb", 9))
    assert list(rows(table)) == ["ddp", "bf16", "no_comm", "bucket_10mb"]


def test_nothing_judged_is_no_table() -> None:
    assert report_lines(Run(settings=SETTINGS), {}) == []


def test_a_cell_of_two_tests_is_shown_once_with_the_verdict_that_asks_for_attention() -> None:
    run = Run(settings=SETTINGS)
    for test, history_s in (("a", []), ("b", [[0.1]]), ("c", [[0.125]])):  # no baseline, slower, ok
        run.judged[test] = Judged(measurement=DDP, verdict=judge(DDP.launch_medians_s, history_s))
    shown = [line for line in report_lines(run, {}) if line.startswith("ddp ")]
    assert len(shown) == 1
    assert shown[0].endswith("slower +25.0 %")


def best(*measurements: Measurement) -> list[str]:
    return best_lines(list(measurements), comparisons(measurements))


def test_the_best_lossless_and_the_best_lossy_config_come_with_their_code() -> None:
    slower = [measured("powersgd_rank1", 8.5), measured("ddp_default", 7), NO_COMM]
    assert best(DDP, BF16, measured("static_graph", 8.8), *slower) == [
        "",
        "best lossless: static_graph, 8.80 steps/s, +10.0 % against ddp",
        *(f"    {line}" for line in CONFIGS["static_graph"].lines()),
        "",
        "best lossy: bf16, 9.00 steps/s, +12.5 % against ddp",
        *(f"    {line}" for line in CONFIGS["bf16"].lines()),
    ]


def test_a_lossy_config_that_gains_nothing_is_said_to() -> None:
    # On 8 H200, vit_l_32.
    found = best(measured("ddp_default", 11.12), measured("bf16", 10.90), measured("bf16_powersgd_rank1", 10.27))
    assert found[1] == "best lossless: ddp_default, 11.12 steps/s"
    lossy = found.index("best lossy: bf16, 10.90 steps/s: no faster than ddp_default, which loses nothing")
    assert found[lossy + 1 :] == [f"    {line}" for line in CONFIGS["bf16"].lines()]


def test_without_ddp_the_best_is_named_without_a_gain() -> None:
    assert best(BF16, measured("fp16", 8))[1] == "best lossy: bf16, 9.00 steps/s"


def test_feeds_single_and_the_limit_are_never_best() -> None:
    others = [measured(name, 99) for name in ("feed_resident", "feed_pinned", "feed_loader", "single", "no_comm")]
    assert [line.split(",")[0] for line in best(DDP, *others) if line.startswith("best")] == ["best lossless: ddp"]
    assert best(*others) == []


def test_one_config_alone_is_not_called_best() -> None:
    assert best(DDP) == []


def test_the_best_stand_under_the_table_of_their_world() -> None:
    slow = [replace(one, world=parse_world("4gpu")) for one in (measured("ddp", 7), measured("bf16", 6))]
    named = [line for line in lines(DDP, BF16, *slow) if line.startswith(("best", "vit_l_32"))]
    assert [line.partition(" steps/s")[0] for line in named] == [
        "vit_l_32, 4gpu, 32 samples a rank, native (P2P/CUMEM on 192 channels)",
        "best lossless: ddp, 7.00",
        "best lossy: bf16, 6.00",
        "vit_l_32, 8gpu, 32 samples a rank, native (P2P/CUMEM on 192 channels)",
        "best lossless: ddp, 8.00",
        "best lossy: bf16, 9.00",
    ]


# What asks for a record


def test_each_instance_has_its_own_count_and_the_command() -> None:
    run = Run(settings=SETTINGS)
    over_shm = measured("ddp", 4, interconnect="shm")
    for test, one, history_s in (("a", DDP, []), ("b", over_shm, []), ("c", over_shm, [[0.25]])):
        run.judged[test] = Judged(measurement=one, verdict=judge(one.launch_medians_s, history_s))
    lines = [record_lines(instance, verdicts, "COMMAND") for instance, verdicts in run.verdicts_by_instance.items()]
    assert lines == [
        [f"1 of 1 test had no baseline for {SETTINGS.instance}; record one: COMMAND"],
        [f"1 of 2 tests had no baseline for {SETTINGS.instance}-shm; record one: COMMAND"],
    ]


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["perf"], "pytest perf --benchmark-save=NAME"),
        (
            ["perf", "-k", "bf16 or ddp", "--workload=my:wl", "--interconnect", "shm"],
            "pytest perf -k 'bf16 or ddp' --workload=my:wl --interconnect shm --benchmark-save=NAME",
        ),
        (
            ["--benchmark-json", "night.json", "perf", "--require-baseline", "--steps=8"],
            "pytest perf --steps=8 --benchmark-save=NAME",
        ),
        (["--benchmark-save=one", "perf", "--benchmark-autosave"], "pytest perf --benchmark-save=NAME"),
    ],
)
def test_the_command_that_records_selects_and_measures_what_this_one_did(arguments: list[str], command: str) -> None:
    assert recording_command(arguments) == command


# What only a large slowdown would be told of


def test_an_ok_that_says_little_is_said_to() -> None:
    far_apart = judge([0.1], [[0.1], [0.2]])
    assert far_apart.word == "ok"
    assert far_apart.threshold_percent is not None
    (line,) = blunt_lines([far_apart, judge([0.1], [[0.1], [0.1]])], 1)
    assert line.startswith(f"1 of 2 tests would be called slower only from +{far_apart.threshold_percent:.0f} % on: ")


def test_thresholds_that_differ_are_named_from_the_least_to_the_most() -> None:
    (line,) = blunt_lines([judge([0.1], [[0.1], [0.2]]), judge([0.1], [[0.1], [0.4]])], 1)
    assert re.match(r"2 of 2 tests would be called slower only from \+\d+ to \+\d+ % on: ", line)


def test_records_that_lie_close_and_none_at_all_are_not_said_to_be_blunt() -> None:
    assert blunt_lines([judge([0.1], [[0.1], [0.1]]), judge([0.1], [])], 1) == []


def test_a_threshold_that_was_asked_for_is_not_the_records_fault() -> None:
    assert blunt_lines([judge([0.1], [[0.1], [0.1]], min_slowdown_percent=30)], 30) == []
