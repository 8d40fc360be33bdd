"""The line of the header where PYTHONDONTWRITEBYTECODE costs seconds at each start of ranks."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.forked import perf as pytest_perf

SAYS = "PYTHONDONTWRITEBYTECODE is set and torch has no bytecode here: each start of ranks compiles torch again, "
# What Python makes of PYTHONDONTWRITEBYTECODE and PYTHONPYCACHEPREFIX when it starts.
AS_STARTED = "import sys; sys.dont_write_bytecode, sys.pycache_prefix = {}, {!r}\n"


@pytest.mark.parametrize(("dont_write", "compiled", "said"), [(True, False, 1), (True, True, 0), (False, False, 0)])
def test_the_header_says_when_torch_is_compiled_at_each_start(
    tmp_path: Path, dont_write: bool, compiled: bool, said: int
) -> None:
    torch = find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    bytecode = tmp_path / "cache" / Path(torch.origin).relative_to("/")
    if compiled:
        bytecode.parent.mkdir(parents=True)
        bytecode.with_name(f"__init__.{sys.implementation.cache_tag}.pyc").touch()
    (tmp_path / "as_started.py").write_text(AS_STARTED.format(dont_write, str(tmp_path / "cache")))
    arguments = ("perf/test_scaling.py", "--collect-only", "-p", "as_started")
    outcome = pytest_perf(tmp_path, *arguments, variables={"PYTHONPATH": str(tmp_path)})
    assert outcome.exit_code == 0, outcome.errors
    assert outcome.output.count(SAYS) == said
