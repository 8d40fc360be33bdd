"""The list of the suite's pytest plugins. To add one, add its module. Extras have their list in fixtures/extras.

They work in any order but the first. ``fixtures/report/order_of_run.py`` lists the steps that have to come one
after another.
"""

import sys
from importlib.util import find_spec

import pytest

from fixtures.extras import modules

_NEEDED = ("torch", "pytest_benchmark", "hypothesis", "msgspec", "pynvml", "scipy", "tabulate")
if _missing := [name for name in _NEEDED if find_spec(name) is None]:
    sys.stderr.write(
        f"ERROR: {sys.executable} has no {', '.join(_missing)}: run .venv/bin/pytest, or install the suite there: "
        f"{sys.executable} -m pip install -e .\n"
    )
    raise SystemExit(int(pytest.ExitCode.USAGE_ERROR))

# The installed plugin stays out of a run whose rootdir is this clone.
if "ddp_perf.session.options" in sys.modules:
    raise pytest.UsageError(
        "the installed plugin ddp_perf has added the options that this clone adds: run with -p no:ddp_perf, or with "
        "the clone as the --rootdir"
    )

pytest_plugins = (
    "fixtures.session.interruption",  # first: handles Ctrl-C while the others are imported, which takes a while
    "fixtures.session.end_of_run",
    "fixtures.session.options",
    "fixtures.session.settings",
    "fixtures.session.collected",
    "fixtures.session.script_tests",
    "fixtures.session.references",
    "fixtures.session.launches",
    "fixtures.session.measured_tests",
    "fixtures.session.measure",
    "fixtures.session.benchmark_storage",
    "fixtures.session.run_record",
    "fixtures.session.run_verdict",
    "fixtures.gradients.hypothesis_profiles",
    "fixtures.gradients.fixtures",
    "fixtures.gradients.tested_hooks",
    "fixtures.report.gradients",
    "fixtures.report.table",
    "fixtures.report.order_of_run",
    *modules("plugin"),
)
# Before any of them imports another; later, pytest would warn.
pytest.register_assert_rewrite(*pytest_plugins)
