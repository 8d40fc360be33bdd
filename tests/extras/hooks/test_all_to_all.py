"""The arithmetic of the suite's own hooks."""

from math import inf

import torch

from fixtures.extras.hooks.all_to_all import _rounded


def test_what_is_traced_rounds_alike() -> None:
    """As torch.compile traces it; generating code for a CPU takes 20 s and a compiler."""
    values = torch.randn(2, 3, 256, generator=torch.Generator().manual_seed(0))
    values[1, 1], values[0, 2, 5] = 0, inf
    others = values.clone()
    codes, scales = _rounded(values, 127, torch.int8)
    compiled_codes, compiled_scales = torch.compile(_rounded, dynamic=True, backend="aot_eager")(
        others, 127, torch.int8
    )
    assert torch.equal(scales, compiled_scales)
    finite = scales.isfinite().flatten()
    assert torch.equal(codes.flatten(0, 1)[finite], compiled_codes.flatten(0, 1)[finite])
    torch.testing.assert_close(values, others, rtol=0, atol=2**-22)
    assert values.isfinite().all()
