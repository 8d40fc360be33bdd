"""A plugin of pytest: a hook trains from three seeds, in place of five or 25."""

from fixtures.extras.loss import small_problem


def pytest_configure() -> None:
    """For the rest of this process."""
    setattr(small_problem, "SEEDS", (1, 2, 3))  # noqa: B010
    setattr(small_problem, "MORE_SEEDS", ())  # noqa: B010
