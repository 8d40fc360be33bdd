"""A plugin of pytest: nearly every difference makes a test slower or faster, at its first measurement.

Other tests check the verdict and measuring again.
"""


def pytest_configure() -> None:
    """For the rest of this process."""
    from fixtures.session import ab_launches, measure, run_verdict  # here: pytest loads its plugins first

    for module in (ab_launches, measure, run_verdict):
        setattr(module, "FALSE_ALARMS_PERCENT", 90)  # noqa: B010  # not its own name
    setattr(run_verdict, "MAX_MEASUREMENTS", 1)  # noqa: B010
