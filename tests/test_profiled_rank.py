"""A rank reads its own trace: here as a rank on a GPU would, with a trace made by hand."""

from pathlib import Path

import pytest
import torch

from fixtures.explain.breakdown import RankBreakdown
from fixtures.explain.profiled_rank import break_down_trace
from fixtures.explain.timeline import BadTrace
from fixtures.ranks.heartbeat import Heartbeat
from fixtures.ranks.rank import Here
from tests.recordings import Recording, ddp_steps


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(rank=1, device=torch.device("cuda", 1), folder=tmp_path, heartbeat=Heartbeat(tmp_path / "heartbeat", 2))


def test_a_rank_breaks_down_its_own_trace_and_removes_it(here: Here) -> None:
    ddp_steps(1).chrome(here.folder / "b.json")
    found = RankBreakdown.from_json(break_down_trace(here, traces=["a.json", "b.json"], keep=False))
    assert (found.rank, found.on_gpu, len(found.steps)) == (1, True, 2)
    assert not (here.folder / "b.json").exists()


def test_a_trace_that_is_kept_stays(here: Here) -> None:
    path = ddp_steps(1).chrome(here.folder / "b.json.gz")
    break_down_trace(here, traces=["", str(path)], keep=True)
    assert path.exists()


def test_a_gpu_of_which_nothing_was_recorded_is_no_cpu(here: Here) -> None:
    recording = Recording(rank=1)
    recording.range("Batch 0", 0, 10)
    recording.chrome(here.folder / "b.json")
    with pytest.raises(BadTrace, match=r"recorded nothing of the GPU on rank 1; .*run with --explain none under nsys"):
        break_down_trace(here, traces=["", "b.json"], keep=False)
