"""A rank reads its own trace: here as a rank on a GPU would, with a trace made by hand."""

from pathlib import Path

import pytest
import torch

from fixtures.launch.heartbeat import Heartbeat
from fixtures.launch.protocol import BreakdownRequest
from fixtures.ranks.context import RankContext
from fixtures.ranks.trace_breakdown import break_down_trace
from fixtures.trace.timeline import BadTrace
from tests.recordings import Recording, ddp_steps


@pytest.fixture
def ctx(tmp_path: Path) -> RankContext:
    return RankContext(
        rank=1, device=torch.device("cuda", 1), folder=tmp_path, heartbeat=Heartbeat(tmp_path / "heartbeat", 2)
    )


def test_a_rank_breaks_down_its_own_trace_and_removes_it(ctx: RankContext) -> None:
    ddp_steps(1).chrome(ctx.folder / "b.json")
    found = break_down_trace(ctx, BreakdownRequest(traces=["a.json", "b.json"], keep=False))
    assert (found.rank, found.on_gpu, len(found.steps)) == (1, True, 2)
    assert not (ctx.folder / "b.json").exists()


def test_a_trace_that_is_kept_stays(ctx: RankContext) -> None:
    path = ddp_steps(1).chrome(ctx.folder / "b.json.gz")
    break_down_trace(ctx, BreakdownRequest(traces=["", str(path)], keep=True))
    assert path.exists()


def test_a_gpu_of_which_nothing_was_recorded_is_no_cpu(ctx: RankContext) -> None:
    recording = Recording(rank=1)
    recording.range("Batch 0", 0, 10)
    recording.chrome(ctx.folder / "b.json")
    with pytest.raises(BadTrace, match=r"recorded no GPU work on rank 1; .*run with --explain none under nsys"):
        break_down_trace(ctx, BreakdownRequest(traces=["", "b.json"], keep=False))
