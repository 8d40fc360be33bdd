"""The most memory that a launch takes on the CPU, and where the system does not let it be counted anew."""

from pathlib import Path

import pytest
import torch

from fixtures.ranks.counters import peak_memory_bytes, reset_peak_memory

CPU = torch.device("cpu")
LARGE = 300_000_000


def test_what_was_taken_before_does_not_count_or_that_is_reported(tmp_path: Path) -> None:
    large = bytearray(b"x" * LARGE)
    full = peak_memory_bytes(CPU)
    del large
    assert reset_peak_memory(CPU)
    assert peak_memory_bytes(CPU) < full - LARGE / 2
    assert not reset_peak_memory(CPU, clear_refs=tmp_path / "self" / "clear_refs")


def test_the_memory_of_a_gpu_is_that_of_the_device_that_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """The current device of a script may be another one, and empty."""
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device=None: 0 if device is None else 7_000_000_000)
    assert peak_memory_bytes(torch.device("cuda", 1)) == 7_000_000_000
