"""The table of options: each sets one field of ``Settings``, and its help ends in a full stop."""

import re
from dataclasses import fields

import pytest

from fixtures.matrix.worlds import INTERCONNECTS
from fixtures.session.against_env import RESERVED, read_variables
from fixtures.session.options import OPTIONS, Option, all_options, check_values
from fixtures.session.settings import Settings

# Found on the machine, or from several options.
DETECTED = {"gpus", "starter", "worlds", "turns_s"}


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


NATIVE, SHM = INTERCONNECTS["native"], INTERCONNECTS["shm"]


@pytest.mark.parametrize(
    ("given", "variables"),
    [
        (["NCCL_MAX_CTAS=4"], {"NCCL_MAX_CTAS": "4"}),
        (["NCCL_MAX_CTAS=4", "NCCL_ALGO=Ring"], {"NCCL_MAX_CTAS": "4", "NCCL_ALGO": "Ring"}),
        (["NCCL_MAX_CTAS=4", "NCCL_MAX_CTAS=4"], {"NCCL_MAX_CTAS": "4"}),
        (["NCCL_ALGO=allreduce:tree=1"], {"NCCL_ALGO": "allreduce:tree=1"}),
        (["NCCL_ALGO="], {"NCCL_ALGO": ""}),
        (["NCCL_P2P_DISABLE=1"], {"NCCL_P2P_DISABLE": "1"}),
        (["OMP_NUM_THREADS=2"], {"OMP_NUM_THREADS": "2"}),
    ],
)
def test_variables_are_read(given: list[str], variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert read_variables(given, [NATIVE]) == variables
    monkeypatch.setenv("NCCL_MAX_CTAS", "8")  # another value than that of both sides
    assert read_variables(given, [NATIVE]) == variables


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        *(
            ([bad], f"--against-env '{bad}': give NAME=VALUE, such as NCCL_MAX_CTAS=4")
            for bad in ("NCCL_MAX_CTAS", "=4", "export NCCL_MAX_CTAS=4")
        ),
        (["A=1", "B=1", "A=2"], "--against-env: A has two values: A=1 and A=2"),
        (
            ["NCCL_ALGO=Ring"],
            "--against-env NCCL_ALGO=Ring: NCCL_ALGO has this value here, so both sides have it: give another value, "
            "or unset it",
        ),
        (
            ["OMP_NUM_THREADS=1"],
            "--against-env OMP_NUM_THREADS=1: OMP_NUM_THREADS has this value by default, so both sides have it: give "
            "another value",
        ),
        (
            ["NCCL_P2P_DISABLE=0"],
            "--against-env NCCL_P2P_DISABLE=0: --interconnect shm sets NCCL_P2P_DISABLE for the ranks of both sides",
        ),
        (
            ["PYTHONPATH=src"],
            "--against-env PYTHONPATH=src: ranks import from where pytest does; to compare two versions of your code, "
            "use --against",
        ),
        *(
            ([f"{name}=x"], f"--against-env {name}=x: the suite decides {name} for the ranks of both sides")
            for name in sorted(RESERVED)
        ),
    ],
)
def test_what_cannot_be_compared_is_a_usage_error(
    given: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with pytest.raises(pytest.UsageError, match=f"^{re.escape(complaint)}$"):
        read_variables(given, [NATIVE, SHM])
