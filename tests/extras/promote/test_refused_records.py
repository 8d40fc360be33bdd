"""Records that promotion refuses: names and links that lead out of the storage, numbers that contradict each other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.__main__ import main
from fixtures.extras.promote.command import contradictions
from fixtures.records.files import checked, read_record
from fixtures.records.schema import SCHEMA
from tests.command_line import ROOT
from tests.nightly_records import HERE, Record
from tests.unit.records.test_baselines import HOSTILE

TEST = "perf/test_throughput.py::test_throughput[vit_tiny-2cpu-ddp]"
COMMITTED = sorted((ROOT / "baselines").glob("*/*.json"))


def record(instance: str = HERE, interconnect: str = "native", **info: object) -> Record:
    named = {"instance": instance, "interconnect": interconnect, "workload": "vit_tiny"}
    timed = {"launch_medians_s": [0.1, 0.1], "steps_per_s": 10.0}
    return {
        "schema": SCHEMA,
        "instance": instance,
        "failed": {},
        "interrupted": False,
        "benchmarks": [{"fullname": TEST, "extra_info": {**named, **timed, **info}}],
    }


@pytest.fixture
def promote(tmp_path: Path) -> Callable[[Record], int]:
    """``promote(record)``: ``python -m fixtures promote --yes`` of it into 1/2/3/baselines; the exit code."""
    storage = tmp_path / "1" / "2" / "3" / "baselines"
    storage.mkdir(parents=True)

    def promote(record: Record) -> int:
        file = tmp_path / "night.json"
        file.write_text(json.dumps(record))
        return main(["promote", "--yes", f"--storage={storage}", str(file)])

    return promote


def files_in(folder: Path) -> list[str]:
    return [file.name for file in folder.rglob("*") if file.is_file()]


@pytest.mark.parametrize(
    ("name", "interconnect"),
    [
        *((name, "native") for name in HOSTILE.values()),
        # An instance is named after a forced interconnect: without its ending it is a good name.
        *(
            (f"rack-7-{behind}", behind)
            for behind in ("/../../elsewhere", "/../../../elsewhere", "/more", "\0", "x" * 200)
        ),
    ],
)
def test_a_record_of_no_instance_is_refused(
    promote: Callable[[Record], int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    interconnect: str,
) -> None:
    assert promote(record(name, interconnect)) == 1
    headline, line = capsys.readouterr().err.splitlines()
    assert headline == "refused, nothing was written:"
    assert line.startswith(f"{tmp_path / 'night.json'}: {TEST}: instance '")
    assert line.endswith("and has at most 200 characters: measure again")
    assert files_in(tmp_path) == ["night.json"]


@pytest.mark.parametrize(
    ("what", "lie"),
    [
        ("steps_per_s", {"steps_per_s": 11.0}),
        ("samples_per_s", {"samples_per_step": 32, "samples_per_s": 640.0}),
        ("spread_percent", {"spread_percent": 2.0}),
        ("number of launch_steps", {"launch_steps": [3]}),
        ("mfu_percent", {"mfu_percent": 50, "peak_flops_per_s": 1e15, "world_size": 2, "flops_per_step": 1e12}),
        ("wire_bytes_per_step", {"wire_bytes_per_sample": 1, "samples_per_step": 32, "wire_bytes_per_step": 33}),
        ("buckets", {"buckets": 3, "bucket_bytes": [1000, 2000]}),
        ("transfer_s", {"transfer_s": 0.01}),
        ("algorithm_gb_per_s", {"message_bytes": 10**9, "algorithm_gb_per_s": 20.0}),
    ],
)
def test_a_number_that_contradicts_the_others_is_named(what: str, lie: dict[str, Any]) -> None:
    (benchmark,) = checked(record(**lie)).benchmarks
    (line,) = contradictions(benchmark)
    assert line.startswith(f"{TEST}: {what} is ")


def test_a_launch_whose_median_is_not_that_of_its_steps_is_named() -> None:
    launches = record(launch_steps=[1, 3])
    launches["benchmarks"][0]["stats"] = {"data": [0.1, 0.2, 0.2, 0.3]}
    assert contradictions(checked(launches).benchmarks[0]) == [
        f"{TEST}: launch median is 0.1, by its other numbers 0.2"
    ]


@pytest.mark.parametrize("file", COMMITTED, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_numbers_of_every_committed_record_agree(file: Path) -> None:
    assert [line for benchmark in checked(read_record(file)).benchmarks for line in contradictions(benchmark)] == []
