"""The limit of the link, for the records in baselines/."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.machine.nccl_log import Fingerprint
from fixtures.matrix.configs import CONFIGS, find_config
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from fixtures.records.files import checked
from fixtures.records.measurement import Measurement
from fixtures.records.schema import FullRecord, TestRecord
from fixtures.report.under_the_table import link_limit_lines
from fixtures.session.canaries import CanaryTimes
from fixtures.session.run_state import Run
from tests.builders import SETTINGS, launch

BASELINES = Path(__file__).parents[3] / "baselines"
# Records -> whether ddp's gradients need longer than its backward pass of 54 ms.
LIMITED = {"2x": False, "4x": True, "8x": True}
TEST = tuple[str, str]  # workload and world


def measured(info: TestRecord, gradient_bytes: int) -> Measurement:
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
        found[table] = link_limit_lines([measured(info, sent) for info in infos], run)
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
