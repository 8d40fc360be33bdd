"""A plugin of pytest: no canary, no spread and no other work disturbs a run or explains a slowdown.

For live ranks on a busy machine.
"""

import math


def pytest_configure() -> None:
    """For the rest of this process."""
    from fixtures.machine import cpu  # here and not at the top: pytest loads its plugins first
    from fixtures.records import config_comparison
    from fixtures.session import run_record
    from fixtures.stats import decision

    for name in ("MIN_JUMP_PERCENT", "MIN_HOST_JUMP_PERCENT", "MIN_SPREAD_PERCENT"):
        setattr(run_record, name, math.inf)
    setattr(cpu, "BUSY_SHARE", math.inf)  # noqa: B010
    setattr(config_comparison, "NOISY_PERCENT", math.inf)  # noqa: B010
    setattr(decision, "OTHER_WORK_SHARE", math.inf)  # noqa: B010  # not its own name
    setattr(decision, "excusable", lambda *_: False)  # noqa: B010
