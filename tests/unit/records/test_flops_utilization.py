"""MFU of measurements made by hand: operations a second over the peak of the arithmetic in which they run."""

from dataclasses import replace

import pytest

from fixtures.launch.protocol import WorkloadFingerprint
from fixtures.records.measurement import Measurement, mfu_percent, peak_flops_per_s
from tests.builders import TRAINED, launch, measured

H100 = "NVIDIA H100 80GB HBM3"
FP32 = replace(TRAINED, cudnn_allow_tf32=True)
TF32 = replace(FP32, float32_matmul_precision="high")
AUTOCAST = replace(FP32, activation_dtypes=["bfloat16", "float32"])


def counted(
    trained: WorkloadFingerprint | None, *, products: float = 91e9, convolutions: float = 0, world: str = "8gpu"
) -> Measurement:
    """Ten steps of 32 samples a second."""
    one = replace(
        launch(0.1),
        workload_fingerprint=trained,
        flops_per_sample={"matrix product": products, "convolution": convolutions},
    )
    return measured("ddp", 10, world=world, launches=(one, launch(0.1)))


@pytest.mark.parametrize(("trained", "tflops"), [(FP32, 67), (TF32, 494.5), (AUTOCAST, 989.5)])
def test_mfu_is_against_the_peak_of_the_arithmetic(trained: WorkloadFingerprint, tflops: float) -> None:
    m = counted(trained)
    assert m.flops_per_step == pytest.approx(8 * 32 * 91e9)
    assert peak_flops_per_s(m, H100) == pytest.approx(1e12 * tflops)
    assert mfu_percent(m, H100) == pytest.approx(100 * 10 * 32 * 91e9 / (1e12 * tflops))
    assert m.to_record().flops_per_step == m.flops_per_step


def test_convolutions_and_products_count_each_against_its_own_peak() -> None:
    m = counted(FP32, products=67e9, convolutions=494.5e9)  # 1 ms each
    assert peak_flops_per_s(m, H100) == pytest.approx((67e9 + 494.5e9) / 2e-3)
    assert mfu_percent(counted(FP32, products=0, convolutions=494.5e9), H100) == pytest.approx(32)
    one = replace(launch(0.1), uncounted="RuntimeError: no formula")
    record = measured("ddp", 10, launches=(one,)).to_record()
    assert (record.flops_per_step, record.uncounted) == (None, "RuntimeError: no formula")


@pytest.mark.parametrize(
    ("m", "gpu"),
    [
        (counted(FP32), "NVIDIA Tomorrow"),
        (counted(FP32), None),
        (counted(FP32, world="2cpu"), H100),
        (counted(None), H100),
        (counted(FP32, products=0), H100),
        (counted(replace(FP32, float32_matmul_precision=None)), H100),
        (counted(replace(FP32, parameter_dtypes=["float64"])), H100),
        (counted(AUTOCAST), "Tesla T4"),
        (measured("ddp", 10), H100),
    ],
)
def test_without_a_peak_or_operations_there_is_no_mfu(m: Measurement, gpu: str | None) -> None:
    assert mfu_percent(m, gpu) is None
