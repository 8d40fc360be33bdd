"""The order of tests: speed first, new ranks rare, what answers most before the rest."""

import re
from pathlib import Path

import pytest

from tests.fake_gpus import machine
from tests.forked import perf

STEADY = "tests.workloads_for_tests:steady"


def collected(*arguments: str) -> list[str]:
    """The tests of a run with these arguments on four GPUs, in their order."""
    own = ("-p", "tests.fake_gpus", "--collect-only", "-q")
    return perf(Path("baselines"), *arguments, *own, variables=machine()).test_ids


def words(tests: list[str]) -> list[str]:
    """World and config of each measured test."""
    return [found[1] for test in tests if (found := re.search(r"-(\dgpu-[^\]]+)\]$", test))]


def test_all_that_is_measured_comes_before_gradients_and_these_before_training() -> None:
    tests = collected("perf", "-k=not test_collectives")
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    assert files.index("perf/test_throughput.py") < files.index("perf/test_gradients.py")
    assert files[-1] == "perf/test_training.py"


def test_one_device_naive_ddp_the_default_and_the_limit_come_first() -> None:
    first = words(collected("perf", "-k=scaling or throughput"))[:7]
    assert first[:2] == ["1gpu-single", "1gpu-ddp"]
    assert first[2:] == ["2gpu-ddp", "4gpu-ddp", "4gpu-ddp", "4gpu-ddp_default", "4gpu-no_comm"]


def test_equal_tests_are_in_the_order_of_the_command_line() -> None:
    chosen = [f"perf/test_throughput.py::test_throughput[vit_l_32-4gpu-{name}]" for name in ("fp16", "bf16")]
    assert collected(*chosen) == chosen
    assert collected(*reversed(chosen)) == chosen[::-1]


def test_variables_of_nccl_come_last_and_together() -> None:
    tests = words(collected("perf/test_nccl_settings.py", "perf/test_throughput.py", "-k=ctas or bf16"))
    assert [re.sub("-bucket.*", "", name) for name in tests[-4:]] == ["4gpu-ctas_4"] * 2 + ["4gpu-ctas_8"] * 2


def test_an_interconnect_is_finished_before_the_next_begins() -> None:
    tests = collected("perf", "-k=scaling or bf16", "--interconnect=shm", "--interconnect=native")
    of_shm = ["-shm]" in test for test in tests if "gradient" not in test and "training" not in test]
    assert of_shm == sorted(of_shm, reverse=True)
    assert True in of_shm
    assert False in of_shm


@pytest.mark.parametrize("own_first", [True, False])
def test_tests_of_the_users_code_come_after_those_of_the_suites(own_first: bool) -> None:
    workloads = [f"--workload={name}" for name in ((STEADY, "vit_l_32") if own_first else ("vit_l_32", STEADY))]
    tests = collected("perf/test_scaling.py", "perf/test_throughput.py", *workloads)
    of_steady = ["[steady-" in test for test in tests]
    assert of_steady == sorted(of_steady)
