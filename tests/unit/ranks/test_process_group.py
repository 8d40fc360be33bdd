"""The options of NCCL's process group that variables set."""

import pytest
from torch import distributed

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
