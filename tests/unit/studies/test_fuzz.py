"""A few damaged files of each kind, the same in every run; thousands are made by python -m studies.fuzz."""

import pytest

from studies.fuzz import fuzz


@pytest.mark.parametrize(("kind", "count"), [("record", 8), ("trace", 40), ("sqlite", 12)])
def test_no_damaged_file_ends_a_command_in_a_traceback(kind: str, count: int) -> None:
    assert list(fuzz(kind, range(count), seed=0)) == []
