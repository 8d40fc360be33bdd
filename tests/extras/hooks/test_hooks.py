"""The bytes that the suite's hooks promise to send."""

import pytest

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
