"""Before anything is measured: a mistake in a user's workload, and the line on torch's bytecode."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.command_line import QUICK
from tests.forked import live_perf
from tests.forked import perf as pytest_perf

OWN = "--workload=tests.workloads_for_tests"


def test_parameters_without_a_gradient_end_the_run_with_what_to_set(tmp_path: Path) -> None:
    outcome = pytest_perf(tmp_path, "perf", "-k", "throughput and 2cpu", f"{OWN}:left_out", *QUICK).exits(
        pytest.ExitCode.USAGE_ERROR
    )
    assert outcome.output.count("1 of 4 parameters got no gradient on rank 0 (experts.1.weight): set ") == 1
    assert "Workload(find_unused_parameters=True)" in outcome.output
    assert "ms/step" not in outcome.output


def test_without_ddp_no_parameter_needs_a_gradient(tmp_path: Path) -> None:
    pytest_perf(tmp_path, "perf", "-k", "scaling and single", f"{OWN}:left_out", *QUICK).exits(0)


def test_a_rank_that_dies_once_costs_nothing(tmp_path: Path) -> None:
    outcome = live_perf(
        tmp_path / "baselines",
        *("perf", "-k", "throughput and 2cpu and ddp_default", f"{OWN}:once_dying", *QUICK, "--explain=none"),
        variables={"TMPDIR": str(tmp_path)},
    ).exits(0)
    assert "one training step of once_dying: rank 1 died of SIGKILL at forward; trying once more" in outcome.output


def test_a_temporary_folder_that_is_gone_is_not_the_workloads_mistake(tmp_path: Path) -> None:
    own = (f"{OWN}:disk_losing", "--workload=tests.ranks.poisons:variable")  # for whose module new ranks start
    outcome = live_perf(
        tmp_path / "baselines",
        *("perf", "-k", "throughput and 2cpu and ddp_default", *own, *QUICK, "--explain=none"),
        variables={"TMPDIR": str(tmp_path)},
    ).exits(pytest.ExitCode.TESTS_FAILED)
    assert "IndexError" not in outcome.output + outcome.errors
    assert outcome.output.count("was removed while the run used it: keep TMPDIR as it is until the run ends") >= 2
    assert "--workload tests" not in outcome.errors


# The line of the header where PYTHONDONTWRITEBYTECODE costs seconds at each start of ranks


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
    outcome = pytest_perf(tmp_path, *arguments, variables={"PYTHONPATH": str(tmp_path)}).exits(0)
    assert outcome.output.count(SAYS) == said
