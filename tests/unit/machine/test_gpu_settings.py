"""Settings of the GPUs: each either read or unknown, and none without a GPU."""

import pytest

from fixtures.machine.gpu_settings import read_gpu_settings
from fixtures.machine.topology import gpus


def test_each_gpu_has_its_settings() -> None:
    settings = read_gpu_settings()
    assert len(settings) == len(gpus())
    assert all(gpu.power_limit_w is None or 0 < gpu.power_limit_w < 10_000 for gpu in settings)
    assert all(gpu.mig is not True for gpu in settings)  # such GPUs are refused


def test_hidden_gpus_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert read_gpu_settings() == ()
