"""The environment variables in a record: those in effect, and no secret."""

from pathlib import Path

import pytest
import torch

from fixtures.launch.heartbeat import Heartbeat
from fixtures.launch.protocol import SoftwareRequest
from fixtures.ranks.context import RankContext
from fixtures.ranks.software import describe


@pytest.mark.parametrize("name", ["NCCL_AUTH_TOKEN", "TORCH_API_KEY", "CUDA_PASSWORD", "GLOO_SECRET_FILE"])
def test_a_value_that_may_be_a_secret_is_in_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    ctx = RankContext(rank=0, device=torch.device("cpu"), folder=tmp_path, heartbeat=Heartbeat(tmp_path / "beats", 1))
    described = describe(ctx, SoftwareRequest(modules=()))
    assert described is not None
    assert described["variables"].items() >= {name: "(not recorded)", "NCCL_ALGO": "Ring"}.items()
