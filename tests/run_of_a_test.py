"""A plugin of pytest, for runs that tests start: they measure a suspected slowdown a second time and no more, let
configs take turns for a second only, and wait for no other run."""

from contextlib import nullcontext

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # Here and not at the top: pytest loads its plugins first.
    from fixtures.session import launches, run_state, run_verdict

    patch = pytest.MonkeyPatch()
    patch.setattr(run_verdict, "RECHECK_S", 0)
    patch.setattr(run_state, "_TURNS_S", 1)
    patch.setattr(launches, "sole_use_of_the_machine", nullcontext)
    config.add_cleanup(patch.undo)  # a fork of this process may have another limit
