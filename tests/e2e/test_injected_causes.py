"""One cause at a time is injected into a config that has a baseline; the line of the failed test must name it."""

import pytest

from tests.e2e.injected_causes import ON_CPU, Runs, assert_named, begun


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A run with every cause injected is judged by a baseline without any."""
    return begun(tmp_path_factory.mktemp("baselines"), ON_CPU)


@pytest.mark.parametrize("name", ON_CPU.causes)
def test_the_injected_cause_is_named(runs: Runs, name: str) -> None:
    assert_named(runs, name)
