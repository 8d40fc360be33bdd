"""A plugin of pytest: nearly every difference makes a test slower or faster. Other tests check the verdict."""


def pytest_configure() -> None:
    """For the rest of this process."""
    from fixtures.session import ab_launches, measure, run_verdict  # here: pytest loads its plugins first

    for module in (ab_launches, measure, run_verdict):
        setattr(module, "FALSE_ALARMS_PERCENT", 90)  # noqa: B010  # not its own name
