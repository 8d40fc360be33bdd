"""How ``pytest tests`` is shared out to several processes by pytest-xdist.

One process runs what measures time or waits for the machine's lock, test after test, so that such tests never run next
to each other. The others run everything else, a file at a time, and the first joins in when it is done. xdist's own
groups (``--dist loadgroup``) are not kept apart by pytest-xdist 3.8 with pytest 9.2.

ONE_BY_ONE has the file of each test of live ranks that compares times. It also has the tests of whole runs, unless they
measure nothing or each has its own network namespace, and with it its own lock.
"""

from xdist.scheduler import LoadScopeScheduling

ONE_BY_ONE = (
    "tests/e2e/",
    *("tests/extras/nsys/e2e/", "tests/extras/script/runs/", "tests/extras/slow_link/ranks/", "tests/extras/tune/e2e/"),
    "tests/runs/test_preflight.py",
    *(
        f"tests/ranks/test_{name}.py"
        for name in (
            *("canaries", "feed", "one_at_a_time", "planted", "preflight"),
            *("profiled_ranks", "transfers", "window"),
        )
    ),
)
NOT_ONE_BY_ONE = tuple(f"tests/e2e/test_{name}.py" for name in ("extras", "interruption"))


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Tests of ONE_BY_ONE are one unit of work; of other tests each file is."""

    def _split_scope(self, nodeid: str) -> str:
        alone = nodeid.startswith(ONE_BY_ONE) and not nodeid.startswith(NOT_ONE_BY_ONE)
        return "one by one" if alone else nodeid.partition("::")[0]
