"""Sketches by which ranks compare parameters, and what is read from batches."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fixtures.ranks.script.trained_model import checksum, is_dense, samples_of, tensors_in
from fixtures.ranks.script.training_checks import SIZE, sketch


@given(elements=st.integers(0, 5 * SIZE), seed=st.integers(0, 99))
def test_the_sketch_of_a_difference_is_the_difference_of_the_sketches(elements: int, seed: int) -> None:
    a, b = torch.randn(2, elements, generator=torch.Generator().manual_seed(seed)).double()
    assert torch.allclose(sketch(a) - sketch(b), sketch(a - b), atol=1e-9)


@pytest.mark.parametrize("elements", [10, SIZE, 100 * SIZE + 7, 1200 * SIZE])
def test_the_norm_of_a_sketch_is_that_of_the_tensor(elements: int) -> None:
    tensor = torch.randn(elements, generator=torch.Generator().manual_seed(0))
    assert float(sketch(tensor).norm()) == pytest.approx(float(tensor.norm()), rel=0.08)


@pytest.mark.parametrize("element", [0, 1, SIZE, 3 * SIZE + 5])
def test_a_single_element_is_seen(element: int) -> None:
    tensor = torch.randn(4 * SIZE, generator=torch.Generator().manual_seed(0))
    other = tensor.clone()
    other[element] += 0.25
    assert float((sketch(tensor) - sketch(other)).norm()) == pytest.approx(0.25, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.complex64, torch.int64])
def test_tensors_of_any_dtype_have_a_sketch(dtype: torch.dtype) -> None:
    assert float(sketch(torch.ones(3, dtype=dtype)).norm()) == pytest.approx(3**0.5)
    assert not is_dense(torch.ones(3).to_sparse())


@pytest.mark.parametrize(
    ("shapes", "samples"),
    [
        ([(32, 8), (32,)], 32),
        ([(3,), (32, 8), (32, 4)], 32),
        ([(64, 3, 8, 8), (64, 3, 4, 4), (2, 2)], 64),
        ([(12, 5), (7, 5)], 12),
        ([()], 1),
        ([], 1),
    ],
)
def test_the_samples_of_a_batch_are_the_first_dimension_that_most_tensors_share(
    shapes: list[tuple[int, ...]], samples: int
) -> None:
    assert samples_of([torch.zeros(shape) for shape in shapes]) == samples


def test_tensors_are_found_in_nested_values() -> None:
    one = torch.zeros(1)
    found: list[Tensor] = tensors_in({"a": [one, (one, {"b": one})], "c": "text", "d": None})
    assert len(found) == 3


def test_a_checksum_tells_batches_apart_and_constant_ones_have_none() -> None:
    assert checksum([torch.arange(5)]) != checksum([torch.arange(1, 6)])
    assert checksum([torch.zeros(5)]) is None
