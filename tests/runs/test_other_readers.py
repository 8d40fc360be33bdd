"""``--benchmark-json`` as github-action-benchmark (``tool: pytest``) and Bencher (``python_pytest``) read it.

Both parse strict JSON and take one series for each ``fullname``. The first draws ``stats.ops`` and shows ``stddev``,
``mean`` and ``rounds``. The second needs ``machine_info`` and ``commit_info``, of any content, and for each benchmark
the numbers ``mean``, ``stddev``, ``median`` and ``iqr``; a name has 1 to 1024 characters, no space at its ends.
"""

import json
import math
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.command_line import ROOT
from tests.fake_gpus import machine
from tests.forked import perf

STORED = sorted((ROOT / "baselines").rglob("*.json"))
READ = ("ops", "stddev", "mean", "rounds", "median", "iqr")


def strict(text: str) -> dict[str, Any]:
    """Without NaN and Infinity, which JSON does not have."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is no JSON")

    record: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return record


def check(record: dict[str, Any]) -> None:
    assert isinstance(record["machine_info"], dict)
    assert isinstance(record["commit_info"], dict)
    names = [one["fullname"] for one in record["benchmarks"]]
    assert len(names) == len(set(names)) > 0
    assert all(0 < len(name) <= 1024 and name == name.strip() for name in names)
    for one in record["benchmarks"]:
        numbers = [one["stats"][key] for key in READ]
        assert all(type(number) in (int, float) and math.isfinite(number) and number >= 0 for number in numbers)
        assert one["stats"]["ops"] == pytest.approx(1 / one["stats"]["mean"])


def test_other_tools_read_a_run(tmp_path: Path) -> None:
    file = tmp_path / "nightly.json"
    asked = ("perf", "-k", "4gpu and (throughput or collectives)", f"--benchmark-json={file}")
    outcome = perf(tmp_path / "baselines", *asked, "-p", "tests.fake_gpus", variables=machine())
    assert outcome.exit_code == 0, outcome.output
    check(strict(file.read_text()))


@pytest.mark.parametrize("file", STORED, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_other_tools_read_the_stored_records(file: Path) -> None:
    check(strict(file.read_text()))
