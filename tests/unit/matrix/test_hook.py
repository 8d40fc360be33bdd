"""Claims of a hook: contradictory claims are refused."""

import sys
from collections.abc import Callable
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
        ({"channel": 2.5}, "channel must be 1 or more elements, or None, got 2.5"),
        ({"period": 0}, "period must be 1 or more steps, got 0"),
        ({"period": float("nan")}, "period must be 1 or more steps, got nan"),
        ({"period": lambda: 2}, "period must be 1 or more steps, got <function"),
        ({"first_step": -1}, "first_step must be 0 or more steps, got -1"),
        ({"first_step": None}, "first_step must be 0 or more steps, got None"),
        ({"delivers_within": "60"}, "delivers_within must be 1 or more steps, got '60'"),
        ({"loss_excess_percent": float("nan")}, "loss_excess_percent must be a number from 0 on, got nan"),
        ({"why_not": None}, "why_not must be a function, got None"),
        ({"wire_bytes": 4096}, "wire_bytes must be a function, got 4096"),
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


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda ddp: 1 / 0, "its build raised ZeroDivisionError: division by zero"),
        (lambda ddp: sys.exit(3), "its build raised SystemExit: 3"),
        (lambda ddp, more: None, "its build raised TypeError: .*missing 1 required positional argument: 'more'"),
        (lambda ddp: None, "its build returned None"),
        (lambda ddp: (1, 2, 3), r"its build returned \(1, 2, 3\)"),
    ],
)
def test_a_build_that_raises_or_returns_nonsense_is_named(build: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"hook x: {says}.*; it takes the DDP module and returns the pair"):
        Hook(name="x", build=build).built(None)


def test_a_verify_may_only_raise_that_the_hook_did_nothing() -> None:
    def idle(state: Any, steps: int) -> None:
        raise RuntimeError(f"nothing in {steps} steps")

    with pytest.raises(RuntimeError, match=r"^nothing in 3 steps$"):
        Hook(name="x", build=None, verify=idle).check_work(None, 3)
    with pytest.raises(ValueError, match="hook x: its verify raised KeyError: 'iter'; it takes the state and the"):
        Hook(name="x", build=None, verify=lambda state, steps: state["iter"]).check_work({}, 3)
    with pytest.raises(ValueError, match=r"its verify returned False; .*, returns nothing, and raises RuntimeError"):
        Hook(name="x", build=None, verify=lambda state, steps: False).check_work(None, 3)  # type: ignore[arg-type]
