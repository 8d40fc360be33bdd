"""The tests that a command line collects, their order, and the lines of a run on the tests that it leaves out."""

import re
from pathlib import Path

import pytest

from fixtures.matrix.configs import DDP_PLAIN, DDP_SETTINGS, HOOKS_BY_DEFAULT, NCCL_SETTINGS, SHARDING
from tests.command_line import Outcome
from tests.fake_gpus import machine
from tests.forked import perf
from tests.forked import pytest as forked_pytest

STEADY = "tests.workloads_for_tests:steady"
GRAPHS = "perf/test_graphs.py"
A_GRAPH = f"{GRAPHS}::test_graphs[vit_tiny-2cpu-graph-bucket_25mb]"
NEEDS_A_GPU = "graph-bucket_25mb is a CUDA graph, which needs a GPU"
ON_REQUEST = tuple(f"perf/test_{name}.py" for name in ("copies", "ddp_settings", "nccl_settings", "sharding"))
COPIES, DDP, NCCL, SHARDED = ON_REQUEST
LOADERS = {f"feed_loader_{workers}" for workers in (0, 1, 2, 4, 8)}
ON_THE_CPU = LOADERS | {"feed_resident", "feed_pinned", "loss_item_every_1", "loss_item_every_10"}
EVERY_COPY = ON_THE_CPU | {
    *("feed_pageable", "feed_pageable_blocking", "feed_pinned_blocking", "feed_prefetch"),
    *("feed_uint8", "feed_loader_prefetch", "metrics_non_blocking", "checkpoint_copy"),
    *(f"graph-feed_{feed}-bucket_25mb" for feed in ("resident", "prefetch", "uint8")),
    "graph-bucket_25mb",
}


def listed(*arguments: str, gpus: bool = True) -> Outcome:
    on_gpus = ("-p", "tests.fake_gpus") if gpus else ()
    variables = machine() if gpus else None
    return perf(Path("baselines"), *arguments, *on_gpus, "--collect-only", variables=variables)


def collected(*arguments: str, gpus: bool = True) -> list[str]:
    """The tests of a run with these arguments, on four GPUs, in their order."""
    return listed(*arguments, "-q", gpus=gpus).test_ids


def configs_of(file: str, tests: list[str]) -> set[str]:
    measured = f"{file}::{Path(file).stem}["
    return {re.split(r"-\d[gc]pu-", test)[1].rstrip("]") for test in tests if test.startswith(measured)}


@pytest.fixture(scope="module")
def everything() -> list[str]:
    return collected("perf")


def test_a_whole_run_leaves_out_what_is_on_request(everything: list[str]) -> None:
    assert [test for test in everything if test.startswith(ON_REQUEST)] == []
    assert [test for test in everything if "gradients" in test and ("int8" in test or "builtin" in test)] == []


def test_more_of_powersgd_is_requested_by_any_part_of_a_name(everything: list[str]) -> None:
    file = "perf/test_throughput.py"
    further = {"powersgd_rank4", "powersgd_rank1_same_shape", "bf16_powersgd_rank1"}
    assert configs_of(file, everything).isdisjoint(further)
    assert [test for test in everything if "rank4" in test or "400mb-powersgd" in test] == []
    assert configs_of(file, collected("perf", "-k=powersgd")) == {*further, "powersgd_rank1"}
    assert configs_of(file, collected("perf", "-k=throughput and not no_comm")).isdisjoint(further)


def test_every_hook_of_the_default_table_has_its_gradients_tested_by_default(everything: list[str]) -> None:
    tests = [test for test in everything if test.startswith("perf/test_gradients")]
    assert [hook for hook in HOOKS_BY_DEFAULT if not any(f"-{hook}" in test for test in tests)] == []


@pytest.mark.parametrize(
    ("file", "arguments", "configs"),
    [
        (COPIES, (COPIES,), EVERY_COPY),
        (COPIES, ("perf", "-k=copies"), EVERY_COPY),
        (COPIES, ("perf", "-k=feed_loader_2"), {"feed_loader_2"}),
        (COPIES, ("perf", "-k=feed_loader"), set()),
        (SHARDED, (SHARDED,), set(SHARDING)),
        (SHARDED, ("perf", "-k=hsdp"), {"hsdp"}),
        (SHARDED, ("perf", "-k=ddp"), set()),
        (DDP, (DDP,), {*DDP_PLAIN, *DDP_SETTINGS}),
        (DDP, ("perf", "-k=first_bucket"), {"first_bucket_1mb-bucket_25mb", "first_bucket_10mb-bucket_25mb"}),
        (DDP, ("perf", "-k=bucket_25mb"), set()),
        (NCCL, (NCCL,), {"bucket_10mb", "bucket_25mb", *NCCL_SETTINGS}),
        (
            NCCL,
            ("perf", "-k=nccl_settings and bucket_10mb"),
            {"bucket_10mb", "ctas_4-bucket_10mb", "ctas_8-bucket_10mb"},
        ),
        (NCCL, ("perf", "-k=ctas_8"), {"ctas_8-bucket_10mb", "ctas_8-bucket_25mb"}),
        (NCCL, (f"{NCCL}::test_nccl_settings[vit_l_32-4gpu-ctas_4-bucket_10mb]",), {"ctas_4-bucket_10mb"}),
        (NCCL, ("perf", "-k=bucket_10mb"), set()),
        (NCCL, ("perf", "-k=not gradients"), set()),
        (NCCL, ("perf", "-k=ddp or test_scaling"), set()),
        (NCCL, ("perf", "-k=not ctas_8"), set()),
    ],
)
def test_what_is_on_request_is_measured_where_asked_for(
    file: str, arguments: tuple[str, ...], configs: set[str]
) -> None:
    assert configs_of(file, collected(*arguments)) == configs


def test_without_a_gpu_copies_that_need_one_are_left_out() -> None:
    assert configs_of(COPIES, collected(COPIES, gpus=False)) == ON_THE_CPU


@pytest.mark.parametrize("word", ["gradients", "powersgd"])
def test_hooks_outside_the_table_are_left_out(word: str) -> None:
    tests = [test for test in collected("perf", f"-k={word}") if test.startswith("perf/test_gradients")]
    assert tests
    assert [test for test in tests if "int8" in test or "builtin" in test] == []


def test_a_hook_outside_the_table_is_tested_by_its_name_or_by_the_path() -> None:
    file = "perf/test_gradients_wire.py"
    test = f"{file}::test_gradients_wire[2cpu-builtin_fp16]"
    assert test in collected("perf", "-k=gradients and builtin_fp16", gpus=False)
    assert test in collected(file, gpus=False)


def test_a_parameter_hook_of_other_tests_is_no_hook(tmp_path: Path) -> None:
    test = "@pytest.mark.parametrize('hook', ['fp16_wrapper', {}])\ndef test_mine(hook): pass\n"
    (tmp_path / "test_mine.py").write_text(f"import pytest\n{test}")
    tests = collected("perf/test_scaling.py", str(tmp_path), gpus=False)
    assert len([test for test in tests if "test_mine" in test]) == 2


@pytest.mark.parametrize(("path", "tests"), [(GRAPHS, 2), ("perf", 5)])
def test_a_command_line_of_which_nothing_can_run_ends_with_the_reason(tmp_path: Path, path: str, tests: int) -> None:
    outcome = perf(tmp_path, path, "-k=graph-bucket_25mb").exits(pytest.ExitCode.USAGE_ERROR)
    assert outcome.errors.startswith(f"ERROR: nothing to run: {NEEDS_A_GPU} ({tests} tests)")


@pytest.mark.parametrize("test", [A_GRAPH, f"{GRAPHS}::test_graphs"])
def test_a_test_that_is_named_and_cannot_run_is_skipped_with_the_reason(tmp_path: Path, test: str) -> None:
    outcome = perf(tmp_path, test, "-v").exits(0)
    assert NEEDS_A_GPU in outcome.unwrapped
    assert " passed" not in outcome.output


@pytest.mark.parametrize("cell", ["8cpu-ddp", "2gpu-ddp", "2cpu-dpp"])
def test_an_id_of_a_world_of_another_machine_says_which_worlds_there_are(tmp_path: Path, cell: str) -> None:
    outcome = perf(tmp_path, f"perf/test_scaling.py::test_scaling[vit_tiny-{cell}]").exits(pytest.ExitCode.USAGE_ERROR)
    why = f"this machine has no world {cell[:4]}: it has 1cpu, 2cpu (no GPU, so one or two ranks on the CPU)"
    assert (f"ERROR: {why}\n" in outcome.errors) == ("2cpu" not in cell)
    assert "not found" in outcome.errors
    assert ("no world" in outcome.errors) == ("2cpu" not in cell)


def test_after_a_failure_on_request_lf_finds_the_test_again(tmp_path: Path) -> None:
    test = "perf/test_gradients_wire.py::test_gradients_wire[2cpu-allreduce]"
    (tmp_path / "cache/v/cache").mkdir(parents=True)
    (tmp_path / "cache/v/cache/lastfailed").write_text(f'{{"{test}": true}}')
    outcome = forked_pytest("perf", "--lf", f"-ocache_dir={tmp_path / 'cache'}", "--collect-only", "-q")
    assert outcome.test_ids == [test]


# The order: speed first, new ranks rare, what answers most before the rest


def words(tests: list[str]) -> list[str]:
    """World and config of each measured test."""
    return [found[1] for test in tests if (found := re.search(r"-(\dgpu-[^\]]+)\]$", test))]


def test_all_that_is_measured_comes_before_gradients(everything: list[str]) -> None:
    tests = [test for test in everything if "test_collectives" not in test]
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    assert files.index("perf/test_throughput.py") < files.index("perf/test_gradients.py")


def test_the_smallest_world_comes_first_and_in_it_naive_ddp_the_default_and_the_limit() -> None:
    first = words(collected("perf", "-k=scaling or throughput"))[:8]
    assert first[:4] == ["1gpu-single", "1gpu-ddp", "2gpu-ddp", "2gpu-bucket_10mb"]
    assert first[4:] == ["4gpu-ddp", "4gpu-ddp", "4gpu-ddp_default", "4gpu-no_comm"]


def test_equal_tests_are_in_the_order_of_the_command_line_and_those_with_error_feedback_last() -> None:
    names = ("powersgd_rank1", "bf16", "fp16")
    feedback, *chosen = (f"perf/test_throughput.py::test_throughput[vit_l_32-4gpu-{name}]" for name in names)
    assert collected(*chosen) == chosen
    assert collected(feedback, *reversed(chosen)) == [*chosen[::-1], feedback]


def test_variables_of_nccl_come_last_and_together() -> None:
    tests = words(collected(NCCL, "perf/test_throughput.py", "-k=ctas or bf16"))
    assert [re.sub("-bucket.*", "", name) for name in tests[-4:]] == ["4gpu-ctas_4"] * 2 + ["4gpu-ctas_8"] * 2


def test_an_interconnect_is_finished_before_the_next_begins() -> None:
    tests = collected("perf", "-k=scaling or bf16", "--interconnect=shm", "--interconnect=native")
    of_shm = ["-shm]" in test for test in tests if "gradient" not in test and "training" not in test]
    assert of_shm == sorted(of_shm, reverse=True)
    assert {*of_shm} == {True, False}


@pytest.mark.parametrize("own_first", [True, False])
def test_tests_of_the_users_code_come_after_those_of_the_suites(own_first: bool) -> None:
    workloads = [f"--workload={name}" for name in ((STEADY, "vit_l_32") if own_first else ("vit_l_32", STEADY))]
    tests = collected("perf/test_scaling.py", "perf/test_throughput.py", *workloads)
    of_steady = ["[steady-" in test for test in tests]
    assert of_steady == sorted(of_steady)
