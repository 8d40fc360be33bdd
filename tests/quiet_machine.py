"""A plugin of pytest: no canary, no spread and no other work disturbs a run. For live ranks on a busy machine."""

import math


def pytest_configure() -> None:
    """For the rest of this process."""
    from fixtures.session import disturbance  # here and not at the top: pytest loads its plugins first
    from fixtures.stats import decision

    disturbance.MIN_JUMP_PERCENT = disturbance.MIN_HOST_JUMP_PERCENT = math.inf  # type: ignore[assignment]
    disturbance.MIN_SPREAD_PERCENT = math.inf
    decision.OTHER_WORK_SHARE = math.inf
