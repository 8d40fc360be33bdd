"""Peak memory in records: which of it repeats, and which record a test is compared with."""

from dataclasses import replace
from typing import Any

import pytest

from fixtures.matrix.recorded import json_of
from fixtures.records.baselines import Recorded
from fixtures.records.differences import Snapshot
from fixtures.records.schema import UNKNOWN, TestRecord
from tests.builders import TRAINED, launch, measured

TWO = (launch(0.1), launch(0.1))


def record(config: str, world: str = "8gpu") -> dict[str, Any]:
    return json_of(measured(config, 10, world=world, launches=TWO).to_record())


@pytest.mark.parametrize("config", ["ddp_default", "bucket_view", "graph-bucket_25mb", "fsdp2", "batch_x2"])
def test_the_peak_of_a_config_without_a_hook_repeats(config: str) -> None:
    assert record(config)["peak_memory_repeats"] is True


@pytest.mark.parametrize(
    "config",
    [
        *("bf16", "no_comm", "in_backward-bucket_25mb", "local_sgd_8"),
        *("compile-ddp_optimizer", "feed_prefetch", "checkpoint_copy"),
    ],
)
def test_that_of_one_whose_memory_another_stream_uses_does_not(config: str) -> None:
    assert "peak_memory_repeats" not in record(config)


def test_nor_does_that_of_the_cpu_or_of_launches_that_differ() -> None:
    assert "peak_memory_repeats" not in record("ddp_default", "2cpu")
    other = replace(launch(0.1), peak_memory_bytes=3_100_000_000)
    differ = measured("ddp_default", 10, launches=(launch(0.1), other))
    assert "peak_memory_repeats" not in json_of(differ.to_record())


def recorded(*peaks: tuple[str | None, int, bool | None, int]) -> Recorded:
    """Records 1, 2, ... with this torch, peak memory, key and batch."""
    found = Recorded(workload="vit_l_32")
    for number, (torch, peak, repeats, batch) in enumerate(peaks, 1):
        info = TestRecord(
            workload="vit_l_32",
            launch_medians_s=[0.1],
            peak_memory_bytes=peak,
            peak_memory_repeats=repeats,
            workload_fingerprint=replace(TRAINED, batch_size=batch),
        )
        found.add(str(number), Snapshot(info=info, environment=replace(UNKNOWN, torch=torch)), {})
    return found


def test_of_each_torch_the_newest_record_with_the_key_counts() -> None:
    four = ("2.11", 100, True, 32), ("2.12", 200, True, 32), ("2.11", 300, True, 32), ("2.11", 400, None, 32)
    assert recorded(*four, (None, 500, True, 32)).peaks == {"2.11": ("3", 300), "2.12": ("2", 200)}


def test_records_of_another_workload_under_the_same_name_do_not_count() -> None:
    assert recorded(("2.11", 100, True, 32), ("2.12", 200, True, 64)).peaks == {"2.12": ("2", 200)}
