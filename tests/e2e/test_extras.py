"""The list of extras in copies of the project: without one of its extras, and with one more."""

import json
import os
import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from fixtures.extras import EXTRAS
from tests.command_line import ENVIRONMENT, ROOT

COLLECT = ("perf", "--collect-only", "-q", "-p", "no:cacheprovider")
# Collects tests and calls a command in each folder, in forks of one process that has imported the libraries. It takes
# folders and arguments as JSON; output and exit codes go to the files ``tests`` and ``command``.
IN_FORKS = """
import contextlib, importlib, json, os, sys, traceback

for library in ("msgspec", "pynvml", "pytest", "tabulate"):  # no plugins: pytest rewrites them
    importlib.import_module(library)

def written(file, call, *arguments):
    code = 1
    with open(file, "w") as output, contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            code = call(*arguments)
        except SystemExit as end:
            code = end.code
        except BaseException:
            traceback.print_exc()
        print(f"exit code {int(code)}")

def command(*arguments):
    return importlib.import_module("fixtures.__main__").main(list(arguments))

for folder, collected, called in json.loads(sys.argv[1]):
    if os.fork() == 0:
        os.chdir(folder)
        sys.path[0] = folder
        written("tests", importlib.import_module("pytest").main, collected)
        written("command", command, *called)
        os._exit(0)
    os.wait()
"""
OPTION = """
from fixtures.session.options import Option

OPTIONS = (Option(flag="--sample-note", metavar="TEXT", help="a note."),)
"""
PLUGIN = """
from fixtures.session.settings import SETTINGS

def pytest_report_header(config):
    return [f"sample: {config.getoption('sample_note')} on {config.stash[SETTINGS].instance}"]
"""
COMMAND = """
from fixtures.report.commands import STORAGE, Answer, Command

COMMAND = Command(
    name="sample",
    help="",
    description="",
    arguments=(STORAGE,),
    run=lambda options: Answer(value=None, lines=[f"records in {options.storage.name}"]),
)
"""


# Each is left out of three of seven copies, and no two of the same three: each is somewhere without each other one.
_COPIES = dict(zip(EXTRAS, combinations(range(7), 3), strict=False))
LEFT_OUT = [[extra for extra in EXTRAS if copy in _COPIES[extra]] for copy in range(7)]


def copied(folder: Path) -> Path:
    """A copy of what a run of ``pytest perf`` needs, with its bytecode."""
    for name in ("fixtures", "perf"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc.*"))  # being written
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def replace_list(copy: Path, extras: dict[str, tuple[str, ...]]) -> None:
    """Write the list of extras anew."""
    file = copy / "fixtures/extras/__init__.py"
    before, _, rest = file.read_text().partition("EXTRAS: ")
    _, _, after = rest.partition("}\n")
    file.write_text(f"{before}EXTRAS: dict[str, tuple[Part, ...]] = {extras!r}\n{after}")


def leave_out(copy: Path, extras: list[str]) -> None:
    """Delete these extras, and their files in ``perf/``."""
    for extra in extras:
        shutil.rmtree(copy / "fixtures/extras" / extra)
    replace_list(copy, {name: parts for name, parts in EXTRAS.items() if name not in extras})
    modules = [f"fixtures.extras.{extra}." for extra in extras]
    for file in (copy / "perf").glob("*.py"):
        if any(name in file.read_text() for name in modules):
            file.unlink()


def add_sample(copy: Path) -> None:
    folder = copy / "fixtures/extras/sample"
    folder.mkdir()
    for name, text in {"__init__": "", "options": OPTION, "plugin": PLUGIN, "command": COMMAND}.items():
        (folder / f"{name}.py").write_text(text)
    replace_list(copy, {**EXTRAS, "sample": ("options", "plugin", "command")})


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with copies in which tests were collected: everything, those of LEFT_OUT by number, and sample."""
    top = tmp_path_factory.mktemp("project")
    asked: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
    for name in ("everything", *map(str, range(len(LEFT_OUT)))):
        asked.append((str(copied(top / name)), COLLECT, ("--help",)))
    for number, extras in enumerate(LEFT_OUT):
        leave_out(top / str(number), extras)
    add_sample(copied(top / "sample"))
    asked.append((str(top / "sample"), ("perf", "--collect-only", "--sample-note=here", "--instance=a"), ("sample",)))
    command = (sys.executable, "-c", IN_FORKS, json.dumps(asked))
    # The copies have no tests, and so no plugin of theirs.
    subprocess.run(command, cwd=top, env={**os.environ, **ENVIRONMENT, "PYTEST_ADDOPTS": ""}, check=True)
    return top


def ids_in(copy: Path) -> list[str]:
    return [line for line in (copy / "tests").read_text().splitlines() if "::" in line]


@pytest.mark.parametrize("number", range(len(LEFT_OUT)))
def test_without_some_extras_all_other_tests_are_collected(project: Path, number: int) -> None:
    copy = project / str(number)
    assert (copy / "tests").read_text().endswith("exit code 0\n"), (copy / "tests").read_text()
    left = {f"perf/{file.name}" for file in (copy / "perf").glob("*.py")}
    everything = ids_in(project / "everything")
    assert ids_in(copy) == [test for test in everything if test.partition("::")[0] in left]
    assert (copy / "command").read_text().endswith("exit code 0\n"), (copy / "command").read_text()


def test_an_extra_comes_in_by_its_line(project: Path) -> None:
    assert "sample: here on a\n" in (project / "sample/tests").read_text()
    assert (project / "sample/command").read_text() == "records in baselines\nexit code 0\n"
