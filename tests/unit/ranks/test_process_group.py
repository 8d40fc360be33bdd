"""The options of NCCL's process group that a variable asks for."""

import pytest

from fixtures.ranks.process_group import options

torch_nccl = pytest.importorskip("torch.distributed", reason="torch without distributed")


@pytest.mark.skipif(not torch_nccl.is_nccl_available(), reason="this build of torch has no NCCL")
@pytest.mark.parametrize(("value", "high"), [("1", True), ("0", None), (None, None)])
def test_the_stream_has_high_priority_where_the_variable_asks_for_it(
    value: str | None, high: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCH_NCCL_HIGH_PRIORITY", raising=False)
    if value is not None:
        monkeypatch.setenv("TORCH_NCCL_HIGH_PRIORITY", value)
    found = options()
    assert (None if found is None else found.is_high_priority_stream) == high
