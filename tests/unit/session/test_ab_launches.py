"""Launches under two builds in turn: the time left."""

import re
from dataclasses import replace
from typing import Any, cast

import pytest

from fixtures.launch.rank_sets import OWN
from fixtures.records.measurement import Launch
from fixtures.session.ab_launches import compare
from tests.builders import SETTINGS, launch, measured
from tests.studies.test_calibration_pairs import Sides


def test_the_time_left_is_that_of_fresh_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pairs are of live ones, whose start took 5 s."""
    own, other = Sides(2), Sides(2)
    other.start_s = 5.0
    said: list[str] = []

    def one(ranks: Any, number: int) -> Launch:
        return launch(1 + number % 2 if ranks in own.ranks else 1.0)

    monkeypatch.setattr(own, "on_message", said.append)
    compare(
        measured("ddp", 1),
        "ddp",
        cast(Any, own),
        cast(Any, other),
        one,
        code=OWN,
        settings=replace(SETTINGS, max_pairs=5),
        tests=1,
        earlier=[],
    )
    assert [line.rpartition("; ")[2] for line in said] == [
        "pair 3 of 5, about 5 s each",
        "pair 4 of 5, about 0 s each",
        "pair 5 of 5, about 0 s",
    ]
    change = r"\d+\.\d\d %( slower| faster)?"
    assert re.fullmatch(rf"ddp: {change} \({change} to {change}\) after 2 pairs, undecided; pair 3 .*", said[0])
