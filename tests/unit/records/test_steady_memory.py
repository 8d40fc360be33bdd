"""Memory of steps in records: which of it is kept, and which record a test is compared with."""

from dataclasses import replace

import pytest

from fixtures.matrix.recorded import json_of
from fixtures.records.baselines import Recorded
from fixtures.records.differences import Snapshot
from fixtures.records.schema import UNKNOWN, TestRecord
from tests.builders import TRAINED, launch, measured

TWO = (launch(0.1), launch(0.1))


OF_ANOTHER_STREAM = (
    *("bf16", "no_comm", "in_backward-bucket_25mb", "local_sgd_8"),
    *("compile-ddp_optimizer", "graph-bucket_25mb", "feed_prefetch", "checkpoint_copy"),
)


@pytest.mark.parametrize("config", ["ddp_default", "bucket_view", "fsdp2", "batch_x2", *OF_ANOTHER_STREAM])
def test_the_memory_of_steps_is_recorded_unless_another_stream_uses_it(config: str) -> None:
    expected = None if config in OF_ANOTHER_STREAM else 2_900_000_000
    assert json_of(measured(config, 10, launches=TWO).to_record()).get("steady_memory_bytes") == expected


def test_nor_is_that_of_launches_that_differ_or_of_a_single_one() -> None:
    for other in (2_950_000_000, None):
        launches = launch(0.1), replace(launch(0.1), steady_memory_bytes=other)
        assert "steady_memory_bytes" not in json_of(measured("ddp_default", 10, launches=launches).to_record())


def recorded(*records: tuple[str | None, int | None, int]) -> Recorded:
    """Records 1, 2, ... with this torch, memory and batch."""
    found = Recorded(workload="vit_l_32")
    for number, (torch, steady, batch) in enumerate(records, 1):
        info = TestRecord(
            workload="vit_l_32",
            launch_medians_s=[0.1],
            steady_memory_bytes=steady,
            workload_fingerprint=replace(TRAINED, batch_size=batch),
        )
        found.add(str(number), Snapshot(info=info, environment=replace(UNKNOWN, torch=torch)), {})
    return found


def test_of_each_torch_the_newest_record_with_the_key_counts() -> None:
    four = ("2.11", 100, 32), ("2.12", 200, 32), ("2.11", 300, 32), ("2.11", None, 32)
    assert recorded(*four, (None, 500, 32)).steady_memory_bytes == {"2.11": ("3", 300), "2.12": ("2", 200)}


def test_records_of_another_workload_under_the_same_name_do_not_count() -> None:
    assert recorded(("2.11", 100, 32), ("2.12", 200, 64)).steady_memory_bytes == {"2.12": ("2", 200)}
