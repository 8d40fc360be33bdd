"""The predicted bytes of the suite's hooks equal the kernel's count, on two live ranks over gloo."""

import pytest

from fixtures.launch.rank_sets import RankSet
from tests.ranks.test_wire_bytes import GRADIENTS, wire

# A byte an element and a scale a block.
EIGHT_BITS = GRADIENTS // 2 * (256 + 4) // 256


@pytest.mark.parametrize(
    ("hook", "expected"),
    [("fp8_all_to_all", EIGHT_BITS)],
)
def test_what_is_predicted_crosses_the_wire(ranks: RankSet, hook: str, expected: int) -> None:
    answer = wire(ranks, f"{hook}-bucket_25mb")
    assert answer["predicted"] == expected
    assert answer["counted"] == pytest.approx(answer["predicted"], rel=0.03)
