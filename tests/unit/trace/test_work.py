"""The work of a step in counts, and how the work of two steps differs."""

from dataclasses import replace

import pytest

from fixtures.matrix.recorded import json_of
from fixtures.trace.breakdown import StepBreakdown
from fixtures.trace.profile import Counts, Work, work_changes, work_of
from tests.h200 import on_ranks, step


def doing(waits: int = 0, launches: int = 3, copies: int = 1, **kernels: int) -> StepBreakdown:
    """A step with this work."""
    names = {name: (1000, number) for name, number in kernels.items()}
    return replace(
        *(step(10, 1, 0, 0),),
        kernels=names | {"Memcpy DtoD": (9, copies)},
        copies_by_size={"DtoD of 8 bytes": copies},
        launches=launches,
        waits=waits,
    )


def test_a_number_that_differs_between_steps_or_ranks_is_unknown() -> None:
    work = work_of(on_ranks((doing(add=2), doing(add=2, waits=1)), (doing(add=2), doing(add=2, mul=1))))
    assert work.kernels == {"add": 2, "mul": None}
    assert work.copies == {"DtoD of 8 bytes": 1}
    assert work.calls == {"launch": 3, "wait": None}


def test_the_collectives_of_rank_0_have_their_sizes() -> None:
    issued = {"all_reduce of 9 float32": 2}
    assert work_of(on_ranks((doing(),)), issued).collectives == issued


def test_many_names_are_added_up_and_compared_by_the_names_of_both() -> None:
    many = {f"kernel_{number:03}_{'x' * 80}": 300 - number for number in range(200)}
    before, now = (work_of(on_ranks((doing(**kernels),))) for kernels in (many, many | {"new": 301}))
    assert len(str(json_of(before))) < 10_000
    assert [(one.what, one.more) for one in work_changes(before, now).changed["kernels"]] == [("others", 301)]
    assert not work_changes(before, before)


def of(kernels: Counts, *, wait: int = 0, launch: int = 9, gpu: bool = True) -> Work:
    calls = {"launch": launch, "wait": wait} if gpu else {}
    return Work(kernels=kernels, collectives={}, copies={}, calls=calls)


GEMMS = {"sgemm_128x64_tn": 4, "add": 2}


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        (of(GEMMS), of({**GEMMS, "add": 3}, launch=10), ["+1 x add"]),
        (of(GEMMS), of(GEMMS, wait=1), ["+1 x wait"]),
        (of(GEMMS), of(GEMMS, launch=1), ["-8 x launch"]),
        (of({**GEMMS, "mul": None}), of({**GEMMS, "mul": 1}), []),
        (of(GEMMS), of({"sgemm_128x64_tn": 6, "add": 2}), ["+2 x sgemm_128x64_tn"]),
        # Another tile of one product, with the sum of its parts.
        (of(GEMMS), of({"sgemm_128x64_tn": 3, "nvjet_64x8": 1, "splitKreduce": 1, "add": 2}, launch=10), []),
        (of(GEMMS), of({"sgemm_128x64_tn": 3, "nvjet_64x8": 2, "add": 2}), ["+2 x nvjet_64x8", "-1 x sgemm_128x64_tn"]),
        # cuDNN has algorithms of one kernel and of three.
        (of({"fprop_a": 1}), of({"winograd_b": 3, "nchwToNhwcKernel": 2}), []),
        (of({"mm": 1, "conv2d": 1}, gpu=False), of({"mm": 1, "conv1d": 1}, gpu=False), ["-1 x conv2d", "+1 x conv1d"]),
    ],
)
def test_work_that_changed_is_named_and_a_librarys_choice_is_not(before: Work, now: Work, lines: list[str]) -> None:
    assert work_changes(before, now).lines() == lines


def test_other_kernels_for_the_same_work_are_a_remark() -> None:
    changes = work_changes(of(GEMMS), of({"nvjet_64x8": 4, "add": 2}))
    assert not changes
    assert changes.same == ("other kernels for the same matrix products: -4 x sgemm_128x64_tn, +4 x nvjet_64x8",)
