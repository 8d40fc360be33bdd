"""The paragraph on a run without a baseline, where no whole run shows it: runs/test_first_run.py has the rest."""

from dataclasses import replace

import pytest

from fixtures.extras.first_run.expectations import Expectation, PastRun, Population
from fixtures.extras.first_run.facts import FirstRun
from fixtures.extras.first_run.first_run_lines import first_run_lines
from fixtures.extras.first_run.limitations import Limitation
from fixtures.extras.first_run.quantities import Quantity, Rate
from fixtures.records.schema import EnvironmentRecord

CPU = FirstRun(instances=("2x-amd-epyc",), population=None, expectations=(), limitations=(), software=())
BUSY = Limitation(kind="host", message="other processes used 1.3 of 2 cores")
LANES = Limitation(kind="pcie", message="the PCIe link is x8 of x16 (GPU 0)")
CLOCKS = Limitation(kind="clocks", message="GPU 0: SM clock 1410 of 1980 MHz")
PRODUCT = Quantity(
    name="matrix_product_4096",
    rate=Rate(label="matrix product", resource="compute", value=51.0, unit="TFLOP/s"),
    ranks=4,
    interconnect="native",
    links=frozenset({"NV18"}),
)
SLOW = replace(PRODUCT, rate=replace(PRODUCT.rate, value=45.0))
ONE = PastRun(instance="2x-nvidia-h200-nv18", environment=EnvironmentRecord(), quantities=(PRODUCT,))


def on_gpus(now: Quantity, *limitations: Limitation, software: tuple[str, ...] = ()) -> FirstRun:
    """One number next to one record."""
    return FirstRun(
        instances=("4x-nvidia-h200-nv18",),
        population=Population(device="NVIDIA H200", runs=(ONE,)),
        expectations=(Expectation(quantity=now, records=(PRODUCT,)),),
        limitations=limitations,
        software=software,
    )


def test_a_quiet_cpu_is_not_reported_and_the_load_of_the_host_is_left_to_the_line_on_the_disturbance() -> None:
    assert first_run_lines(CPU) == first_run_lines(None) == []
    assert first_run_lines(replace(CPU, limitations=(BUSY,))) == []


def test_a_gpu_without_records_or_with_others_is_no_silence() -> None:
    unknown = replace(on_gpus(PRODUCT), population=Population(device="NVIDIA L40S"), expectations=())
    assert first_run_lines(unknown) == ["No record of the same GPU (NVIDIA L40S) in the storage."]
    _, line = first_run_lines(replace(on_gpus(PRODUCT), expectations=()))
    assert line == "    they have none of the numbers of this run"


FINE = "the one number is as high as expected: matrix product 51 of 51 TFLOP/s"
NO_CAUSE = "no cause was found; look for other work and low clocks with nvidia-smi, then run again"
OTHER = "torch 2.11.0 -> 2.15.0"
LOW = "matrix product 45 of 51 TFLOP/s, 12 % lower: "


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (on_gpus(PRODUCT), FINE),
        (on_gpus(PRODUCT, CLOCKS), FINE),
        (on_gpus(SLOW, CLOCKS), LOW + CLOCKS.message),
        (on_gpus(SLOW), LOW + NO_CAUSE),
        (on_gpus(SLOW, software=(OTHER,)), LOW + f"the software differs from that of the records: {OTHER}"),
        (on_gpus(PRODUCT, LANES), f"{FINE} {LANES.message}"),
        (on_gpus(PRODUCT, BUSY), FINE),
    ],
    ids=["fine", "clocks without effect", "clocks", "no cause", "software", "unrelated", "host"],
)
def test_a_low_number_has_its_cause_or_what_to_look_at(first: FirstRun, says: str) -> None:
    head, *lines = first_run_lines(first)
    assert head == "Compared with 1 record of the same GPU (NVIDIA H200) in the storage:"
    assert all(line.startswith("    ") and len(line) <= 100 for line in lines)
    assert " ".join(" ".join(lines).split()) == says
