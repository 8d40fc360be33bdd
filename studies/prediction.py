"""Validation of ``python -m fixtures predict`` and of advice, for docs/studies/accuracy.md.

python -m studies.prediction            the tables, from the records in baselines/
python -m studies.prediction FOLDER     from other records, in folders by instance

Each record predicts what the records of other sizes measured, of the same GPU model and over the same interconnect;
none is fitted to what it predicts. ``native to shm``: a record over NVLink, with the all-reduce canaries of one through
host memory, predicts the latter. Then each record's ddp, ddp_default and no_comm predict its other configs, as advice
does.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

from fixtures.extras.predict.plugin import Figure, Parts, change_to, prediction
from fixtures.extras.predict.prediction import (
    ASSUMED,
    CannotPredict,
    Measured,
    all_reduces_of,
    cluster_of,
    copied_gb_per_s,
    line_through,
    measured_parts,
    predict,
    read_measured,
)
from fixtures.matrix.configs import BY_DEFAULT, CONFIGS
from fixtures.records.schema import FullRecord

BASELINES = Path(__file__).parent.parent / "baselines"
WORKLOAD = "vit_l_32"


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One config of one record, predicted from another.

    unchanged_percent: the error of saying that the step takes as long as in the record that it is predicted from.
    """

    how: str
    config: str
    error_percent: float
    unchanged_percent: float
    inside: bool


def cases(folder: Path = BASELINES, workload: str = WORKLOAD) -> Iterator[Case]:
    """All pairs of records of one GPU model, one interconnect and different sizes, then those of ``links``."""
    records = [read_measured(file) for file in sorted(folder.glob("*/*.json"))]
    having = [(record, parts) for record in records if (parts := _parts(record, workload))]
    for record, parts in having:
        for other, theirs in having:
            if _gpu_model(record) != _gpu_model(other):
                continue
            n, m = parts[0].parts.ranks, theirs[0].parts.ranks
            if parts[0].interconnect == theirs[0].interconnect and n != m:
                yield from _compared(f"{parts[0].interconnect}, {n} to {m}", parts, other, m)
            elif parts[0].interconnect == "native" and theirs[0].interconnect != "native" and n == m:
                links = cluster_of(other, theirs[0].interconnect, n)
                over = [replace(one, cluster=links) for one in parts]
                yield from _compared(f"native to {theirs[0].interconnect}, on {n}", over, other, m)


def _gpu_model(record: FullRecord) -> str:
    """Model and link in the instance's name: nvidia-h200-nv18 of 8x-nvidia-h200-nv18-shm."""
    return (record.instance or "").partition("x-")[2].removesuffix("-shm")


def _parts(record: FullRecord, workload: str) -> list[Measured]:
    if not any(benchmark.extra_info.workload == workload for benchmark in record.benchmarks):
        return []
    try:
        return measured_parts(record, workload=workload)
    except CannotPredict as error:
        print(f"left out: {error}", file=sys.stderr)
        return []


def _compared(how: str, parts: Sequence[Measured], other: FullRecord, ranks: int) -> Iterator[Case]:
    for benchmark in other.benchmarks:
        info = benchmark.extra_info
        if info.workload != parts[0].workload or info.world_size != ranks:
            continue
        for one in parts:
            if one.config == info.config:
                actual_s = math.exp(fmean(map(math.log, info.launch_medians_s)))
                found = predict(
                    one.parts, ranks, replace(one.cluster, gpus_per_node=max(ranks, one.parts.ranks)), "ring", ASSUMED
                )
                yield Case(
                    how=how,
                    config=one.config,
                    error_percent=100 * (found.step_s / actual_s - 1),
                    unchanged_percent=100 * (one.step_s / actual_s - 1),
                    inside=found.low_s <= actual_s <= found.high_s,
                )


def advised(folder: Path = BASELINES, workload: str = WORKLOAD) -> Iterator[Case]:
    """The configs of each record, predicted as advice for its ddp does where only ddp_default and no_comm were measured
    besides."""
    for file in sorted(folder.glob("*/*.json")):
        record = read_measured(file)
        of = {
            b.extra_info.config or "": b.extra_info
            for b in record.benchmarks
            if b.extra_info.workload == workload and (b.extra_info.world_size or 1) > 1
        }
        if not {"ddp", "ddp_default", "no_comm"} <= of.keys():
            continue
        ranks, interconnect = of["ddp"].world_size or 0, of["ddp"].interconnect or ""
        line = line_through(all_reduces_of(record, interconnect, [of["ddp"].world or ""]))
        steps_ms = {name: 1e3 * math.exp(fmean(map(math.log, info.launch_medians_s))) for name, info in of.items()}
        finest = max((info.bucket_bytes or [] for info in of.values()), key=len)
        parts = Parts(
            step_ms=steps_ms["ddp"],
            without_ms=steps_ms["no_comm"],
            backward_ms=(of["no_comm"].phases_ms or {})["backward"],
            gradients=tuple((size, 4) for size in reversed(finest)),
            copied_gb_per_s=copied_gb_per_s(record, interconnect),
        )
        configs = [CONFIGS[name] for name in of if name in BY_DEFAULT and name != "ddp_default"]
        measured = {"ddp_default": Figure(step_ms=steps_ms["ddp_default"])}
        predicted_ms = prediction(parts, CONFIGS["ddp"], [CONFIGS["ddp_default"]], line, measured)
        assert predicted_ms is not None, f"{file} has no all-reduces"
        for config in configs:
            if change_to(parts, CONFIGS["ddp"], config) is not None:
                actual_ms = steps_ms[config.name]
                yield Case(
                    how=f"advice, {interconnect}, {ranks}",
                    config=config.name,
                    error_percent=100 * (predicted_ms(config) / actual_ms - 1),
                    unchanged_percent=100 * (parts.step_ms / actual_ms - 1),
                    inside=False,
                )


def main(arguments: Sequence[str]) -> None:
    folder = Path(arguments[0]) if arguments else BASELINES
    found = [*cases(folder), *advised(folder)]
    titles = ("from, to", "predictions", "within 5 %", "unchanged within 5 %", "in the 90 % interval")
    print(f"| {' | '.join(titles)} | median error % | unchanged % | largest error % |")
    print("|---|---|---|---|---|---|---|---|")
    for how in dict.fromkeys(case.how for case in found):
        of = [case for case in found if case.how == how]
        worst = max(of, key=lambda case: abs(case.error_percent))
        cells = (
            how,
            len(of),
            sum(abs(case.error_percent) <= 5 for case in of),
            sum(abs(case.unchanged_percent) <= 5 for case in of),
            "" if how.startswith("advice") else sum(case.inside for case in of),
            f"{median(case.error_percent for case in of):+.1f}",
            f"{median(case.unchanged_percent for case in of):+.1f}",
            f"{worst.error_percent:+.1f} (`{worst.config}`)",
        )
        print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main(sys.argv[1:])
