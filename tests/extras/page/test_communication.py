"""What communication costs, from the record of a run."""

from collections.abc import Callable

import pytest

from fixtures.extras.page.communication import communication
from tests.run_reports import h200, profiled, report_of, with_transfers
from tests.saved_records import Record


def only(chosen: Callable[[Record], bool], record: Record, **info: object) -> Record:
    """These tests of a record alone, with other values."""
    kept = [one for one in record["benchmarks"] if chosen(one)]
    for one in kept:
        one["extra_info"] |= info
    return record | {"benchmarks": kept}


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (h200(), "7.2 % of the step with ddp"),
        (only(lambda one: one["extra_info"]["world_size"] == 1, h200()), "nothing: one rank sends nothing"),
        # A step that is shorter than without communication.
        (
            only(lambda one: True, h200(), of_limit_percent=152.9, communication_percent=-52.9),
            "nothing that could be measured with ddp",
        ),
    ],
    ids=["limit", "one GPU", "shorter"],
)
def test_what_communication_costs_comes_from_the_config_without_it(record: Record, says: str) -> None:
    cost = communication(report_of(record))
    assert cost is not None
    assert cost.text == says


def test_a_run_that_measured_nothing_has_no_answer() -> None:
    assert communication(report_of(h200() | {"benchmarks": []})) is None


def test_profiled_exposed_communication_stands_next_to_the_share_or_alone() -> None:
    """Not "not measured" next to a chart of it."""
    cost = communication(report_of(with_transfers(profiled(h200()))))
    assert cost is not None
    assert cost.points[0] == ("ddp, vit_l_32, 4gpu", "7.2 % of the step; 9.99 ms a step exposed when profiled")
    unknown = {"of_limit_percent": None, "communication_percent": None}
    alone = only(lambda one: one["fullname"].endswith("4gpu-static_graph]"), profiled(h200()), **unknown)
    cost = communication(report_of(alone | {"best": []}))
    assert cost is not None
    assert cost.text.endswith(" ms a step exposed when profiled with static_graph")
