"""Which hosts and GPUs are named: false and missed names by the noise of the shipped records, and few machines."""

import pytest
from scipy import stats

from fixtures.extras.fleet.slow_units import Family, Runs, find_slow, within_hosts
from studies.fleet_simulation import Noise, Planted, counted, noises


@pytest.fixture(scope="module")
def noise() -> dict[str, Noise]:
    return noises()["8x-nvidia-h200-nv18-shm, 8gpu, shm"]


def family(units: dict[str, Runs]) -> Family:
    return Family(kind="8x", canary="copy", level="host", units=units)


@pytest.mark.parametrize(("gpus", "percent", "slow"), [(1, 2, 10), (0, 0, 0)])
def test_a_gpu_that_is_2_percent_slow_is_named_and_no_other(
    noise: dict[str, Noise], gpus: int, percent: float, slow: int
) -> None:
    named, planted, false = counted(noise, 10, hosts=16, planted=Planted(gpus=gpus, percent=percent))
    assert (named, planted) == (slow, slow)
    assert stats.binomtest(false, 10, 0.01, alternative="greater").pvalue > 0.01


def test_slow_units_do_not_hide_each_other() -> None:
    """Though they are a quarter of all."""
    units: dict[str, Runs] = {f"host {n}": ((0.001 * (n % 4),) * 3,) for n in range(12)}
    slow: dict[str, Runs] = {f"slow {n}": ((0.1 + 0.001 * n,) * 3,) for n in range(4)}
    effects = find_slow([family({**units, **slow})])
    assert {effect.unit for effect in effects if effect.slow} == set(slow)


def test_of_three_hosts_one_is_slow_by_more_than_its_launches_differ() -> None:
    hosts: dict[str, Runs] = {"a": ((0.0, 0.01, 0.02),), "b": ((0.005, 0.015, 0.01),), "c": ((0.3, 0.31, 0.32),)}
    (slow,) = (effect for effect in find_slow([family(hosts)]) if effect.slow)
    assert (slow.unit, slow.by) == ("c", "repeats")
    assert slow.percent == pytest.approx(34, abs=2)
    unsteady: dict[str, Runs] = {"a": ((0.0, 0.2, 0.4),), "b": ((0.1, 0.3, 0.2),), "c": ((0.3, 0.5, 0.7),)}
    assert not any(effect.slow for effect in find_slow([family(unsteady)]))
    # Of two hosts none is the odd one.
    assert find_slow([family({"a": ((0.0,) * 3,), "b": ((1.0,) * 3,)})]) == []


def test_gpus_of_a_slow_host_are_not_slow_in_it() -> None:
    gpus: dict[tuple[str, str], Runs] = {("a", f"{n}"): ((0.5 + n,),) for n in range(3)}
    pair: dict[tuple[str, str], Runs] = {("b", f"{n}"): ((0.5 + n,),) for n in range(2)}
    within = within_hosts({**gpus, **pair})
    assert [within["a", f"{n}"] for n in range(3)] == [((-1.0,),), ((0.0,),), ((1.0,),)]
    assert [within["b", f"{n}"] for n in range(2)] == [((0.5,),), ((1.5,),)]
