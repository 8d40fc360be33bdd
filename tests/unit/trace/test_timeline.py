"""Interval arithmetic, compared with sets of single nanoseconds, and recognition of collectives by their names."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.trace.timeline import (
    Intervals,
    clip,
    intersect,
    is_collective,
    length,
    operation,
    short_name,
    subtract,
    union,
)

SPAN = st.tuples(st.integers(0, 30), st.integers(0, 30))
ANY = st.lists(SPAN, max_size=8)
SETS = ANY.map(union)


def moments(intervals: Intervals) -> set[int]:
    return {moment for start, end in intervals for moment in range(start, end)}


def is_normal(intervals: Intervals) -> bool:
    """Sorted, disjoint, not touching, none empty."""
    return all(a < b for a, b in pairwise([border for interval in intervals for border in interval]))


@given(ANY, SETS, SETS, SPAN)
def test_intervals_have_the_time_points_of_their_sets_once(
    spans: Intervals, a: Intervals, b: Intervals, bounds: tuple[int, int]
) -> None:
    for found, expected in (
        (union(spans), moments(spans)),
        (intersect(a, b), moments(a) & moments(b)),
        (subtract(a, b), moments(a) - moments(b)),
        (clip(a, *bounds), moments(a) & set(range(*bounds))),
    ):
        assert moments(found) == expected
        assert length(found) == len(expected)
        assert is_normal(found)


# Recognition of collectives by their names


@pytest.mark.parametrize(
    ("kernel", "what"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "all_reduce"),
        ("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "all_gather"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "send_recv"),
        ("ncclAllReduceTreeLLKernel_sum_f16(ncclColl)", "all_reduce"),
        ("ncclBroadcastRingLLKernel_copy_i8(ncclColl)", "broadcast"),
        ("ncclReduceScatterRingLLKernel_sum_f32(ncclColl)", "reduce_scatter"),
        ("ncclDevKernel_AllReduce_Sum_f32_TREE_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "reduce_scatter"),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "reduce_scatter"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_gather"),
        ("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "broadcast"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgs4K)", "reduce"),
        ("ncclSymDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_f32(ncclSymkDevWorkArgs4K)", "all_reduce"),
        ("void multimem_all_reduce_kernel<float, 16>(float*, unsigned long)", "all_reduce"),
        ("void deep_ep::intranode::dispatch<8, 768>(int4*, float*, int*)", "all_to_all"),
        ("void deep_ep::internode::combine<false, 8, __nv_bfloat16>(int4*, float*)", "all_to_all"),
        ("void deep_ep::internode_ll::dispatch<true, false, 7168>(void*, void*)", "all_to_all"),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "collective"),
    ],
)
def test_collectives_are_recognised_by_their_kernels(kernel: str, what: str) -> None:
    assert is_collective(kernel)
    assert operation(kernel) == what


def test_kernels_with_similar_names_are_compute() -> None:
    similar = (
        "ampere_sgemm_128x64_tn",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(float)",
        "void at::native::(anonymous namespace)::indexing_backward_kernel_many_indices<float>(long*)",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float>(float)",
        "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*, int*)",
        "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)",
    )
    assert [kernel for kernel in similar if is_collective(kernel)] == []


def test_torchs_own_names_give_the_kind_of_a_collective() -> None:
    kinds = {
        "gloo:all_reduce": "all_reduce",
        "allreduce_coalesced": "all_reduce",
        "_allgather_base": "all_gather",
        "reduce_scatter_tensor_coalesced": "reduce_scatter",
        "all_to_allv": "all_to_all",
        "barrier": "collective",
    }
    assert {name: operation(name) for name in kinds} == kinds


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::(anonymous namespace)::indexing_kernel<float>(long*)", "indexing_kernel"),
        ("void multimem_all_reduce_kernel<float, 16>(float*, unsigned long)", "multimem_all_reduce_kernel"),
        ("void cutlass::Kernel2<cutlass_80_gemm>(cutlass_80_gemm::Params)", "cutlass_80_gemm"),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("triton_poi_fused_add_mul_12", "triton_poi_fused_add_mul"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, "
            "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int, float)",
            "vectorized_elementwise_kernel of MulFunctor",
        ),
        (
            "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)"
            "::{lambda()#3}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >(int)",
            "unrolled_elementwise_kernel of direct_copy_kernel_cuda",
        ),
        ("aten::mm", "mm"),
        ("(nameless)", "(nameless)"),
    ],
)
def test_short_names_are_without_namespaces_and_arguments(name: str, short: str) -> None:
    assert short_name(name) == short
