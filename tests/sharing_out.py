"""How ``pytest tests`` is shared out to several processes by pytest-xdist.

One process runs the tests that compare times, test after test, so that such tests never run next to each other. Another
runs the whole runs that compare none: only one process waits for the machine's lock. The third runs everything else, a
file at a time, and the others join in when they are done. xdist's own groups (``--dist loadgroup``) are not kept apart
by pytest-xdist 3.8 with pytest 9.2.
"""

from xdist.scheduler import LoadScopeScheduling

# Files, and a test, by unit of work. Of e2e, extras and interruption measure nothing.
UNITS = {
    "times": (
        *(f"tests/e2e/test_{name}" for name in ("injected_causes", "whole_run")),
        *("tests/extras/slow_link/ranks/", "tests/extras/tune/e2e/", "tests/extras/upgrades/e2e/"),
        *("tests/extras/whole/ranks/", "tests/extras/whole/e2e/"),
        *(f"tests/ranks/test_{name}.py" for name in ("canaries", "feed", "profiled_ranks", "window")),
        *("tests/script/ranks/test_host_time.py", "tests/script/ranks/test_limit_of_script.py"),
        "tests/script/ranks/test_scripts.py::test_a_range_in_which_a_step_ends",
    ),
    "whole runs": (
        *(f"tests/e2e/test_{name}.py" for name in ("command_line", "nothing_left_behind", "own_hooks", "wheel")),
        *(
            "tests/extras/nsys/e2e/",
            "tests/extras/loss/e2e/",
            "tests/extras/whole/",
            "tests/script/runs/",
            "tests/runs/test_preflight.py",
        ),
        "tests/extras/slow_link/runs/test_link_option.py",
    ),
}


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Tests of a unit are run in one process. Other files are a unit each, of the mutants each function is."""

    def _split_scope(self, nodeid: str) -> str:
        file_or_function = nodeid.partition("[" if nodeid.startswith("tests/mutants/") else "::")[0]
        return next((unit for unit, files in UNITS.items() if nodeid.startswith(files)), file_or_function)
