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


def test_waiting_in_a_hook_is_communication_although_autograds_node_continues() -> None:
    assert step(*BACKWARD).parts_ns == (10 + 25, 4 + 40 + 3, 0, 38)


def test_compute_covers_a_concurrent_collective() -> None:
    assert step(("aten::mm", TRAIN, 0, 50)).parts_ns == (50, 10, 0, 60)


def test_an_operator_of_another_thread_is_not_compute_of_the_training_thread() -> None:
    assert step(("aten::mm", 3, 60, 120)).parts_ns == (0, 40, 0, 80)


def test_a_collective_is_counted_once_and_lasts_as_long_as_gloos_range() -> None:
    (only,) = step(*BACKWARD).collectives
    assert (only.what, only.ns) == ("all_reduce", 40)


def test_a_collective_is_ready_when_handed_over_and_exposed_while_nothing_computes() -> None:
    (only,) = step(*BACKWARD).collectives
    assert (only.ready_ns, only.start_ns, only.exposed_ns) == (12, 20, 40)
    (only,) = step(("c10d::allreduce_", TRAIN, 0, 10), ("aten::mm", TRAIN, 15, 50)).collectives
    assert (only.ready_ns, only.exposed_ns) == (0, 10)


def test_a_collective_without_a_recorded_call_has_no_ready_time() -> None:
    (only,) = step(("aten::mm", TRAIN, 0, 50)).collectives
    assert only.ready_ns is None


def test_handing_over_a_collective_is_not_compute() -> None:
    assert step(("c10d::allreduce_", TRAIN, 0, 10), gloo=(5, 15)).parts_ns == (0, 15, 0, 105)
    assert step(("c10d::allreduce_", TRAIN, 0, 10), ("aten::empty", TRAIN, 2, 4)).parts_ns.compute == 0


def test_a_collective_on_the_training_thread_keeps_the_operators_as_compute() -> None:
    found = step(("aten::mm", TRAIN, 70, 90), on=TRAIN)
    assert (found.parts_ns.compute, found.communication_ns) == (20, 40)


def test_quantities_of_a_gpu_are_none_on_the_cpu() -> None:
    found = step(*BACKWARD)
    assert (found.starved_ns, found.ahead_ns, found.copies) == (0, None, {})


@pytest.mark.parametrize("wrapper", ["AddmmBackward0", "record_param_comms"])
def test_ranges_around_operators_are_not_work(wrapper: str) -> None:
    assert step((wrapper, TRAIN, 0, 120), ("aten::mm", TRAIN, 60, 70)).parts_ns == (10, 40, 0, 70)


def test_only_outermost_operators_are_counted_by_name() -> None:
    found = step(("aten::linear", TRAIN, 0, 10), ("aten::addmm", TRAIN, 2, 8), ("aten::linear", TRAIN, 10, 15))
    assert found.kernels == {"linear": (15, 2)}
    assert step(*BACKWARD).kernels == {"add_": (10, 1), "copy_": (25, 1)}
