"""The commands that are a run of pytest: how their words become pytest's, and what they refuse."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from fixtures.extras import EXTRAS
from fixtures.report.commands import suite_tests
from tests.command_line import ROOT, command_here, run

COMMAND = (sys.executable, "-m", "fixtures")


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        (["run", "train.py", "--width", "768"], ["--script", "train.py --width 768"]),
        (["run", "-k", "bf16 or ddp", "a b.py", "--", "-h"], ["--script", "'a b.py' -- -h", "-k", "bf16 or ddp"]),
        (["check", "bf16"], ["-k", "bf16"]),
        (["check", "--steps", "9", "my:hook"], ["--hook", "my:hook", "-k", "my:hook", "--steps", "9"]),
    ],
)
def test_a_command_prints_the_command_of_pytest_and_becomes_it(
    typed: list[str], arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[str] = []

    def execute(program: str, words: list[str]) -> None:
        became.extend(words)
        raise SystemExit(0)

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(os, "execv", execute)
    printed = command_here(*typed).output
    assert became[-len(arguments) - 1 :] == ["perf", *arguments]
    assert printed.endswith(f"pytest {shlex.join(['perf', *arguments])}\n")


def test_the_tests_of_the_suite_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert suite_tests() == (str(ROOT / "perf"),)
    monkeypatch.chdir(ROOT)
    assert suite_tests() == ("perf",)


@pytest.mark.parametrize("own", [["--help"], ["-h"], ["--width", "8", "--help"]])
def test_help_after_the_script_is_the_scripts_own(own: list[str], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys; print(sys.argv[1:])")
    assert run(*COMMAND, "run", str(script), *own).output == f"{own}\n"


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("run", "ERROR: run: no word ends in .py: name the script after the suite's options: run --quick train.py\n"),
        ("check", "ERROR: check: name the hook last: PKG.MODULE:ATTR of your own, or one of "),
        ("check my:hook --quick", "ERROR: check: name the hook last: "),
        ("check bf61", "ERROR: check: no hook named 'bf61', did you mean bf16?"),
    ],
)
def test_a_wrong_command_is_one_line_with_the_next_move(typed: str, says: str) -> None:
    outcome = command_here(*typed.split())
    assert (outcome.exit_code, outcome.output) == (pytest.ExitCode.USAGE_ERROR, "")
    assert outcome.errors.startswith(says)
    assert len(outcome.errors.splitlines()) == 1


def test_the_printed_command_does_the_same_and_the_exit_code_is_pytests(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    verb = run(*COMMAND, "run", "--collect-only", "-q", str(tmp_path / "train.py"), "--api-key", "s3cr3t")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    same = run(*shlex.split(verb.output.partition("\n")[0]), variables={"PATH": path})
    assert verb.exit_code == same.exit_code == 0, verb.errors
    assert verb.test_ids == same.test_ids != []
    assert "s3cr3t" not in verb.output
    before = run(*COMMAND, "run", "--epochs", "2", str(tmp_path / "train.py")).exits(pytest.ExitCode.USAGE_ERROR)
    assert "\n  arguments of the script: they follow it, as in run train.py --epochs 2\n" in before.errors
    missing = run(*COMMAND, "run", str(tmp_path / "trian.py")).exits(pytest.ExitCode.USAGE_ERROR)
    assert missing.errors.endswith("trian.py, did you mean train.py?\n\n")


@pytest.mark.skipif("doctor" not in EXTRAS, reason="the extra doctor was deleted")
def test_the_doctor_is_a_run_of_pytest_too() -> None:
    assert run(*COMMAND, "doctor", "--help").output.startswith("usage: python -m fixtures doctor [OPTION ...]\n")
    assert run(*COMMAND, "doctor", "--no-such").exit_code == pytest.ExitCode.USAGE_ERROR
