"""The output of a search."""

from dataclasses import replace
from typing import Literal

import pytest

from fixtures.extras.tune.candidates import Candidate
from fixtures.extras.tune.tuned import Tuned, TuningRecord, patches
from fixtures.extras.tune.tuning_lines import tuning_lines
from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import parse_world

BEST, WORKLOAD, WORLD = Candidate(config=CONFIGS["bucket_10mb"]), WORKLOADS["vit_tiny"], parse_world("2cpu")
FOUND = Tuned(
    workload=WORKLOAD,
    world=WORLD,
    best=BEST,
    default=Candidate(config=CONFIGS["ddp_default"]),
    record=TuningRecord(
        workload="vit_tiny",
        world="2cpu",
        interconnect="native",
        config="bucket_10mb",
        decision="faster",
        interrupted=False,
        tied=[],
        left_out=[],
        step_s=0.1,
        samples_per_s=80,
        gradients_checked=True,
        launches=9,
        took_s=60,
        limit_s=60,
        patches=patches(BEST, WORKLOAD, WORLD),
        tried=[],
    ),
)


def test_what_the_training_cannot_have_is_not_pasted() -> None:
    assert any("static_graph=True" in line for line in tuning_lines(FOUND))
    excluded = frozenset({"static_graph"})
    lines = tuning_lines(replace(FOUND, excluded=excluded).noted(patches=patches(BEST, WORKLOAD, WORLD, excluded)))
    assert not any("static_graph=True" in line for line in lines)
    assert any("static_graph is left out: this training cannot use it" in line for line in lines)


@pytest.mark.parametrize(("word", "pasted"), [("faster", True), ("unfinished", False)])
def test_what_is_not_decided_is_nothing_to_paste(word: Literal["faster", "unfinished"], pasted: bool) -> None:
    lines = tuning_lines(FOUND.noted(decision=word))
    assert any("bucket_cap_mb=10" in line for line in lines) == pasted
    assert any("nothing is decided, so there is nothing to paste" in line for line in lines) != pasted
