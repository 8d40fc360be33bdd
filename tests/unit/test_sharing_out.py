"""Which tests of ``pytest tests`` never run next to each other."""

from tests.command_line import ROOT
from tests.sharing_out import NOT_ONE_BY_ONE, ONE_BY_ONE


def test_what_measures_time_exists() -> None:
    of_the_core = [one for one in (*ONE_BY_ONE, *NOT_ONE_BY_ONE) if not one.startswith("tests/extras/")]
    assert [beginning for beginning in of_the_core if not (ROOT / beginning).exists()] == []
