"""A ``--hook`` that is none says what is wrong."""

from pathlib import Path

import pytest

from tests.forked import perf as pytest_perf


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        ("bf16", "--hook bf16: a hook of your own is PKG.MODULE:ATTR; torch's are always tested"),
        ("tests.hooks_for_tests:nothing", "module 'tests.hooks_for_tests' has no 'nothing'"),
        ("tests.hooks_for_tests:HERE_IS_NOTHING", "has no 'HERE_IS_NOTHING'"),
        (
            "tests.no_such_module:hook",
            "importing it raised ModuleNotFoundError: No module named 'tests.no_such_module'",
        ),
        ("tests.hooks_for_tests:named_like_another", "there is another hook or config named 'bf16'"),
        (
            "tests.hooks_for_tests:low_rank",
            "PowerSGD is held to promise='low_rank': promise 'nothing', with error_feed",
        ),
        ("tests.hooks_for_tests:Memory", "is a type, not a Hook: from fixtures.matrix.hook import Hook"),
    ],
)
def test_a_wrong_hook_says_what_is_wrong(tmp_path: Path, hook: str, says: str) -> None:
    outcome = pytest_perf(tmp_path, "perf", "--collect-only", "-q", f"--hook={hook}")
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert says in outcome.errors
