"""A run of test_scaling on many devices: its table and its record."""

import re

import pytest

from tests.command_line import QUICK, Outcome
from tests.fake_ranks import FLOPS_PER_SAMPLE
from tests.forked import perf as pytest_perf
from tests.saved_records import Record, infos, read

STEADY = ("perf/test_scaling.py", "--workload=tests.workloads_for_tests:steady", *QUICK, "--explain=none")


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, dict[str, Record]]:
    folder = tmp_path_factory.mktemp("scaled")
    outcome = pytest_perf(folder / "baselines", *STEADY, "-v", f"--benchmark-json={folder / 'run.json'}")
    assert outcome.exit_code == 0, outcome.output
    return outcome, infos(read(folder / "run.json"))


def test_worlds_of_several_ranks_have_one_config_more_and_the_largest_the_line_on_scaling(
    scaled: tuple[Outcome, dict[str, Record]],
) -> None:
    cells = ("1cpu-single", "1cpu-ddp", "2cpu-ddp", "2cpu-bucket_10mb")
    assert list(scaled[1]) == [f"test_scaling[steady-{cell}]" for cell in cells]
    found = re.findall(
        r"^scaling efficiency of the fastest lossless config: 2cpu [\d.]+ %$", scaled[0].output, re.MULTILINE
    )
    assert len(found) == 1
    assert "samples/s" in scaled[0].output
    assert "MFU" not in scaled[0].output


def test_the_record_has_the_efficiency_against_one_device_and_the_operations(
    scaled: tuple[Outcome, dict[str, Record]],
) -> None:
    info = {name.partition("-")[2].rstrip("]"): one for name, one in scaled[1].items()}
    assert info["1cpu-single"]["scaling_efficiency_percent"] == pytest.approx(100)
    for cell in ("1cpu-ddp", "2cpu-ddp", "2cpu-bucket_10mb"):
        ratio = info[cell]["samples_per_s"] / info[cell]["world_size"] / info["1cpu-single"]["samples_per_s"]
        assert info[cell]["scaling_efficiency_percent"] == pytest.approx(100 * ratio)
    assert "communication_percent" not in info["2cpu-ddp"]  # nothing without communication was measured
    for of_test in scaled[1].values():
        assert of_test["flops_per_step"] == FLOPS_PER_SAMPLE * 2 * of_test["world_size"]
        assert not {"mfu_percent", "peak_flops_per_s"} & of_test.keys()
