"""The names of traces, and the step of a profile that counts."""

import pytest

from fixtures.matrix.configs import find_config
from fixtures.session.explanation import file_name, typical_step
from tests.h200 import POWERSGD


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        (
            "perf/test_buckets.py::test_buckets[vit_l_32-8gpu-bf16-bucket_50mb]",
            "test_buckets-vit_l_32-8gpu-bf16-bucket_50mb",
        ),
        ("perf/test_scaling.py::test_scaling[my.model-2cpu-ddp-shm]", "test_scaling-my.model-2cpu-ddp-shm"),
        ("a/test_x.py::Test::test_y[../../etc/passwd]", "test_x-Test-test_y-..-..-etc-passwd"),
    ],
)
def test_a_trace_has_a_name_that_every_file_system_takes(nodeid: str, name: str) -> None:
    assert file_name(nodeid) == name


def test_long_names_stay_apart() -> None:
    names = {file_name(f"perf/test_x.py::test_x[{'long' * 100}-{end}]") for end in "ab"}
    assert len(names) == 2
    assert max(map(len, names)) < 230


@pytest.mark.parametrize(("config", "steps"), [("ddp", 1), ("feed_loader", 5), ("local_sgd_8", 5)])
def test_one_step_counts_where_all_load_copy_and_send_the_same(config: str, steps: int) -> None:
    typical = typical_step(POWERSGD, find_config(config), measured_ms=98)
    assert [len(rank.steps) for rank in typical.ranks] == [steps] * 2
    assert [len(rank.steps) for rank in typical.recorded] == [5] * 2
