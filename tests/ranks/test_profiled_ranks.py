"""Profiled steps in live ranks on the CPU: their traces and the breakdown."""

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures.launch.rank_sets import RankSet, RankSets
from fixtures.matrix.workloads import find_workload
from fixtures.matrix.worlds import INTERCONNECTS
from fixtures.trace.breakdown import Breakdown, break_down, over_ranks
from fixtures.trace.profile import Bucket, Ledger, ledger, parts_ms, profile_of
from tests.builders import known
from tests.ranks.asking import trained
from tests.recordings import timelines

Profiled = tuple[Breakdown, tuple[Bucket, ...]]


def profile(ranks: RankSets, config: str, folder: Path, *, workload: str = "vit_tiny") -> Profiled:
    """Train two ranks under the profiler. Returns the breakdown of the traces in ``folder``, and DDP's buckets."""
    (launch,) = ranks.of(INTERCONNECTS["native"])
    traces = [str(folder / f"{config}-rank{rank}.json") for rank in range(2)]
    results = trained(launch, config, workload=workload, steps=2, profile=5, traces=traces)
    breakdowns = [result.breakdown for result in results if result.breakdown is not None]
    return over_ranks(breakdowns), tuple(map(Bucket.of, results[0].buckets))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def several_buckets(two_ranks: RankSets, folder: Path) -> Profiled:
    return profile(two_ranks, "bucket_10mb", folder)


@pytest.fixture(scope="module")
def powersgd(two_ranks: RankSets, folder: Path) -> Profiled:
    return profile(two_ranks, "powersgd_rank1", folder)


@pytest.fixture(scope="module")
def ddp(several_buckets: Profiled) -> Breakdown:
    """DDP with several buckets."""
    return several_buckets[0]


def test_the_parts_are_the_step_on_every_rank_and_steps_tile_the_window(folder: Path, ddp: Breakdown) -> None:
    assert [len(rank.steps) for rank in ddp.ranks] == [5, 5]
    for step in (step for rank in ddp.ranks for step in rank.steps):
        assert sum(step.parts_ns) == pytest.approx(step.length_ns, rel=1e-6)
    (timeline,) = timelines(folder / "bucket_10mb-rank0.json")
    marked = [r for r in timeline.ranges if r.name.startswith("Batch ")]
    window_ns = max(r.end_ns for r in marked) - min(r.end_ns for r in marked)
    assert sum(step.length_ns for step in ddp.ranks[0].steps) == window_ns


@pytest.mark.parametrize(("measured_step_ms", "steps"), [(1e6, 2), (1e-3, 4)])
def test_steps_are_recorded_again_if_the_profiler_slowed_each(
    ranks: RankSet, tmp_path: Path, measured_step_ms: float, steps: int
) -> None:
    traces = [tmp_path / f"rank{rank}.json" for rank in range(2)]
    again: dict[str, Any] = {
        "profile_again": 4,
        "measured_step_ms": measured_step_ms,
        "traces": [str(trace) for trace in traces],
    }
    breakdowns = [result.breakdown for result in trained(ranks, "ddp", warmup=1, profile=2, **again)]
    assert [len(one.steps) for one in breakdowns if one is not None] == [steps, steps]
    assert all(break_down(timeline).steps for trace in traces for timeline in timelines(trace))


def test_the_trace_of_each_rank_gives_the_breakdown_of_the_launch_and_says_whose_it_is(
    folder: Path, ddp: Breakdown
) -> None:
    for rank in range(2):
        file = folder / f"bucket_10mb-rank{rank}.json"
        (timeline,) = timelines(file)
        assert break_down(timeline).steps == ddp.ranks[rank].steps
        whose = json.loads(file.read_text())["distributedInfo"]  # as Holistic Trace Analysis needs it
        assert (whose["rank"], whose["world_size"]) == (rank, 2)
    assert {path.suffix for path in folder.iterdir()} == {".json"}
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_each_bucket_is_an_all_reduce_and_phases_are_those_of_the_experiment(ddp: Breakdown) -> None:
    profile = profile_of(ddp)
    assert profile.all_reduces == 2
    assert parts_ms(ddp).compute > 0
    assert (profile.communication_ms or 0) > 0
    phases_ms = profile.phases_on_device_ms or {}
    assert list(phases_ms) == ["get batch", "forward", "backward", "optimizer step"]
    assert sum(phases_ms.values()) <= ddp.step_ms


def test_what_does_not_communicate_has_no_communication(two_ranks: RankSets, folder: Path) -> None:
    silent, _ = profile(two_ranks, "no_comm", folder)
    assert profile_of(silent).all_reduces == 0
    assert silent.waiting() is None


def test_a_rank_that_is_late_is_named(two_ranks: RankSets, folder: Path) -> None:
    waiting = known(profile(two_ranks, "ddp", folder, workload=":late")[0].waiting())
    assert waiting.late[1] >= waiting.collectives - 1
    assert waiting.percent > 25  # beside load the collectives themselves take longer


# The ledger of buckets


@pytest.fixture(scope="module")
def bucketed(several_buckets: Profiled) -> Ledger:
    """The ledger of a config with several buckets."""
    return known(ledger(*several_buckets))


def test_each_all_reduce_has_its_bucket_with_every_parameter_in_one(bucketed: Ledger) -> None:
    assert bucketed.mismatch is None
    names = [name for bucket in bucketed.buckets for name in bucket.parameters]
    model = find_workload("vit_tiny").model()
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())
    assert sum(bucket.bytes for bucket in bucketed.buckets) == sum(p.nbytes for p in model.parameters())
    assert "head" in bucketed.buckets[0].parameters[0]  # nearest to the loss
    assert len(bucketed.buckets) > 1
    assert "head" not in " ".join(bucketed.buckets[-1].parameters)


def test_a_bucket_is_handed_over_within_the_backward_pass_before_it_is_sent(bucketed: Ledger) -> None:
    ready_ms = [sent.ready_ms for sent in bucketed.collectives if sent.ready_ms is not None]
    assert len(ready_ms) == len(bucketed.collectives)
    assert 0 < ready_ms[0] < ready_ms[-1]
    for sent in bucketed.collectives:
        assert sent.ready_ms is not None
        assert sent.ready_ms < sent.start_ms
        assert sent.transfer_ms is not None
        assert 0 < sent.transfer_ms <= sent.duration_ms
        assert 0 <= sent.exposed_ms <= sent.duration_ms


def test_a_hook_that_sends_several_collectives_a_bucket_is_not_reported_bucket_by_bucket(powersgd: Profiled) -> None:
    """The later ones are on gloo's own threads."""
    assert profile_of(powersgd[0]).all_reduces == 3
    collectives = known(ledger(*powersgd))
    assert collectives.mismatch == "3 collectives a step for 1 bucket"
    assert len(collectives.collectives) == 3
