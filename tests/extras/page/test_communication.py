"""What communication costs, from the record of a run."""

from fixtures.extras.page.communication import communication
from tests.run_reports import h200, profiled, report_of, with_transfers
from tests.saved_records import infos


def test_the_share_of_the_step_comes_from_the_config_without_communication() -> None:
    cost = communication(report_of(h200()))
    assert cost is not None
    assert cost.text == "7.2 % of the step with ddp"


def test_a_run_that_measured_nothing_has_no_answer() -> None:
    assert communication(report_of(h200() | {"benchmarks": []})) is None


def test_on_one_gpu_communication_costs_nothing() -> None:
    record = h200()
    record["benchmarks"] = [one for one in record["benchmarks"] if one["extra_info"]["world_size"] == 1]
    assert record["benchmarks"]
    cost = communication(report_of(record))
    assert cost is not None
    assert cost.text == "nothing: one rank sends nothing"


def test_a_step_that_is_shorter_than_without_communication_costs_nothing() -> None:
    record = h200()
    for info in infos(record).values():
        info |= {"of_limit_percent": 152.9, "communication_percent": -52.9}
    cost = communication(report_of(record))
    assert cost is not None
    assert cost.text == "nothing that could be measured with ddp"


def test_profiled_exposed_communication_stands_next_to_the_share() -> None:
    cost = communication(report_of(with_transfers(profiled(h200()))))
    assert cost is not None
    assert cost.points[0] == ("ddp, vit_l_32, 4gpu", "7.2 % of the step; 9.99 ms a step exposed when profiled")


def test_a_profile_alone_says_what_communication_costs() -> None:
    """Not "not measured" next to a chart of it."""
    record = profiled(h200())
    keep = [one for one in record["benchmarks"] if one["fullname"].endswith("4gpu-static_graph]")]
    for one in keep:
        one["extra_info"] |= {"of_limit_percent": None, "communication_percent": None}
    cost = communication(report_of(record | {"benchmarks": keep, "best": []}))
    assert cost is not None
    assert cost.text.endswith(" ms a step exposed when profiled with static_graph")
