"""A measurement next to its references: naive DDP, one device, no communication, and the config without its copies."""

from dataclasses import replace

import pytest

from fixtures.matrix.configs import CONFIGS
from fixtures.records.config_comparison import best_of, comparisons, is_clearly_faster
from fixtures.records.measurement import Measurement
from fixtures.records.schema import Reason
from tests.builders import DDP, launch, measured
from tests.unit.report.test_table import ALONE, NO_COMM, SINGLE, on_one, quiet

BF16 = measured("bf16", 9)
RESIDENT = measured("feed_resident", 10)
GRAPH, GRAPH_LIMIT = measured("graph-bucket_25mb", 20), measured("graph-no_comm-bucket_25mb", 25)
OTHER_SINGLE = measured("single", 5, world="1gpu", workload="resnet50")
TWICE = measured("bf16", 5)
TWICE = replace(TWICE, workload=replace(TWICE.workload, batch_size=2 * TWICE.workload.batch_size))


@pytest.mark.parametrize(
    ("measurement", "others", "expected"),
    [
        (BF16, [SINGLE, DDP, NO_COMM], {"against_naive": 12.5, "against_single": -10, "of_limit": 900 / 9.5}),
        (DDP, [], {"against_naive": 0, "communication": None}),
        (BF16, [], {"against_naive": None, "against_single": None, "of_limit": None}),
        # Steps of 125 and 100 ms: 25 of 125 are communication.
        (DDP, [measured("no_comm", 10)], {"communication": 20}),
        # The limit is that of the fastest config without communication.
        (DDP, [NO_COMM, measured("no_comm-bucket_25mb", 16)], {"of_limit": 50}),
        (measured("compile-ddp_optimizer", 8), [NO_COMM, measured("compile-no_comm", 16)], {"of_limit": 50}),
        # 25 of 125 ms are copies.
        (measured("feed_prefetch", 8), [RESIDENT, DDP], {"copies": 20}),
        (measured("feed_loader_4", 5), [RESIDENT, DDP], {"copies": 50}),
        (measured("loss_item_every_10", 4), [RESIDENT], {"copies": None}),  # its batch is copied as well
        (measured("loss_item_every_10", 4), [RESIDENT, measured("feed_pinned", 5)], {"copies": 20}),
        (RESIDENT, [DDP], {"copies": None}),
        (BF16, [RESIDENT], {"copies": None}),
        # Another world, workload or interconnect is no reference, except one device for all worlds of its workload.
        *(
            (
                BF16,
                [measured("ddp", 8, **elsewhere), measured("no_comm", 9, **elsewhere)],  # type: ignore[arg-type]
                {"against_naive": None, "of_limit": None},
            )
            for elsewhere in ({"world": "4gpu"}, {"workload": "resnet50"}, {"interconnect": "shm"})
        ),
        (measured("ddp", 8, world="2gpu"), [SINGLE, OTHER_SINGLE], {"against_single": -20}),
        (DDP, [OTHER_SINGLE], {"against_single": None}),
        (measured("ddp", 9), [SINGLE], {"scaling_efficiency": 90}),
        (SINGLE, [], {"scaling_efficiency": 100}),
        (DDP, [measured("single", 10, world="1gpu", interconnect="shm")], {"scaling_efficiency": None}),
        # Twice the batch in 1.6 times the step is 1.25 times as fast.
        (TWICE, [DDP, NO_COMM, SINGLE], {"against_naive": 25, "of_limit": 1000 / 9.5, "scaling_efficiency": 100}),
        # A graph has the limit of graphs and scales against one graph; it is compared with eager DDP all the same.
        (
            GRAPH,
            [SINGLE, DDP, NO_COMM, GRAPH_LIMIT, measured("single_graph", 32, world="1gpu")],
            {"of_limit": 80, "scaling_efficiency": 62.5, "against_naive": 150, "against_single": 100},
        ),
        (GRAPH, [SINGLE, DDP, NO_COMM], {"of_limit": None, "scaling_efficiency": None}),
        (DDP, [SINGLE, NO_COMM, GRAPH_LIMIT], {"of_limit": 800 / 9.5}),
        # Accumulated batches save optimizer steps as well; another optimizer trains something else.
        (
            measured("accumulate_4", 9),
            [SINGLE, DDP, NO_COMM],
            {"of_limit": None, "communication": None, "scaling_efficiency": None, "against_naive": 350},
        ),
        (
            measured("adamw", 9),
            [SINGLE, DDP, NO_COMM],
            {"against_naive": None, "against_single": None, "of_limit": None},
        ),
    ],
)
def test_a_measurement_is_compared_with_its_references(
    measurement: Measurement, others: list[Measurement], expected: dict[str, float | None]
) -> None:
    compared = comparisons([*others, measurement])[measurement.cell]
    assert {name: getattr(compared, f"{name}_percent") for name in expected} == pytest.approx(expected)


def test_of_two_batches_the_one_with_more_samples_a_second_is_faster() -> None:
    assert is_clearly_faster(replace(TWICE, launches=(launch(0.2), launch(0.2001))), quiet("ddp", 8))


def test_on_one_device_ddp_is_compared_with_training_without_it_and_without_a_graph() -> None:
    graph = next(name for name, config in CONFIGS.items() if config.graph and config.ddp and config.hook == "none")
    (best, *_) = best_of([ALONE, on_one("ddp", 103.1, 103, 103.2), on_one(graph, 80, 80.1, 80.2)])
    assert (best.reason, best.use, best.over) == (Reason.WITHOUT_DDP, "single", "ddp")
    assert best.gain_percent == pytest.approx(3.1, abs=0.01)
