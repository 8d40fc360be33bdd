"""The peak of a GPU by the name that NVML reports."""

import pytest

from fixtures.machine.gpu_links import Arithmetic, peak_flops


@pytest.mark.parametrize(
    ("name", "arithmetic", "tflops"),
    [
        ("NVIDIA H100 80GB HBM3", "fp32", 67),
        ("NVIDIA H100 80GB HBM3", "bf16", 989.5),
        ("NVIDIA H100 PCIe", "bf16", 756.5),
        ("NVIDIA H100 NVL", "tf32", 417.5),
        ("NVIDIA H200", "tf32", 494.5),
        ("NVIDIA H200 NVL", "fp32", 60),
        ("NVIDIA GB200", "bf16", 2500),
        ("NVIDIA B200", "bf16", 2250),
        ("NVIDIA A100-SXM4-80GB", "tf32", 156),
        ("NVIDIA A100 80GB PCIe", "bf16", 312),
        ("NVIDIA L40S", "bf16", 362),
        ("NVIDIA L40", "bf16", 181),
        ("NVIDIA L4", "bf16", 121),
        ("NVIDIA A10G", "bf16", 70),
        ("NVIDIA A10", "bf16", 125),
        ("Tesla V100-SXM2-16GB", "fp16", 125),
        ("Tesla V100-PCIE-32GB", "fp32", 14),
        ("Tesla T4", "fp16", 65),
    ],
)
def test_a_gpu_has_the_peak_of_its_datasheet(name: str, arithmetic: Arithmetic, tflops: float) -> None:
    assert peak_flops(name, arithmetic) == pytest.approx(1e12 * tflops)


@pytest.mark.parametrize("name", ["NVIDIA GH200 480GB", "NVIDIA H20", "NVIDIA A1000", "NVIDIA H100", "NVIDIA T400", ""])
def test_a_gpu_whose_name_only_resembles_another_has_no_peak(name: str) -> None:
    assert peak_flops(name) is None


def test_a_gpu_without_tf32_computes_in_fp32_and_one_without_bfloat16_has_no_peak_for_it() -> None:
    assert peak_flops("Tesla T4", "tf32") == peak_flops("Tesla T4") == pytest.approx(8.1e12)
    assert peak_flops("Tesla T4", "bf16") is None
