"""A plugin of pytest: no canary and no spread disturbs a run. For tests of live ranks that save, on a busy machine."""

import math


def pytest_configure() -> None:
    """For the rest of this process."""
    from fixtures.session import disturbance  # here and not at the top: pytest loads its plugins first

    disturbance.MIN_JUMP_PERCENT = disturbance.MIN_HOST_JUMP_PERCENT = math.inf  # type: ignore[assignment]
    disturbance.MIN_SPREAD_PERCENT = math.inf
