"""Compute and collectives of a rank on the CPU."""

import pytest

from fixtures.trace.breakdown import StepBreakdown, break_down
from fixtures.trace.timeline import HostInterval, Timeline

TRAIN, GLOO = 1, 2

# A backward pass that waits in a hook; the range of autograd's node covers all of it.
BACKWARD = (
    ("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", TRAIN, 0, 100),
    ("torch::autograd::AccumulateGrad", TRAIN, 1, 99),
    ("aten::add_", TRAIN, 2, 12),
    ("c10d::allreduce_", TRAIN, 12, 16),
    ("aten::div_", GLOO, 62, 70),  # work of the hook after the collective
    ("aten::copy_", TRAIN, 65, 90),
)


def step(
    *host_operations: tuple[str, int, int, int], gloo: tuple[int, int] = (20, 60), on: int = GLOO
) -> StepBreakdown:
    """Break down a step from 0 to 120 with these operators, and one all-reduce of gloo on thread ``on``."""
    timeline = Timeline(
        source="drawn",
        rank=0,
        operations=(),
        ranges=(
            HostInterval(name="Batch 0", thread=TRAIN, start_ns=0, end_ns=120),
            HostInterval(name="gloo:all_reduce", thread=on, start_ns=gloo[0], end_ns=gloo[1]),
        ),
        host_operations=tuple(
            HostInterval(name=name, thread=thread, start_ns=start, end_ns=end)
            for name, thread, start, end in host_operations
        ),
    )
    (only,) = break_down(timeline).steps
    return only


@pytest.mark.parametrize(
    ("operators", "gloo", "parts_ns"),
    [
        (BACKWARD, (20, 60), (10 + 25, 4 + 40 + 3, 0, 38)),
        ([("aten::mm", TRAIN, 0, 50)], (20, 60), (50, 10, 0, 60)),  # compute covers a concurrent collective
        ([("aten::mm", 3, 60, 120)], (20, 60), (0, 40, 0, 80)),  # of another thread
        ([("c10d::allreduce_", TRAIN, 0, 10)], (5, 15), (0, 15, 0, 105)),  # handing over is no compute
        ([("c10d::allreduce_", TRAIN, 0, 10), ("aten::empty", TRAIN, 2, 4)], (20, 60), (0, 50, 0, 70)),
        # Ranges around operators are no work.
        ([("AddmmBackward0", TRAIN, 0, 120), ("aten::mm", TRAIN, 60, 70)], (20, 60), (10, 40, 0, 70)),
        ([("record_param_comms", TRAIN, 0, 120), ("aten::mm", TRAIN, 60, 70)], (20, 60), (10, 40, 0, 70)),
    ],
)
def test_the_training_thread_computes_communicates_or_waits(
    operators: list[tuple[str, int, int, int]], gloo: tuple[int, int], parts_ns: tuple[int, int, int, int]
) -> None:
    assert step(*operators, gloo=gloo).parts_ns == parts_ns


def test_a_collective_on_the_training_thread_keeps_the_operators_as_compute() -> None:
    found = step(("aten::mm", TRAIN, 70, 90), on=TRAIN)
    assert (found.parts_ns.compute, found.communication_ns) == (20, 40)
    assert (found.starved_ns, found.ahead_ns, found.copies) == (0, None, {})  # quantities of a GPU


def test_a_collective_lasts_as_gloos_range_is_ready_when_handed_over_and_exposed_while_nothing_computes() -> None:
    (only,) = step(*BACKWARD).collectives
    assert (only.what, only.ns) == ("all_reduce", 40)
    assert (only.ready_ns, only.start_ns, only.exposed_ns) == (12, 20, 40)
    (only,) = step(("c10d::allreduce_", TRAIN, 0, 10), ("aten::mm", TRAIN, 15, 50)).collectives
    assert (only.ready_ns, only.exposed_ns) == (0, 10)
    (only,) = step(("aten::mm", TRAIN, 0, 50)).collectives
    assert only.ready_ns is None


def test_only_outermost_operators_are_counted_by_name() -> None:
    found = step(("aten::linear", TRAIN, 0, 10), ("aten::addmm", TRAIN, 2, 8), ("aten::linear", TRAIN, 10, 15))
    assert found.kernels == {"linear": (15, 2)}
    assert step(*BACKWARD).kernels == {"add_": (10, 1), "copy_": (25, 1)}
