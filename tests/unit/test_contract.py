"""What docs/reference/stability.md promises is there, and records are shown and judged as before.

Where a change is on purpose, ``python -m tests.contract`` and ``python -m tests.golden FOLDER`` write the files anew.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fixtures.extras import EXTRAS
from tests.command_line import ROOT
from tests.contract import CONTRACT, TEST_IDS, collected, contract
from tests.golden import GOLDEN, ONE_INSTANCE, golden, texts_of_records, texts_of_replays

_LISTED = re.findall(
    r"^\| `(\w+)` \|", (ROOT / "fixtures/extras/README.md").read_text().partition("| extra |")[2], re.M
)
pytestmark = pytest.mark.skipif(not EXTRAS.keys() >= set(_LISTED), reason="an extra was deleted, and its names with it")


def test_no_promised_name_changes_unseen() -> None:
    assert contract() == CONTRACT.read_text().splitlines()


def test_no_test_id_changes_unseen() -> None:
    assert sorted(collected()) == TEST_IDS.read_text().splitlines()


@pytest.mark.parametrize("texts", [texts_of_records, partial(texts_of_replays, ONE_INSTANCE)], ids=["shown", "judged"])
def test_the_shipped_records_are_shown_written_again_and_judged_as_before(texts: Callable[[], Any]) -> None:
    assert golden(texts()).items() <= json.loads(GOLDEN.read_text()).items()
