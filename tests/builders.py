"""Measurements made by hand, for tests of tables, verdicts and records."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from fixtures.launch.channel import Heartbeat
from fixtures.launch.processes import OnThisMachine
from fixtures.launch.protocol import WorkloadFingerprint
from fixtures.machine.cpu import HostLoad
from fixtures.machine.nccl_log import Fingerprint
from fixtures.machine.topology import Gpus
from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import INTERCONNECTS, parse_world, worlds_of
from fixtures.records.differences import Snapshot
from fixtures.records.loss_comparison import Effect, LossComparison
from fixtures.records.measurement import Launch, Measurement, with_launches
from fixtures.records.schema import EnvironmentRecord, TestRecord
from fixtures.report.rows import Report
from fixtures.report.table import report_lines
from fixtures.session.ab_launches import ABResult
from fixtures.session.case import Case, Launches, M, Subject
from fixtures.session.run_record import record_so_far
from fixtures.session.run_state import Run
from fixtures.session.settings import Settings
from fixtures.stats.verdict import Verdict, judge

if TYPE_CHECKING:
    from fixtures.ranks.context import RankContext


T = TypeVar("T")


def known(value: T | None) -> T:
    """The value, which is there."""
    assert value is not None
    return value


# Any: JSON.
def environment_of(environment: Mapping[str, Any]) -> EnvironmentRecord:
    return msgspec.convert(environment, EnvironmentRecord)


def snapshot(info: Mapping[str, Any], environment: Mapping[str, Any]) -> Snapshot:
    return Snapshot(info=msgspec.convert(info, TestRecord), environment=environment_of(environment))


TRAINED = WorkloadFingerprint(
    parameters=4,
    parameter_elements=2_709_706,
    parameter_dtypes=["float32"],
    parameters_sha256="a",
    buffers=1,
    buffer_elements=8,
    buffers_sha256="b",
    sample=["float32[3]"],
    batch_size=32,
    optimizer="SGD",
    optimizer_options={"lr": "0.001"},
    find_unused_parameters=False,
    activation_dtypes=["float32"],
    float32_matmul_precision="highest",
    cudnn_allow_tf32=None,
)
SETTINGS = Settings(
    gpus=Gpus(),
    starter=OnThisMachine(),
    instance="8x-nvidia-h200-nv18",
    worlds=worlds_of(8),
    precisions=("fp32",),
    workloads=WORKLOADS,
    hooks={},
    interconnects=INTERCONNECTS,
    quick=False,
    launches=1,
    steps=3,
    warmup=10,
    rank_timeout_s=120,
    min_slowdown_percent=1,
    against_build=None,
    against_env={},
    minutes=None,
    turns_s=None,
    require_baseline=False,
    sensitivity_percent=None,
    explain="failures",
    traces=None,
    report=None,
)


def launch(*step_s: float) -> Launch:
    return Launch(
        step_s=step_s,
        phase_s={},
        spent_s={},
        peak_memory_bytes=3_000_000_000,
        steady_memory_bytes=2_900_000_000,
        bucket_bytes=[1_226_141_600],
        wire_bytes_per_step=17_200_000,
        wire_dtype="float32",
        gradient_error=2e-3,
        gradient_lossless=None,
        fingerprint=Fingerprint(transports={"P2P/CUMEM": 192}),
    )


def measured(
    config: str,
    steps_per_s: float,
    *,
    world: str = "8gpu",
    workload: str = "vit_l_32",
    interconnect: str = "native",
    launches: tuple[Launch, ...] = (),
) -> Measurement:
    return Measurement(
        workload=WORKLOADS[workload],
        world=parse_world(world),
        config=CONFIGS[config],
        interconnect=INTERCONNECTS[interconnect],
        launches=launches or (launch(1 / steps_per_s),),
    )


def unwrapped(lines: list[str]) -> list[str]:
    """The lines before they were wrapped: those indented by two continue the one before."""
    joined: list[str] = []
    for line in lines:
        if re.match(r"  \S", line):
            joined[-1] += line[1:]
        else:
            joined.append(line)
    return joined


QUIET_HOST = HostLoad(others=0, cores=2)


# Any: fields of a case; nothing is launched.
def case_of(*, measurement: M, verdict: Verdict, pairs: ABResult | None = None, key: str = "", **known: Any) -> Case[M]:
    """A test with this measurement, and with this verdict at the end of the run."""

    def never(*_: object) -> Any:
        raise AssertionError("nothing is launched")

    empty = with_launches(measurement, ())
    subject = Subject(
        test="perf/test", name="a", title="a b", key=key, why_not=None, empty=empty, request=never, launch_of=never
    )
    shared = Launches(launches=measurement.launches, remeasured_medians_s=measurement.remeasured_medians_s, pairs=pairs)
    return Case(**{"subject": subject, "shared": shared, "first": verdict, "decided": verdict, **known})


def run_of(*measurements: Measurement, history_s: Iterable[float] = ()) -> Run:
    """A run that has judged these, each by a test of its own."""
    run = Run(settings=SETTINGS, host_load=QUIET_HOST)
    for number, measurement in enumerate(measurements):
        verdict = judge(measurement.launch_medians_s, [[time] for time in history_s])
        run.cases[f"perf/test_{number}"] = case_of(measurement=measurement, verdict=verdict)
    return run


def report_of(run: Run) -> Report:
    return Report(record=record_so_far(run, None))


def printed(run: Run, *, verbose: bool = False) -> list[str]:
    """The tables of this run."""
    return unwrapped(report_lines(run, report_of(run), verbose=verbose))


def lines(*measurements: Measurement, history_s: Iterable[float] = (), verbose: bool = False) -> list[str]:
    """The table of a run that has judged these."""
    return printed(run_of(*measurements, history_s=history_s), verbose=verbose)


# The loss of bf16 over three seeds, as it may be compared on the user's own model.
BF16_LOSS = LossComparison(
    workload="mine",
    world="8gpu",
    interconnect="native",
    config="bf16",
    hook="bf16",
    word="same",
    change_percent=0.4,
    interval_percent=(0.3, 0.5),
    seeds_percent=0.6,
    of_progress=False,
    seeds=2,
    repeats_percent=0.0,
    not_finite_from=None,
    steps=(10, 20),
    as_written=((2.0, 1.0), (2.02, 1.006)),
    losses=((2.0, 1.004), (2.02, 1.01)),
)
DDP = measured("ddp", 8)


def effect_of(config: str, *, excess_percent: float) -> Effect:
    """The effect of a hook on the loss of the small problem, in both curves the same."""
    return Effect(
        config=config,
        world="2cpu",
        excess_percent=excess_percent,
        margin_percent=1.0,
        kept_percent=90.0,
        losses=(0.6,),
        reference=(0.5,),
        steps=(0, 100),
        curve=(2.0, 0.6),
        reference_curve=(2.0, 0.5),
    )


def as_rank(folder: Path) -> "RankContext":
    """This process as a rank on the CPU."""
    import torch

    from fixtures.ranks.context import RankContext

    heartbeat = Heartbeat(folder / "heartbeat", 1)
    return RankContext(rank=0, device=torch.device("cpu"), folder=folder, heartbeat=heartbeat)
