"""As test_injected_causes.py, on two GPUs or more: links, neighbours, and what only shows on a device."""

import pytest

from tests.injected_causes import BASELINE, GPUS, ON_GPUS, Runs

pytestmark = pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("baselines"), ON_GPUS)
    before = runs.of(BASELINE)
    assert before.exit_code == 0, before.output
    return runs


@pytest.mark.parametrize("name", ON_GPUS.causes)
def test_the_injected_cause_is_named(runs: Runs, name: str) -> None:
    lines = runs.lines_of(name)
    assert lines is not None, f"{name} is not slower:\n{runs.of(ON_GPUS.causes[name].run).output}"
    verdict, cause = lines
    print(f"{name}: {cause}")
    assert verdict.startswith("slower by ")
    assert ON_GPUS.causes[name].is_named_in(cause), cause
