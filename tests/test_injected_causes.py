"""One cause at a time is injected into a config that has a baseline; the line of the failed test must name it."""

import pytest

from tests.injected_causes import BASELINE, ON_CPU, Runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A run with every cause injected is judged by a baseline without any."""
    runs = Runs(tmp_path_factory.mktemp("baselines"), ON_CPU)
    before = runs.of(BASELINE)
    assert before.exit_code == 0, before.output
    return runs


@pytest.mark.parametrize("name", ON_CPU.causes)
def test_the_injected_cause_is_named(runs: Runs, name: str) -> None:
    lines = runs.lines_of(name)
    assert lines is not None, f"{name} is not slower:\n{runs.of(ON_CPU.causes[name].run).output}"
    verdict, cause = lines
    assert verdict.startswith("slower by ")
    assert ON_CPU.causes[name].is_named_in(cause), cause
