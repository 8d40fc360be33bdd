"""The environment in a record: the variables in effect and no secret, and NCCL's back end where there is one."""

from pathlib import Path
from typing import Any

import pytest
from torch import distributed
from torch.distributed import HashStore  # type: ignore[attr-defined]  # public, but not in __all__

from fixtures.launch.protocol import SoftwareRequest
from fixtures.ranks.software import describe
from tests.builders import as_rank, known


def described_in(folder: Path) -> dict[str, Any]:
    return known(describe(as_rank(folder), SoftwareRequest(modules=())))


def test_a_value_that_may_be_a_secret_is_in_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("NCCL_AUTH_TOKEN", "TORCH_API_KEY", "CUDA_PASSWORD", "GLOO_SECRET_FILE", "NCCL_PASSWD")
    for name in secrets:
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("TORCH_HOME", "https://me:hunter2@host/x?token=hunter2")
    shown = {"NCCL_ALGO": "Ring", "TORCH_HOME": "https://me:***@host/x?token=***"}
    expected = {**dict.fromkeys(secrets, "(not recorded)"), **shown}
    assert described_in(tmp_path)["variables"].items() >= expected.items()


def test_over_gloo_no_back_end_of_nccl_is_described(tmp_path: Path) -> None:
    distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        assert described_in(tmp_path).keys().isdisjoint({"nccl_backend", "nccl_device_at_init"})
    finally:
        distributed.destroy_process_group()
