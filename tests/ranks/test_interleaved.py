"""Configs that take turns in live ranks."""

import pytest

from fixtures.launch.faults import RankFailure
from fixtures.launch.protocol import CannotRun, InterleaveRequest
from fixtures.launch.rank_sets import RankSet
from fixtures.matrix.worlds import parse_world
from tests.ranks.asking import called


def interleaved(
    ranks: RankSet, *configs: str, workload: str = "tests.workloads_for_tests:steady", **more: object
) -> list[list[list[float]]]:
    """What each rank answers, which is the same."""
    arguments = {"copies": 2, "warmup": 3, "block": 2, "rounds": (3, 3), "seconds": 60.0, **more}
    request = InterleaveRequest(
        workloads=[workload] * len(configs),
        configs=list(configs),
        world="2cpu",
        **arguments,  # type: ignore[arg-type]
    )
    first, second = ranks.ask(parse_world("2cpu"), request, doing="taking turns")
    assert first == second
    return first


def test_each_copy_of_each_config_has_a_block_in_each_round(ranks: RankSet) -> None:
    """A step of this workload takes 20 ms."""
    found = interleaved(ranks, "ddp_default", "bf16", "no_comm")
    assert [[len(copy) for copy in copies] for copies in found] == [[3, 3]] * 3
    assert all(step_s > 0.02 for copies in found for copy in copies for step_s in copy)


def test_the_buckets_of_a_config_that_was_never_launched_are_seen(ranks: RankSet) -> None:
    """DDP logs them late. Gradients of 10.8 MB."""
    configs = ("ddp_default", "first_bucket_1mb-bucket_5mb", "last_bucket_1mb-bucket_25mb")
    found = interleaved(ranks, *configs, workload="vit_tiny", copies=1, warmup=5, required=False)
    assert [len(copies) for copies in found] == [1, 1, 1]
    found = interleaved(ranks, *configs, workload="vit_tiny", copies=1, required=False)
    assert [len(copies) for copies in found] == [1, 0, 0], "what is not seen is left out"


def test_what_cannot_run_is_left_out_if_it_is_not_required(ranks: RankSet) -> None:
    """A bucket of 10 MB is larger than all gradients of this workload."""
    configs = ("ddp_default", "first_bucket_10mb-bucket_25mb", "bf16")
    found = interleaved(ranks, *configs, required=False)
    assert [[len(copy) for copy in copies] for copies in found] == [[3, 3], [], [3, 3]]
    with pytest.raises(CannotRun, match=r"fit into a bucket of 10\.5 MB"):
        interleaved(ranks, *configs)
    assert interleaved(ranks, "first_bucket_10mb-bucket_25mb", required=False) == [[]]


def test_no_round_begins_after_the_time_but_for_the_least(ranks: RankSet) -> None:
    found = interleaved(ranks, "ddp_default", "bf16", rounds=(4, 1000), seconds=0.0)
    assert {len(copy) for copies in found for copy in copies} == {4}


@pytest.mark.parametrize(
    ("function", "number"),
    [
        ("models_left", 0),  # a DDP module must not outlive its process group
        # Without cuBLAS's workspaces, which go with the peak's counter, a replay ended its rank with SIGSEGV (2 H100).
        ("freed_between", 0),
        ("built_after_a_failed_capture", 1),  # it leaves torch's random numbers in the state of a capture
    ],
)
def test_turns_leave_no_model_free_nothing_that_graphs_use_and_end_with_a_failed_capture(
    ranks: RankSet, function: str, number: int
) -> None:
    assert called(ranks, f"rank_turns:{function}") == [number, number]


def test_each_trains_its_own_workload_in_its_own_precision(ranks: RankSet) -> None:
    found, _ = called(ranks, "rank_turns:dtypes", workloads=["vit_tiny", "vit_tiny@autocast"])
    assert found == {"left": ["torch.float32"], "vit_tiny": ["torch.float32"], "vit_tiny@autocast": ["torch.bfloat16"]}


def test_a_config_that_changes_its_process_is_refused(ranks: RankSet) -> None:
    with pytest.raises(RankFailure, match="powersgd_rank1 cannot take turns with others in one process"):
        interleaved(ranks, "ddp_default", "powersgd_rank1")
