"""Advice, as a user sees it and as it is recorded.

What DDP's buckets are is shown on live ranks by ../ranks/test_bucket_layout.py, and that live ranks answer what
advice needs by tests/e2e/test_whole_run.py.
"""

from pathlib import Path

import pytest

from tests.command_line import QUICK, Outcome
from tests.extras.predict.runs.communicating import STEPS
from tests.forked import perf as pytest_perf
from tests.saved_records import Record, infos, records_of

FILES = ("perf/test_throughput.py", "perf/test_collectives.py")
WIDE, SLOW_TO_CAST = (f"--workload=tests.extras.predict.runs.communicating:{name}" for name in STEPS)
ASKED = "all_reduce_1mb or all_reduce_16mb or ddp] or ddp_default] or bf16] or no_comm]"
# Whether a step of it in bfloat16 is shorter than one of any other config.
GAINS = {"wide": True, "slow_to_cast": False}
gains_or_not = pytest.mark.parametrize(("workload", "gains"), GAINS.items())


def perf(storage: Path, *arguments: str) -> Outcome:
    return pytest_perf(storage, "-p", "tests.extras.predict.runs.communicating", *arguments, *QUICK, "--explain=all")


@pytest.fixture(scope="module")
def advised(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """64 MB of gradients in a step that does little else, for each workload, with all-reduces."""
    storage = tmp_path_factory.mktemp("baselines")
    return storage, perf(storage, *FILES, WIDE, SLOW_TO_CAST, "-k", ASKED, "--benchmark-save=first")


def info_of(storage: Path, test: str) -> Record:
    (record,) = records_of(storage).values()
    return infos(record)[test]


@gains_or_not
def test_the_record_has_the_measured_step(advised: tuple[Path, Outcome], workload: str, gains: bool) -> None:
    advice = info_of(advised[0], f"test_throughput[{workload}-2cpu-ddp]")["advice"]
    measured = {one["config"]: one for one in advice if one["config"] in STEPS[workload]}
    assert ("bf16" in measured) == gains
    assert "ddp_default" in measured
    for name, one in measured.items():
        assert one["measured_ms"] == one["expected_ms"] == pytest.approx(STEPS[workload][name].ms, rel=1e-3)
