"""The table of options: each sets one field of ``Settings``, and its help ends in a full stop."""

from dataclasses import fields

import pytest

from fixtures.session.options import OPTIONS, Option, all_options, check_values
from fixtures.session.settings import Settings

# Found on the machine, or from several options.
DETECTED = {"gpus", "starter", "worlds", "minutes_of_turns"}


def test_every_field_of_the_settings_is_set_by_one_option() -> None:
    assert sorted(option.field for option in all_options() if option.field) == sorted(
        {f.name for f in fields(Settings)} - DETECTED
    )


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_parser_has_the_option_with_its_default(option: Option) -> None:
    parser = pytest.Parser(_ispytest=True)
    parser.addoption(option.flag, **option.parser_arguments)
    assert vars(parser.parse([]))[option.name] == (False if option.action == "store_true" else option.default)
    assert option.help.endswith(".")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"launches": 0}, "--launches must be 1 or more, got 0"),
        ({"min_slowdown": 0.0}, "--min-slowdown must be over 0, got 0"),
        ({"rank_timeout": float("inf")}, "--rank-timeout must be finite, got inf"),
    ],
)
def test_a_value_out_of_range_is_a_usage_error(value: dict[str, float], message: str) -> None:
    class Config:
        def getoption(self, name: str) -> object:
            return value.get(name, next(option.default for option in OPTIONS if option.name == name))

    with pytest.raises(pytest.UsageError, match=message):
        check_values(Config())  # type: ignore[arg-type]
