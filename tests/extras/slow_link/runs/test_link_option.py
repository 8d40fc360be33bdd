"""``--link``: wrong input, and the name and the record of a run behind a link."""

import json
import re
from pathlib import Path

import pytest

from tests.command_line import QUICK
from tests.forked import perf as pytest_perf
from tests.machines import require_namespaces

SINGLE = ("perf/test_scaling.py", "--workload=tests.workloads_for_tests:steady", *QUICK, "-k", "single")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--link fast", "--link 'fast': a rate is a number with kbit, mbit or gbit, such as 1gbit or 2.5gbit"),
        ("--link 1gbit,5", "--link '5': a delay is a number with us, ms or s, such as 50us"),
    ],
)
def test_wrong_input_is_reported_in_one_line(tmp_path: Path, arguments: str, complaint: str) -> None:
    outcome = pytest_perf(tmp_path, "perf", *arguments.split())
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert outcome.errors.strip() == f"ERROR: {complaint}"


def test_a_link_that_this_machine_cannot_fill_ends_the_run(tmp_path: Path) -> None:
    require_namespaces()
    outcome = pytest_perf(tmp_path, "perf", "--link", "900gbit")
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    (line,) = outcome.errors.strip().splitlines()
    assert re.match(r"ERROR: --link 900gbit: .*carries \d", line), line


def test_a_record_behind_a_link_is_of_another_instance(tmp_path: Path) -> None:
    require_namespaces()
    first = pytest_perf(tmp_path, *SINGLE, "--benchmark-save=first")
    assert first.exit_code == 0, first.output + first.errors
    (instance,) = (folder.name for folder in tmp_path.iterdir())
    linked = pytest_perf(tmp_path, *SINGLE, "--link", "0.1gbit", "--benchmark-save=linked")
    assert linked.exit_code == 0, linked.output + linked.errors
    assert "each rank behind a link of 100mbit; measured " in linked.output
    assert "\ntakes about " not in linked.output  # what the record without the link says
    assert f"verdict: no stored run of {instance}-link_100mbit to compare with yet (1 measured test)\n" in linked.output
    record = json.loads((tmp_path / f"{instance}-link_100mbit" / "0001_linked.json").read_text())
    assert record["instance"] == f"{instance}-link_100mbit"
    assert 0.85e8 < record["link"]["data_bits_per_s"] < 1.05e8
    assert "link" not in json.loads((tmp_path / instance / "0001_first.json").read_text())
