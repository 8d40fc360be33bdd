"""The checks of a hook that its promise implies."""

from fixtures.gradients.cases import DDP_OPTIONS, FEEDBACK_OPTIONS
from fixtures.gradients.fixtures import every_check
from fixtures.matrix.worlds import World

WORLD = World(backend="gloo", size=2)
MEAN, LATER = "tests.hooks_for_tests:lossless", "tests.hooks_for_tests:remembers"


def asked(hook: str, check: str, argument: str = "option") -> list[object]:
    """The values of an argument with which a hook has this check."""
    return [arguments.get(argument) for kind, arguments in every_check(hook, WORLD) if kind == check]


def test_a_hook_is_checked_under_every_option_and_in_each_scenario_once() -> None:
    options = [name for name, option in DDP_OPTIONS.items() if not option.why_not()]
    assert asked(MEAN, "hook_steps:check") == options
    found = list(zip(asked(MEAN, "scenarios:check", "scenario"), asked(MEAN, "scenarios:check"), strict=True))
    assert len(found) == len(set(found)) > 20


def test_bytes_many_steps_a_large_bucket_and_error_feedback_are_checked_once() -> None:
    for check in ("wire:wire", "hook_steps:many", "wire:large"):
        assert asked(MEAN, check, "hook") == [MEAN]
    assert asked(LATER, "on_average:error_feedback") == list(FEEDBACK_OPTIONS)
    assert asked(MEAN, "on_average:error_feedback") == []
