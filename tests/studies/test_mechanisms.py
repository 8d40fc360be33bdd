"""Mechanisms taken out of the verdict: each one is missed in the case that it is for."""

import pytest

from studies.mechanisms import DISTURBED, SIMULATED, in_simulation, wrong_best

# Whose simulation takes half a minute.
AT_NIGHT = ("the run scale", "the fitted prior")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly if name in AT_NIGHT else ()) for name in SIMULATED]
)
def test_without_a_mechanism_its_case_is_worse(name: str) -> None:
    case, rule = SIMULATED[name]
    with_it, without = in_simulation(case), in_simulation(case, rule)
    assert with_it > 90 > 10 > without if case.finds else without > with_it


@pytest.mark.parametrize("name", DISTURBED)
def test_without_evidence_of_a_disturbance_a_slower_config_is_called_best(name: str) -> None:
    work, first, left = DISTURBED[name]
    assert wrong_best(work, first=first)[0] == 0 < wrong_best(work, first=first, **left)[0]
