"""What seems slower is looked at again: how often, when, and that only what stays slower is called so."""

from pathlib import Path

from tests.command_line import pytest_perf
from tests.workloads_for_tests import BURST


def test_a_burst_on_live_ranks_is_waited_out(tmp_path: Path) -> None:
    """Twenty seconds, in which a test of two launches is measured at least twice."""
    perf = ("perf/test_scaling.py", "-k=single", "--launches=2", "--steps=8", "--warmup=4", "--explain=none")
    workload = "--workload=tests.workloads_for_tests:burst"
    saved = pytest_perf(tmp_path, *perf, workload, "--benchmark-save=before")
    assert saved.exit_code == 0, saved.output
    waited = pytest_perf(tmp_path, *perf, workload, "--recheck=30", variables={BURST: str(tmp_path / "burst")})
    assert waited.exit_code == 0, waited.output
    assert "launched again in 10 s (--recheck: 30 s left)" in waited.output
