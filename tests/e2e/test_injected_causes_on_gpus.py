"""As test_injected_causes.py, on two GPUs or more: links, neighbours, and causes that exist only on a GPU."""

import pytest

from tests.e2e.injected_causes import GPUS, ON_GPUS, Runs, assert_named, begun

pytestmark = pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return begun(tmp_path_factory.mktemp("baselines"), ON_GPUS)


@pytest.mark.parametrize("name", ON_GPUS.causes)
def test_the_injected_cause_is_named(runs: Runs, name: str) -> None:
    assert_named(runs, name)
