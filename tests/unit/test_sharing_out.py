"""Which tests of ``pytest tests`` never run next to each other."""

from tests.command_line import ROOT
from tests.sharing_out import NOT_ONE_BY_ONE, ONE_BY_ONE


def test_what_measures_time_exists() -> None:
    assert [beginning for beginning in (*ONE_BY_ONE, *NOT_ONE_BY_ONE) if not (ROOT / beginning).exists()] == []
