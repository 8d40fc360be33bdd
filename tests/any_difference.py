"""A plugin of pytest: nearly every difference makes a test slower or faster, at its first measurement, and nothing is
known of the machine.

Other tests check the verdict, measuring again and canaries.
"""


def pytest_configure() -> None:
    """For the rest of this process."""
    from fixtures.session import ab_launches, canaries, measure, run_verdict  # here: pytest loads its plugins first

    for module in (ab_launches, measure, run_verdict):
        setattr(module, "FALSE_ALARMS_PERCENT", 90)  # noqa: B010  # not its own name
    setattr(run_verdict, "MAX_MEASUREMENTS", 1)  # noqa: B010
    setattr(canaries.Canaries, "before", lambda *_, **__: None)  # noqa: B010
