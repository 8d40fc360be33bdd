"""The options of NCCL's process group that variables set, and groups with settings of their own."""

import os
from pathlib import Path

import pytest
from torch import distributed

from fixtures.launch.protocol import CannotRun
from fixtures.matrix.config import Variables
from fixtures.ranks import process_group
from fixtures.ranks.context import RankContext
from fixtures.ranks.process_group import options


@pytest.mark.skipif(not distributed.is_nccl_available(), reason="this build of torch has no NCCL")
@pytest.mark.parametrize(
    ("variables", "high", "policy"),
    [
        ({"TORCH_NCCL_HIGH_PRIORITY": "1"}, True, None),
        ({"NCCL_CTA_POLICY": "2"}, False, 2),
        ({"TORCH_NCCL_HIGH_PRIORITY": "1", "NCCL_CTA_POLICY": "1"}, True, 1),
    ],
)
def test_options_say_what_the_variables_do(variables: dict[str, str], high: bool, policy: int | None) -> None:
    untouched = distributed.ProcessGroupNCCL.Options().config
    found = options(variables)
    assert found.is_high_priority_stream == high
    if hasattr(untouched, "cta_policy"):
        assert found.config.cta_policy == (untouched.cta_policy if policy is None else policy)


@pytest.mark.parametrize("variables", [{}, {"TORCH_NCCL_HIGH_PRIORITY": "0"}, {"NCCL_CTA_POLICY": "EFFICIENCY"}])
def test_without_them_torch_has_its_defaults(variables: dict[str, str]) -> None:
    assert options(variables) is None


CHANNELS = "host:1:1 [0] NCCL INFO {} coll channels, 0 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p\n"
RING = "host:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n"


@pytest.mark.parametrize(
    ("settings", "log", "took"),
    [
        ((("NCCL_MAX_CTAS", "8"),), CHANNELS.format(8), True),
        ((("NCCL_MAX_CTAS", "8"),), CHANNELS.format(24), False),
        ((("NCCL_ALGO", "Ring"),), RING + CHANNELS.format(24), True),
        ((("NCCL_ALGO", "Ring"),), CHANNELS.format(24), False),
        ((("NCCL_ALGO", "Tree"),), RING + CHANNELS.format(24), False),
        ((("TORCH_NCCL_HIGH_PRIORITY", "1"),), CHANNELS.format(24), True),
        ((("NCCL_MAX_CTAS", "8"),), "", False),
    ],
)
def test_a_setting_that_nccls_log_does_not_show_is_refused_for_each_config_and_its_group_destroyed(
    settings: Variables, log: str, took: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, group = tmp_path / f"nccl.{os.getpid()}", object()
    file.write_text(CHANNELS.format(24) + RING)  # of the default group

    def form(ctx: RankContext, asked: object) -> object:
        file.write_text(file.read_text() + log)
        return group

    destroyed: list[object] = []
    monkeypatch.setattr(process_group, "_own_group", form)
    monkeypatch.setattr(process_group, "_log_of_others", [])
    monkeypatch.setattr(distributed, "get_backend", lambda: "nccl")
    monkeypatch.setattr(distributed, "get_world_size", lambda: 1)
    monkeypatch.setattr(distributed, "destroy_process_group", destroyed.append)
    ctx = RankContext.__new__(RankContext)
    object.__setattr__(ctx, "folder", tmp_path)
    with process_group.own_groups(ctx) as group_of:
        assert group_of(()) is None
        for _ in range(2):  # configs
            if took:
                assert group_of(settings) is group
            else:
                with pytest.raises(CannotRun, match="did not take effect in a communicator of its own"):
                    group_of(settings)
    assert destroyed == [group]
