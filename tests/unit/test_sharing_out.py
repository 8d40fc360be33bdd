"""Which tests of ``pytest tests`` never run next to each other."""

from tests.command_line import ROOT
from tests.sharing_out import NOT_ONE_BY_ONE, ONE_BY_ONE, Scheduling


def scope(nodeid: str) -> str:
    """The unit of work to which a test belongs."""
    return Scheduling._split_scope(object.__new__(Scheduling), nodeid)


def test_what_measures_time_is_one_unit_of_work() -> None:
    assert len({scope(f"{beginning}::test_it[1]") for beginning in (*ONE_BY_ONE, "tests/e2e/test_a.py")}) == 1


def test_what_measures_time_exists() -> None:
    assert [beginning for beginning in (*ONE_BY_ONE, *NOT_ONE_BY_ONE) if not (ROOT / beginning).exists()] == []


def test_each_file_of_other_tests_is_a_unit_of_its_own() -> None:
    names = ("tests/unit/stats/test_verdict.py", "tests/unit/stats/test_prior.py", "tests/ranks/test_wire_bytes.py")
    assert [scope(f"{name}::test_it[a::b]") for name in names] == [*names]
