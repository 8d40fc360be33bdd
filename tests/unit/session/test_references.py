"""The references of a run: unselected configs with which a selected config is compared."""

import pytest

from fixtures.matrix.worlds import worlds_of
from fixtures.session.references import CellName, missing_references

WORLDS = worlds_of(4)


@pytest.mark.parametrize(
    ("configs", "world", "references"),
    [
        ("powersgd_rank1", "4gpu", "ddp 4gpu, no_comm 4gpu, single 1gpu"),
        ("powersgd_rank1 ddp no_comm-bucket_25mb", "4gpu", "single 1gpu"),
        ("graph-bucket_25mb", "4gpu", "ddp 4gpu, graph-no_comm-bucket_25mb 4gpu, single 1gpu"),
        ("feed_uint8", "4gpu", "feed_resident 4gpu, ddp 4gpu, no_comm 4gpu, single 1gpu"),
        (
            "graph-feed_uint8-bucket_25mb",
            "4gpu",
            "graph-feed_resident-bucket_25mb 4gpu, ddp 4gpu, graph-no_comm-bucket_25mb 4gpu, single 1gpu",
        ),
        (
            "graph-outputs_async-bucket_25mb",
            "4gpu",
            "graph-bucket_25mb 4gpu, ddp 4gpu, graph-no_comm-bucket_25mb 4gpu, single 1gpu",
        ),
        ("ddp", "1gpu", "single 1gpu"),
        ("as_written-ctas_8", "4gpu", "as_written 4gpu, ddp 4gpu, no_comm 4gpu, single 1gpu"),
        *((config, world, "") for config, world in (("single", "1gpu"), ("zero1", "4gpu"), ("adamw_fused", "4gpu"))),
    ],
)
def test_a_config_is_compared_with_what_was_not_selected(configs: str, world: str, references: str) -> None:
    cells = [
        CellName(workload="vit_l_32", world=world, interconnect="native", config=config) for config in configs.split()
    ]
    missing = missing_references(cells, WORLDS)
    assert ", ".join(f"{cell.config} {cell.world}" for cell in missing) == references
