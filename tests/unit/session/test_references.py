"""The references of a run: unselected configs with which a selected config is compared."""

import pytest

from fixtures.matrix.worlds import worlds_of
from fixtures.session.references import CellName, missing_references

WORLDS = worlds_of(4)


def missing(*configs: str, world: str = "4gpu") -> list[tuple[str, str]]:
    """(config, world) of the references of these configs."""
    cells = [CellName(workload="vit_l_32", world=world, interconnect="native", config=config) for config in configs]
    return [(cell.config, cell.world) for cell in missing_references(cells, WORLDS)]


def test_a_config_is_compared_with_naive_ddp_no_communication_and_one_device() -> None:
    assert missing("powersgd_rank1") == [("ddp", "4gpu"), ("no_comm", "4gpu"), ("single", "1gpu")]


def test_what_was_selected_is_not_measured_along() -> None:
    assert missing("powersgd_rank1", "ddp", "no_comm-bucket_25mb") == [("single", "1gpu")]


def test_a_graph_is_compared_with_a_graph_that_does_not_communicate() -> None:
    assert missing("graph-bucket_25mb")[1] == ("graph-no_comm-bucket_25mb", "4gpu")


@pytest.mark.parametrize(("config", "world"), [("single", "1gpu"), ("zero1", "4gpu"), ("adamw_fused", "4gpu")])
def test_one_device_and_other_optimizers_are_compared_with_nothing(config: str, world: str) -> None:
    assert missing(config, world=world) == []


def test_ddp_on_one_device_is_compared_with_training_without_it() -> None:
    assert missing("ddp", world="1gpu") == [("single", "1gpu")]
