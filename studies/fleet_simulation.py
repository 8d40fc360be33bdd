"""Simulation for docs/studies/accuracy.md: false and missed names of ``python -m fixtures fleet``.

python -m studies.fleet_simulation                         the table, 1000 fleets a row
python -m studies.fleet_simulation --fleets 100 --hosts 4  fewer fleets, another size

Noise is that of the canaries of the records in baselines/: launches are drawn from how the launches of a record lie
about their mean, and machines from a normal distribution with the standard deviation of those of one kind; with
--as-they-are from these machines themselves. These records have the slowest GPU only, so GPUs of a host are drawn like
machines, and lie as far apart. The same seeds give the same numbers.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fixtures.extras.fleet.families import families_of
from fixtures.extras.fleet.slow_units import MIN_UNITS, Family, Runs, find_slow, within_hosts

BASELINES = Path(__file__).parent.parent / "baselines"
_GPU_CANARIES = ("matrix_product_4096", "device_to_device_copy_256mb", "host_to_device_copy_64mb")
_LAUNCHES = 3

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Noise of one canary in ln(time): launches around their record, shape (n,); machines around their kind's."""

    launches: Floats
    machines: Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class Planted:
    """A slow part of a fleet. gpus: number of slow GPUs, each in a host of its own; percent: of their own canaries."""

    gpus: int
    percent: float


PLANTED = (Planted(gpus=0, percent=0), *(Planted(gpus=n, percent=p) for n, p in ((1, 1.5), (1, 2), (3, 2))))


def noise_of(families: Sequence[Family]) -> dict[str, Noise]:
    """Canary -> its noise in these families, of one kind."""
    launches: dict[str, list[float]] = {}
    machines: dict[str, list[float]] = {}
    for family in families:
        means = {unit: fmean(fmean(run) for run in runs) for unit, runs in family.units.items()}
        if len(means) > 1:
            machines.setdefault(family.canary, []).extend(mean - median(means.values()) for mean in means.values())
        for run in (run for runs in family.units.values() for run in runs):
            inflated = math.sqrt(len(run) / (len(run) - 1))
            launches.setdefault(family.canary, []).extend(inflated * (log - fmean(run)) for log in run)
    return {name: Noise(launches=np.array(launches[name]), machines=np.array(machines[name])) for name in machines}


def fleet(
    random: np.random.Generator,
    noise: dict[str, Noise],
    *,
    hosts: int,
    gpus: int,
    planted: Planted,
    as_they_are: bool = False,
) -> tuple[list[Family], set[str]]:
    """The families of a simulated fleet, one record a host, and the names of its slow GPUs."""
    slow = {(host, int(random.integers(gpus))) for host in random.choice(hosts, planted.gpus, replace=False).tolist()}
    families = []
    for canary, of in noise.items():
        machine = _machines(random, of, (hosts,), as_they_are)
        if canary not in _GPU_CANARIES:
            logs = machine[:, None] + random.choice(of.launches, (hosts, _LAUNCHES))
            families.append(
                _family(canary, "host", {f"host {h}": (tuple(run),) for h, run in enumerate(logs.tolist())})
            )
            continue
        part = _machines(random, of, (hosts, gpus), as_they_are)
        if canary != "host_to_device_copy_64mb":
            for host, gpu in slow:
                part[host, gpu] += math.log1p(planted.percent / 100)
        by_gpu = machine[:, None, None] + part[:, :, None] + random.choice(of.launches, (hosts, gpus, _LAUNCHES))
        by_host = np.median(by_gpu, axis=1)
        families.append(_family(canary, "host", {f"host {h}": (tuple(run),) for h, run in enumerate(by_host.tolist())}))
        units = {(f"host {h}", f"GPU {g}"): (tuple(by_gpu[h, g].tolist()),) for h in range(hosts) for g in range(gpus)}
        within = {f"{host} {gpu}": runs for (host, gpu), runs in within_hosts(units).items()}
        families.append(_family(canary, "GPU", within))
    return families, {f"host {host} GPU {gpu}" for host, gpu in slow}


def _machines(random: np.random.Generator, noise: Noise, shape: tuple[int, ...], as_they_are: bool) -> Floats:
    if as_they_are:
        return random.choice(noise.machines, shape)
    return random.normal(0, np.std(noise.machines, ddof=1), shape)


def _family(canary: str, level: str, units: dict[str, Runs]) -> Family:
    return Family(kind="simulated", canary=canary, level=level, units=units)


def counted(
    noise: dict[str, Noise], cases: int, hosts: int, planted: Planted, *, gpus: int = 8, as_they_are: bool = False
) -> tuple[int, int, int]:
    """Slow GPUs named, slow GPUs, and fleets with a false name."""
    named = slow = false = 0
    for seed in range(cases):
        random = np.random.default_rng([seed, hosts, gpus, planted.gpus])
        families, truth = fleet(random, noise, hosts=hosts, gpus=gpus, planted=planted, as_they_are=as_they_are)
        found = {effect.unit for effect in find_slow(families) if effect.slow}
        named, slow, false = named + len(found & truth), slow + len(truth), false + bool(found - truth)
    return named, slow, false


def _share(number: int, of: int) -> str:
    if not of:
        return ""
    interval = stats.binomtest(number, of).proportion_ci(0.95)
    return f"{number} of {of} ({100 * interval.low:.1f} to {100 * interval.high:.1f} %)"


def noises() -> dict[str, dict[str, Noise]]:
    """Kind -> canary -> noise, of the kinds with three machines or more in baselines/."""
    families = families_of([BASELINES])
    kinds = dict.fromkeys(family.kind for family in families if len(family.units) >= MIN_UNITS)
    return {kind: noise_of([f for f in families if f.kind == kind and len(f.units) > 1]) for kind in kinds}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fleets", type=int, default=1000)
    parser.add_argument("--hosts", type=int, nargs="+", default=[16])
    parser.add_argument("--as-they-are", action="store_true")
    options = parser.parse_args()
    print(
        "| noise of | hosts x 8 GPUs | slow GPUs | slow GPUs named | fleets with a false name |\n|---|---|---|---|---|"
    )
    for kind, noise in noises().items():
        for hosts in options.hosts:
            for planted in PLANTED:
                named, slow, false = counted(noise, options.fleets, hosts, planted, as_they_are=options.as_they_are)
                what = f"{planted.gpus} by {planted.percent:g} %" if planted.gpus else "none"
                print(
                    f"| {kind} | {hosts} | {what} | {_share(named, slow)} | {_share(false, options.fleets)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
