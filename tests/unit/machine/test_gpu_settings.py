"""Settings of the GPUs: each either read or unknown, and none without a GPU."""

import pytest

from fixtures.machine.gpu_state import read_gpu_settings
from fixtures.machine.topology import gpus


def test_each_gpu_that_is_not_hidden_has_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read_gpu_settings()
    assert len(settings) == len(gpus())
    assert all(gpu.power_limit_w is None or 0 < gpu.power_limit_w < 10_000 for gpu in settings)
    assert all(gpu.mig is not True for gpu in settings)  # such GPUs are refused
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert read_gpu_settings() == ()
