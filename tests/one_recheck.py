"""A plugin of pytest: a suspected slowdown is measured a second time, and no more."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    from fixtures.session import run_verdict  # here and not at the top: pytest loads its plugins first

    patch = pytest.MonkeyPatch()
    patch.setattr(run_verdict, "RECHECK_S", 0)
    config.add_cleanup(patch.undo)  # a fork of this process may have another limit
