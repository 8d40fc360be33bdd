"""The output of a search."""

from dataclasses import replace
from typing import Literal

import pytest

from fixtures.extras.tune.candidates import Candidate
from fixtures.extras.tune.tuned import Tuned
from fixtures.extras.tune.tuning_lines import tuning_lines
from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import INTERCONNECTS, parse_world

FOUND = Tuned(
    workload=WORKLOADS["vit_tiny"],
    world=parse_world("2cpu"),
    interconnect=INTERCONNECTS["native"],
    best=Candidate(config=CONFIGS["bucket_10mb"]),
    default=Candidate(config=CONFIGS["ddp_default"]),
    word="faster",
    tied=(),
    seconds_per_step=0.1,
    checked=True,
    gradient_error=None,
    over_naive=None,
    over_default=None,
    of_limit=None,
    tried=(),
    launches=9,
    took_s=60,
    limit_s=60,
)


def test_what_the_training_cannot_have_is_not_pasted() -> None:
    assert any("static_graph=True" in line for line in tuning_lines(FOUND))
    lines = tuning_lines(replace(FOUND, excluded=frozenset({"static_graph"})))
    assert not any("static_graph=True" in line for line in lines)
    assert any("static_graph is left out: this training cannot use it" in line for line in lines)


@pytest.mark.parametrize(("word", "pasted"), [("faster", True), ("unfinished", False)])
def test_what_is_not_decided_is_nothing_to_paste(word: Literal["faster", "unfinished"], pasted: bool) -> None:
    lines = tuning_lines(replace(FOUND, word=word))
    assert any("bucket_cap_mb=10" in line for line in lines) == pasted
    assert any("nothing is decided, so there is nothing to paste" in line for line in lines) != pasted
