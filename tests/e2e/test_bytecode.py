"""The line of the header where PYTHONDONTWRITEBYTECODE costs seconds at each start of ranks."""

import sys
from pathlib import Path

import pytest

from tests.command_line import pytest_perf

SAYS = "PYTHONDONTWRITEBYTECODE is set and torch has no bytecode here: each start of ranks compiles torch again, "


@pytest.mark.parametrize(("dont_write", "compiled", "said"), [("1", False, 1), ("1", True, 0), ("", False, 0)])
def test_the_header_says_when_torch_is_compiled_at_each_start(
    tmp_path: Path, dont_write: str, compiled: bool, said: int
) -> None:
    """PYTHONPYCACHEPREFIX is where bytecode is looked for."""
    import torch

    assert torch.__file__ is not None
    bytecode = tmp_path / "cache" / Path(torch.__file__).relative_to("/")
    if compiled:
        bytecode.parent.mkdir(parents=True)
        bytecode.with_name(f"__init__.{sys.implementation.cache_tag}.pyc").touch()
    variables = {"PYTHONDONTWRITEBYTECODE": dont_write, "PYTHONPYCACHEPREFIX": str(tmp_path / "cache")}
    outcome = pytest_perf(tmp_path, "perf/test_scaling.py", "--collect-only", variables=variables)
    assert outcome.exit_code == 0, outcome.errors
    assert outcome.output.count(SAYS) == said
