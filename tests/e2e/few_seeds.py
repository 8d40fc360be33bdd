"""A plugin of pytest: a hook trains from three seeds, in place of five or 25."""

from fixtures.gradients import hook_training


def pytest_configure() -> None:
    """For the rest of this process."""
    setattr(hook_training, "SEEDS", (1, 2, 3))  # noqa: B010
    setattr(hook_training, "MORE_SEEDS", ())  # noqa: B010
