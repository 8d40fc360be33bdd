"""The schema of records: it reads every record of this repository and writes it back as it was."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.machine.nccl_log import Fingerprint
from fixtures.matrix.recorded import json_of
from fixtures.records.files import BadRecord, checked
from fixtures.records.schema import EnvironmentRecord
from tests.record_reference import DOCUMENT, with_tables

ROOT = Path(__file__).parents[3]
COMMITTED = sorted((ROOT / "baselines").glob("*/*.json"))
DDP = "perf/test_throughput.py::test_throughput[vit_l_32-8gpu-ddp]"


def small(**info: object) -> dict[str, Any]:
    """A record with what every record has, and this in its test."""
    known_info = {"workload": "vit_l_32", "launch_medians_s": [0.1, 0.1], "steps_per_s": 10.0}
    return {"schema": 1, "benchmarks": [{"fullname": DDP, "extra_info": {**known_info, **info}}]}


# Of a limit before the account of a step.
_PARTS = ("input", "host", "transfer", "late_rank", "compute")


# Any: JSON.
def without_nulls(value: Any) -> Any:
    """The same JSON without keys whose value is null."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("file", COMMITTED, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_committed_record_is_read_and_written_back_as_it_was(file: Path) -> None:
    record = json.loads(file.read_text())
    read = without_nulls(json_of(checked(record)))
    record.pop("first_run", None)  # of an extra: tests/extras/first_run
    for key in ("start_s", "other_tests_s"):
        record.pop(key, None)  # keys before tests_s
    # pytest-benchmark's own keys, which only other programs read
    del record["machine_info"], record["version"]
    record["commit_info"] = {key: record["commit_info"][key] for key in ("id", "dirty")}
    for benchmark in record["benchmarks"]:
        for key in ("group", "name", "params", "param", "options"):
            del benchmark[key]
        benchmark["stats"] = {"data": benchmark["stats"]["data"]}
        benchmark["extra_info"].pop("test_s", None)
        for key in ("known_by", *(f"{part}_percent" for part in _PARTS)):
            benchmark["extra_info"].get("step_limit", {}).pop(key, None)  # keys before the account of a step
    assert read == without_nulls(record)


def test_a_record_of_which_all_but_the_least_is_missing_is_read() -> None:
    record = checked(small())
    assert record.environment == EnvironmentRecord()
    assert record.benchmarks[0].extra_info.remeasured_launch_medians_s is None
    assert without_nulls(json_of(record)) == small() | {"environment": {}, "canaries": {}}
    info = json_of(checked(small(gradient_error=None)).benchmarks[0].extra_info)
    assert info["wire_dtype"] is None
    assert "gradient_error" not in info


def test_variables_that_nccl_has_read_are_not_in_a_record() -> None:
    """They may be secret; the environment has those that are not."""
    read = Fingerprint(nccl="2.28.9", variables={"NCCL_TOKEN": "secret"}, transports={"P2P": 1})
    assert json_of(read) == {"nccl": "2.28.9", "connected": [], "pairs": {}}


def test_keys_of_a_newer_version_are_ignored() -> None:
    record = small(of_a_newer_version=[1], verdict={"word": "ok", "of_a_newer_version": {}})
    (benchmark,) = checked({**record, "of_a_newer_version": "x"}).benchmarks
    known_info = small(verdict={"word": "ok"})["benchmarks"][0]["extra_info"]
    assert without_nulls(json_of(benchmark.extra_info)) == known_info | {
        "verdict": {"word": "ok", "history": 0, "reason": ""}
    }


def top(**values: object) -> Callable[[], dict[str, Any]]:
    return lambda: {**small(), **values}


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (
            lambda: small(host_lead_ms="0"),
            f"{DDP}: Expected `float | null`, got `str` - at `$.extra_info.host_lead_ms`",
        ),
        (
            lambda: small(gpu_state={"launches": [], "gpu_warnings": [{"kind": "clocks"}]}),
            f"{DDP}: Object missing required field `message` - at `$.extra_info.gpu_state.gpu_warnings[0]`",
        ),
        (lambda: small(spread_percent=10**400), f"{DDP}: Number out of range - at `$.extra_info.spread_percent`"),
        (lambda: small(samples_per_s=-0.0), f"{DDP}: Expected `float` >= 1e-12 - at `$.extra_info.samples_per_s`"),
        (lambda: small(launch_medians_s=[]), f"{DDP}: Expected `array` of length >= 1 - at `$.extra_info.launch_medi"),
        (lambda: small(steps_per_s=None), f"{DDP}: has no steps_per_s"),
        (top(environment={"torch": 2}), "Expected `str | null`, got `int` - at `$.environment.torch`"),
        (top(failed={"a": 1}), "Expected `str`, got `int` - at `$.failed[...]`"),
        (top(benchmarks=[3]), "benchmark 0: Expected `object`, got `int`"),
    ],
)
def test_an_impossible_value_is_named_with_its_place(record: Callable[[], dict[str, Any]], complaint: str) -> None:
    with pytest.raises(BadRecord) as refused:
        checked(record())
    assert str(refused.value).startswith(complaint)


def test_the_document_has_the_tables_of_the_schema() -> None:
    text = DOCUMENT.read_text()
    assert with_tables(text) == text, "write them anew: python -m tests.record_reference"
