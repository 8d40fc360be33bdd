"""One cause at a time is injected into a config that has a baseline; the line of the failed test must name it."""

from collections.abc import Callable
from functools import cache

import pytest

from tests.e2e.injected_causes import GPUS, ON_CPU, ON_GPUS, Runs, assert_named, begun


@pytest.fixture(scope="module")
def runs_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Runs]:
    """Runs on GPUs, or on the CPU, made once: all causes injected, judged by a baseline without any."""
    return cache(lambda on_gpus: begun(tmp_path_factory.mktemp("baselines"), ON_GPUS if on_gpus else ON_CPU))


@pytest.mark.parametrize(
    ("on_gpus", "name"),
    [
        *((False, name) for name in ON_CPU.causes),
        # Links, neighbours, and causes that exist only on a GPU.
        *(
            pytest.param(True, name, marks=pytest.mark.skipif(GPUS < 2, reason="needs two GPUs"))
            for name in ON_GPUS.causes
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "GPU" if value else "CPU",
)
def test_the_injected_cause_is_named(runs_of: Callable[[bool], Runs], on_gpus: bool, name: str) -> None:
    assert_named(runs_of(on_gpus), name)
