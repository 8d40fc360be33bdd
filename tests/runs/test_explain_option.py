"""``--explain`` and ``--traces``: the tests with a profiled launch, and wrong input."""

from pathlib import Path

import pytest

from tests.command_line import QUICK, Outcome
from tests.forked import perf as pytest_perf
from tests.saved_records import only_info


def perf(storage: Path, *arguments: str, step_ms: str = "20", only: str = "2cpu-ddp]") -> Outcome:
    variables = {"DDP_PERF_TESTS_STEP_MS": step_ms}
    steady = "--workload=tests.workloads_for_tests:steady"
    return pytest_perf(storage, "perf/test_scaling.py", "-k", only, steady, *QUICK, *arguments, variables=variables)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A baseline, and where it is."""
    folder = tmp_path_factory.mktemp("saved")
    return folder, perf(folder / "baselines", "--benchmark-save=first")


def test_a_test_that_passes_is_not(saved: tuple[Path, Outcome], tmp_path: Path) -> None:
    # A busy machine makes steps longer; not by this much.
    outcome = perf(saved[0] / "baselines", "--min-slowdown=300", f"--benchmark-json={tmp_path / 'run.json'}").exits(0)
    assert "where a step" not in outcome.output
    assert "breakdown_ms" not in only_info(tmp_path / "run.json")


def test_none_profiles_nothing_and_listing_tests_makes_no_folder(tmp_path: Path) -> None:
    outcome = perf(tmp_path, "--explain=none", "--benchmark-save=first").exits(0)
    assert "where a step" not in outcome.output
    assert "--explain all" in perf(tmp_path, "--collect-only", f"--traces={tmp_path / 'traces'}").output
    assert not (tmp_path / "traces").exists()


@pytest.mark.parametrize(
    ("arguments", "which"),
    [
        ((), "failures"),
        (("--benchmark-save=a",), "all"),
        (("--benchmark-autosave",), "all"),
        (("--benchmark-save=a", "--explain=failures"), "failures"),
    ],
)
def test_the_header_says_which_tests_are_profiled(tmp_path: Path, arguments: tuple[str, ...], which: str) -> None:
    assert f"--explain {which}" in perf(tmp_path, "--collect-only", *arguments).output
