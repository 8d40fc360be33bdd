"""The arithmetic of the suite's own hooks."""

from math import inf

import pytest
import torch

from fixtures.extras.hooks.all_to_all import _rounded
from fixtures.matrix.hook import Gradient, Hook
from fixtures.matrix.hooks import find_hook
from tests.extras.hooks.sound_hooks import BF16, FP8_FP32_VECTORS, INT8, INT8_FP32_VECTORS


@pytest.mark.parametrize(
    ("hook", "gradients", "expected"),
    [
        # 1003 elements on 3 ranks: 2 blocks of 256 codes and a scale in each share.
        (INT8, [((1000,), 4), ((3,), 2)], 2 * 3 * 2 * 2 * (256 + 4)),
        (find_hook("fp8_all_to_all"), [((1536,), 4)], 2 * 3 * 2 * 2 * (256 + 4)),
        # And 1003 elements of vectors in float32.
        (INT8_FP32_VECTORS, [((1000,), 4), ((3,), 2)], 2 * 3 * 2 * 2 * (256 + 4) + 2 * 2 * 4 * 1003),
        (FP8_FP32_VECTORS, [((2, 512), 4), ((512,), 4)], 2 * 3 * 2 * 2 * (256 + 4) + 2 * 2 * 4 * 512),
        (BF16, [((1000,), 4), ((3,), 2)], 2 * 3 * 2 * 335 * 2),
    ],
)
def test_a_hook_sends_the_bytes_of_its_dtype(hook: Hook, gradients: list[Gradient], expected: int) -> None:
    assert hook.bytes_sent(gradients, 3) == expected


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
