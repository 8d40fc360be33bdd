"""The bytes that the suite's hooks promise to send."""

import pytest

from fixtures.matrix.hook import Gradient
from fixtures.matrix.hooks import find_hook


@pytest.mark.parametrize(
    ("hook", "gradients", "expected"),
    [
        # 1003 elements on 3 ranks: 2 blocks of 256 codes and a scale in each share.
        ("int8_all_to_all", [((1000,), 4), ((3,), 2)], 2 * 3 * 2 * 2 * (256 + 4)),
        ("fp8_all_to_all", [((1536,), 4)], 2 * 3 * 2 * 2 * (256 + 4)),
        # And 1003 elements of vectors in float32.
        ("int8_all_to_all_fp32_vectors", [((1000,), 4), ((3,), 2)], 2 * 3 * 2 * 2 * (256 + 4) + 2 * 2 * 4 * 1003),
        ("fp8_all_to_all_fp32_vectors", [((2, 512), 4), ((512,), 4)], 2 * 3 * 2 * 2 * (256 + 4) + 2 * 2 * 4 * 512),
        ("bf16_all_to_all", [((1000,), 4), ((3,), 2)], 2 * 3 * 2 * 335 * 2),
    ],
)
def test_a_hook_sends_the_bytes_of_its_dtype(hook: str, gradients: list[Gradient], expected: int) -> None:
    assert find_hook(hook).bytes_sent(gradients, 3) == expected
