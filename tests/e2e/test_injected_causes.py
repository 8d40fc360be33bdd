"""One cause at a time is injected into a config that has a baseline; the line of the failed test must name it."""

import pytest

from tests.e2e.injected_causes import GPUS, ON_CPU, ON_GPUS, Runs, assert_named, begun

ON_TWO_GPUS = pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A run with every cause injected is judged by a baseline without any."""
    return begun(tmp_path_factory.mktemp("baselines"), request.param)


@pytest.mark.parametrize(
    ("runs", "name"),
    [
        *((ON_CPU, name) for name in ON_CPU.causes),
        # Links, neighbours, and causes that exist only on a GPU.
        *(pytest.param(ON_GPUS, name, marks=ON_TWO_GPUS) for name in ON_GPUS.causes),
    ],
    indirect=["runs"],
)
def test_the_injected_cause_is_named(runs: Runs, name: str) -> None:
    assert_named(runs, name)
