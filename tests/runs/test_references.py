"""References in a run: measured along from -k and from node ids, unjudged, unsaved, and never a failure."""

import json
import re
from pathlib import Path

import pytest

from fixtures.records.files import checked
from fixtures.records.schema import FullRecord
from tests.command_line import ALONE, QUICK, Outcome
from tests.forked import perf as pytest_perf

BF16 = "perf/test_throughput.py::test_throughput[steady-2cpu-bf16]"


def measured_along(storage: Path, *arguments: str) -> Outcome:
    # As a user types it: other tests measure only what is selected.
    workload = "--workload=tests.workloads_for_tests:steady"
    return pytest_perf(storage, workload, *QUICK, "--explain=none", *arguments, variables={"PYTEST_ADDOPTS": ""})


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, FullRecord]:
    """A run of one config that saves a baseline, and its record."""
    storage = tmp_path_factory.mktemp("storage")
    outcome = measured_along(storage, "perf", "-k", "throughput and powersgd_rank4", "--benchmark-save=one")
    (file,) = storage.rglob("*.json")
    return outcome, checked(json.loads(file.read_text()))


def test_the_selected_config_is_compared_with_references_in_the_table_and_in_the_record(
    saved: tuple[Outcome, FullRecord],
) -> None:
    assert "\n+ 3 references (ddp, no_comm, single): " in saved[0].output
    output = saved[0].output
    assert re.search(r"^powersgd_rank4 .* [+-]\d+\.\d .* no baseline$", output, re.MULTILINE)
    assert re.search(r"^no_comm .* reference$", output, re.MULTILINE)
    assert "verdict: no stored run of " in output
    record = saved[1]
    (test,) = record.benchmarks
    assert test.extra_info.against_naive_percent is not None
    assert {reference.config for reference in record.references or []} == {"ddp", "no_comm", "single"}


@pytest.mark.parametrize(
    ("arguments", "configs"),
    [
        ((BF16,), ["single", "ddp", "no_comm", "bf16"]),
        (("perf/test_throughput.py", "-k", "bf16 and not powersgd"), ["single", "ddp", "no_comm", "bf16"]),
        ((BF16, *ALONE), ["bf16"]),
        (("perf", "-k", "collectives and 4mb"), ["all_reduce_4mb"]),
    ],
    ids=["node id", "file", "left out", "none"],
)
def test_a_node_id_and_a_file_have_the_same_references_unless_they_are_left_out(
    tmp_path: Path, arguments: tuple[str, ...], configs: list[str]
) -> None:
    listed = measured_along(tmp_path, *arguments, "--collect-only", "-q")
    assert [re.split(r"[-\]]", test)[-2] for test in listed.test_ids] == configs


def test_required_baselines_are_not_required_of_references(tmp_path: Path) -> None:
    assert measured_along(tmp_path, BF16, "--benchmark-save=one").exit_code == 0
    assert measured_along(tmp_path, BF16, "--require-baseline", "--min-slowdown=100").exit_code == 0
