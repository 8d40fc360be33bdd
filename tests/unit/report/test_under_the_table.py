"""Below a table: bandwidth, the limit of the link, what settings gain, what a sharding saves."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.machine.nccl_log import Fingerprint
from fixtures.matrix.configs import (
    CONFIGS,
    DDP_PLAIN,
    DDP_SETTINGS,
    NCCL_AUTOMATIC,
    NCCL_SETTINGS,
    find_config,
)
from fixtures.matrix.transfers import TRANSFERS
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from fixtures.records.config_comparison import best_of, fastest_lossless
from fixtures.records.files import checked
from fixtures.records.measurement import Measurement, TimedLaunch, Transfers
from fixtures.records.schema import FullRecord, TestRecord
from fixtures.report.under_the_table import bandwidth_lines, link_limit_lines, setting_lines
from fixtures.session.canaries import CanaryTimes
from fixtures.session.leaders_in_turns import setting_gains
from fixtures.session.run_state import Run
from fixtures.stats.difference import of_sides
from fixtures.stats.verdict import judge
from tests.builders import SETTINGS, case_of, known, launch, measured, report_of

# Launches of a set of ranks differ so on H200s.
NOISE = 0.0005


def launched(config: str, *step_s: float) -> Measurement:
    return measured(config, 0, launches=tuple(map(launch, step_s)))


NCCL_FILE = (*NCCL_AUTOMATIC, *NCCL_SETTINGS)
DDP_FILE = (*DDP_PLAIN, *DDP_SETTINGS)


def table(seed: int, configs: Sequence[str] = NCCL_FILE, /, **steps_s: float) -> list[Measurement]:
    """Every config of a file with three launches, of 0.1 s unless said. steps_s: config -> its steps."""
    draw = random.Random(seed)
    return [
        launched(name, *(steps_s.get(name, 0.1) * (1 + draw.gauss(0, NOISE)) for _ in range(3))) for name in configs
    ]


@pytest.mark.parametrize(
    ("configs", "steps_s", "settings", "decided"),
    [
        (NCCL_FILE, {"bucket_10mb": 0.2}, NCCL_SETTINGS, {"ctas_4-bucket_10mb", "ctas_8-bucket_10mb"}),
        (
            DDP_FILE,
            {"fp16-bucket_25mb": 0.05, "builtin_fp16-bucket_25mb": 0.0495},
            DDP_SETTINGS,
            {"builtin_fp16-bucket_25mb"},
        ),
    ],
    ids=["NCCL", "DDP"],
)
def test_a_setting_is_compared_with_the_config_that_it_names(
    configs: Sequence[str], steps_s: dict[str, float], settings: Sequence[str], decided: set[str]
) -> None:
    """Of the same bucket: tests/unit/matrix/test_matrix.py."""
    gains = setting_gains(table(6, configs, **steps_s))
    assert {gain.setting.config.name for gain in gains} == {*settings}
    assert all(gain.without.config.name == gain.setting.config.compared_with for gain in gains)
    assert {gain.setting.config.name for gain in gains if gain.decided} == decided


def test_a_gain_is_in_steps_per_second_with_its_interval() -> None:
    first = setting_gains(table(2, **{"ctas_8-bucket_10mb": 0.1 / 1.009}))[0]
    assert first.setting.config.name == "ctas_8-bucket_10mb"
    assert first.decided
    low, high = first.found.interval_percent
    assert 0.5 < low < 0.9 < high < 1.3
    assert low < first.found.percent < high


def test_a_gain_is_judged_as_two_sides_of_an_ab_test_are() -> None:
    plain, setting = launched("bucket_10mb", 0.1, 0.1001, 0.1003), launched("ctas_8-bucket_10mb", 0.09, 0.0903, 0.0901)
    found = of_sides(plain.launch_medians_s, setting.launch_medians_s)
    (gain,) = setting_gains([plain, setting])
    assert gain.found == found


def test_a_variable_of_a_script_is_compared_with_the_script_as_written() -> None:
    of_script = [name for name in CONFIGS if name.startswith("as_written")]
    (line,) = setting_lines(table(9, of_script, **{"as_written-connections_1": 0.0986}))
    assert line.startswith("as_written-connections_1 gains 1.4 % over as_written (1.")
    (line,) = setting_lines(table(4, of_script))
    assert line.startswith(f"none of {len(of_script) - 1} of the script's settings clearly gains; most: ")


def test_of_equal_settings_one_is_rarely_called_better() -> None:
    assert sum(any(gain.decided for gain in setting_gains(table(seed))) for seed in range(200)) <= 200 * 0.1


def test_one_launch_and_a_disturbed_run_decide_nothing() -> None:
    lines = setting_lines([launched("bucket_10mb", 0.1), launched("ctas_8-bucket_10mb", 0.05)])
    assert lines == ["one launch decides nothing about NCCL's settings"]
    assert setting_lines(table(5, **{"ctas_8-bucket_10mb": 0.05}), run_disturbed=True) == []


WITHOUT_A_SETTING = tuple(name for name in CONFIGS if not CONFIGS[name].compared_with)


@pytest.mark.parametrize("names", [WITHOUT_A_SETTING, ("ctas_8-bucket_10mb", "bucket_25mb")], ids=["none", "other"])
def test_without_its_automatic_config_a_setting_has_no_gain(names: tuple[str, ...]) -> None:
    assert setting_lines([launched(name, 0.1, 0.1) for name in names]) == []


# What a sharding saves, and which configs may be called best, out of launches made by hand


def sharded(config: str, step_s: float, peak_gb: float | None = 6.0, *, launches: int = 3) -> Measurement:
    peak = None if peak_gb is None else round(1e9 * peak_gb)
    one = replace(launch(step_s), peak_memory_bytes=peak, gradient_lossless=True)
    return measured(config, 0, launches=tuple(replace(one, step_s=(step_s * (1 + n / 1e4),)) for n in range(launches)))


def next_to_adamw(others: Mapping[str, tuple[float, float | None]]) -> list[Measurement]:
    """adamw has steps of 0.1 s and a peak of 6 GB."""
    return [sharded("adamw", 0.1), *(sharded(config, *numbers) for config, numbers in others.items())]


def test_configs_with_another_optimizer_are_not_called_best() -> None:
    """Next to configs that train with the workload's own; among themselves, those with the most frequent one."""
    others = [sharded("sgd_fused", 0.05), *next_to_adamw({"fsdp2": (0.09, 3.9)})]
    (best,) = best_of(others)
    assert best.among == ["fsdp2"]
    (best,) = best_of([sharded("ddp", 0.2), sharded("ddp_default", 0.3), *others])
    assert best.among == ["ddp"]
    assert known(fastest_lossless([sharded("ddp", 0.2), *others])).config.name == "ddp"


# Below each bandwidth curve: its latency and bandwidth


def curve(*names: str, latency_s: float = 20e-6, gb_per_s: float = 200) -> list[str]:
    """The lines below ``bare ...`` of these transfers on eight GPUs."""
    run = Run(settings=replace(SETTINGS))
    for name in names:
        empty = Transfers(
            transfer=TRANSFERS[name], world=parse_world("8gpu"), interconnect=INTERCONNECTS["native"], launches=()
        )
        seconds = latency_s + empty.message_bytes / gb_per_s / 1e9
        run.cases[f"perf/test_collectives.py::test_collectives[8gpu-{name}]"] = case_of(
            measurement=replace(empty, launches=(TimedLaunch(step_s=(seconds,)),)), verdict=judge([seconds], [])
        )
    return bandwidth_lines(run, report_of(run))


@pytest.mark.parametrize(
    ("kind", "says", "bus"), [("all_reduce", "all-reduce", 350), ("reduce_scatter", "reduce-scatter", 175)]
)
def test_latency_and_bandwidth_of_three_sizes_are_one_line(kind: str, says: str, bus: int) -> None:
    (fit,) = [line for line in curve(*(f"{kind}_{size}" for size in ("8b", "1mb", "256mb"))) if "latency" in line]
    assert fit == f"{says}: latency 20 us, bandwidth 200 GB/s (bus {bus}); fit over 3 sizes, up to 0 % off"


def test_two_sizes_have_no_fit_and_kinds_are_not_mixed() -> None:
    lines = curve("all_reduce_8b", "all_reduce_1mb", "all_gather_8b", "all_gather_1mb")
    assert [line for line in lines if line.startswith("bare ")] == [
        "bare all-reduces on 8gpu, native, float32",
        "bare all-gathers on 8gpu, native, float32",
    ]
    assert not any("latency" in line for line in lines)


def test_the_size_of_a_small_message_has_digits() -> None:
    sizes = {
        line.split()[0]: line.split()[1]
        for line in curve("all_reduce_8b", "all_gather_8b", "all_reduce_64kb")[2:]
        if line.startswith("all_")
    }
    assert sizes == {"all_reduce_8b": "0.000008", "all_gather_8b": "0.000032", "all_reduce_64kb": "0.07"}


# The limit of the link, for the records in baselines/


BASELINES = Path(__file__).parents[3] / "baselines"
# Records -> whether ddp's gradients need longer than its backward pass of 54 ms.
LIMITED = {"2x": False, "4x": True, "8x": True}
TEST = tuple[str, str]  # workload and world


def as_measured(info: TestRecord, gradient_bytes: int) -> Measurement:
    """As it was measured, without precision in the workload's name."""
    first = replace(
        launch(1.0),
        phase_s={phase: ms / 1e3 for phase, ms in (info.phases_ms or {}).items()},
        gradients=[(gradient_bytes, 4)],
        fingerprint=Fingerprint(transports=info.transport or {}),
    )
    return Measurement(
        workload=WORKLOADS["vit_l_32"],
        world=parse_world(info.world or ""),
        config=find_config(info.config or ""),
        interconnect=INTERCONNECTS[info.interconnect or ""],
        launches=tuple(replace(first, step_s=(median,)) for median in info.launch_medians_s),
    )


def lines_of(record: FullRecord) -> dict[TEST, list[str]]:
    """Workload and world -> the lines."""
    run = Run(settings=SETTINGS)
    for name, canaries in (record.canaries or {}).items():
        times = {canary: list(one.before_s) for canary, one in canaries.canaries.items()}
        run.canaries.times[name] = CanaryTimes(world=canaries.world, before_s=times)
    by_table: dict[TEST, list[TestRecord]] = {}
    for benchmark in record.benchmarks:
        info = benchmark.extra_info
        if info.config in CONFIGS and info.bucket_bytes:
            by_table.setdefault((info.workload, info.world or ""), []).append(info)
    found = {}
    for table, infos in by_table.items():
        sent = max(sum(info.bucket_bytes or []) for info in infos)
        found[table] = link_limit_lines([as_measured(info, sent) for info in infos], run)
    return found


def record_of(file: str) -> FullRecord:
    return checked(json.loads((BASELINES / file).read_text()))


@pytest.mark.parametrize("file", sorted(BASELINES.glob("*/*.json")), ids=lambda f: f"{f.parent.name}/{f.stem}")
def test_a_link_through_host_memory_is_named_where_compute_cannot_hide_the_gradients(file: Path) -> None:
    through_host = file.parent.name.endswith("-shm")
    for (workload, world), lines in lines_of(checked(json.loads(file.read_text()))).items():
        largest = world == f"{file.parent.name[0]}gpu"
        captured = workload in ("vit_l_32_autocast", "vit_l_32_tf32")
        expected = through_host and largest and (captured or LIMITED[file.parent.name[:2]])
        assert bool(lines) == expected, (workload, world, lines)


def test_the_line_has_the_bytes_what_helps_and_a_time_that_no_measured_config_beats() -> None:
    lines = lines_of(record_of("4x-nvidia-h200-nv18-shm/0001_vit.json"))["vit_l_32", "4gpu"]
    assert " ".join(" ".join(lines).split()) == (
        "through host memory no config can send 1.2 GB in less than 69 ms, of which compute hides at most 54: "
        "only fewer bytes help"
    )
    # The canary of this record takes 218 ms for the bytes that ddp_default sends in 177 ms.
    lines = lines_of(record_of("8x-nvidia-h200-nv18-shm/0002_vit.json"))["vit_l_32", "8gpu"]
    assert " in less than 177 ms" in " ".join(lines)
