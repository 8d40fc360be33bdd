"""How ``pytest tests`` is shared out to several processes by pytest-xdist.

One process runs the tests that compare times, test after test, so that such tests never run next to each other. The
others run everything else, a file at a time, and the first joins in when it is done. xdist's own groups (``--dist
loadgroup``) are not kept apart by pytest-xdist 3.8 with pytest 9.2.
"""

from xdist.scheduler import LoadScopeScheduling

# Folders, files and a test.
TIMES = (
    *(f"tests/e2e/test_{name}" for name in ("injected_causes", "whole_run")),
    *("tests/extras/slow_link/ranks/", "tests/extras/tune/e2e/", "tests/extras/upgrades/e2e/"),
    *("tests/extras/whole/ranks/", "tests/extras/whole/e2e/"),
    *(f"tests/ranks/test_{name}.py" for name in ("canaries", "feed", "profiled_ranks", "window")),
    *("tests/script/ranks/test_host_time.py", "tests/script/ranks/test_limit_of_script.py"),
    "tests/script/ranks/test_scripts.py::test_a_range_in_which_a_step_ends",
)


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """What compares times is one unit of work. Other files are a unit each, of the mutants each function is."""

    def _split_scope(self, nodeid: str) -> str:
        file_or_function = nodeid.partition("[" if nodeid.startswith("tests/mutants/") else "::")[0]
        return "times" if nodeid.startswith(TIMES) else file_or_function
