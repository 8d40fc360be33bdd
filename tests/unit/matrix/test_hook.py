"""Claims of a hook: contradictory claims are refused."""

from typing import Any

import pytest

from fixtures.matrix.hook import Hook
from fixtures.matrix.hooks import find_hook
from fixtures.matrix.lookup import NotFound


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        (
            {"promise": "lossless"},
            "promise 'lossless' is not one of mean, unbiased, block_scaled, low_rank, full_rank, remembered, local",
        ),
        ({"promise": "mean"}, "promises the mean: it must specify its wire_dtype"),
        ({"wire_dtype": "fp16"}, "wire_dtype 'fp16' is not one of None, gradient, float64"),
        ({"arithmetic": "add"}, "arithmetic 'add' is not one of multiply, divide, sum_in_float32, any"),
        ({"roundings": 3}, "roundings 3 is not one of 1, 2"),
        ({"promise": "block_scaled"}, "promise 'block_scaled' and relative_error need each other"),
        (
            {"wire_dtype": "bfloat16", "leaves_vectors": True},
            "leaves_vectors needs a wire_dtype of 8 bits, got 'bfloat16'",
        ),
        ({"relative_error": 0.1}, "promise 'block_scaled' and relative_error need each other"),
        ({"scale": "some"}, "scale 'some' is not one of rank, all"),
        ({"delivers_within": 0}, "delivers_within must be 1 or more steps, got 0"),
        ({"channel": 0}, "channel must be 1 or more elements, or None, got 0"),
        (
            {"promise": "mean", "wire_dtype": "gradient", "error_feedback": True},
            "promises 'mean' in each step, so error feedback has nothing to deliver later",
        ),
    ],
)
def test_a_claim_that_means_nothing_is_refused(claim: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"hook 'x'.* {says}"):
        Hook(name="x", build=None, **claim)


def test_a_hook_that_is_not_there_is_reported_and_one_with_a_path_is_called_by_its_attribute() -> None:
    with pytest.raises(NotFound, match=r"no hook named 'powersdg', did you mean powersgd_rank4.: there are none"):
        find_hook("powersdg")
    assert find_hook("tests.mutants.side_effects:keeps_every_gradient").name == "keeps_every_gradient"
