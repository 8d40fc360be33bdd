"""All checks of a hook: those that its promise implies."""

from fixtures.gradients.cases.checks import Check
from fixtures.gradients.cases.ddp_options import DDP_OPTIONS
from fixtures.gradients.every_check import FEEDBACK_OPTIONS, every_check
from fixtures.matrix.worlds import World

WORLD = World(backend="gloo", size=2)
MEAN, LATER = "tests.hooks_for_tests:lossless", "tests.hooks_for_tests:remembers"


def asked(hook: str, check: Check, argument: str = "option") -> list[object]:
    """The values of an argument with which a hook has this check."""
    return [arguments.get(argument) for kind, arguments in every_check(hook, WORLD) if kind is check]


def test_a_hook_is_checked_under_every_option_that_torch_has() -> None:
    options = [name for name, option in DDP_OPTIONS.items() if not option.why_not()]
    assert asked(MEAN, Check.DDP_OPTIONS) == options


def test_each_scenario_is_checked_once_under_each_of_its_options() -> None:
    scenarios = list(zip(asked(MEAN, Check.SCENARIO, "scenario"), asked(MEAN, Check.SCENARIO), strict=True))
    assert len(scenarios) == len(set(scenarios)) > 20


def test_bytes_many_steps_and_a_large_bucket_are_checked_once() -> None:
    for check in (Check.WIRE, Check.MANY_STEPS, Check.LARGE):
        assert asked(MEAN, check, "hook") == [MEAN]


def test_error_feedback_is_checked_where_a_hook_has_it() -> None:
    assert asked(LATER, Check.ERROR_FEEDBACK) == list(FEEDBACK_OPTIONS)
    assert asked(MEAN, Check.ERROR_FEEDBACK) == []
