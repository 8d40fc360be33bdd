"""The list of extras in copies of the project: without one of its extras, and with one more."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from fixtures.extras import EXTRAS
from tests.command_line import ENVIRONMENT, ROOT, Outcome

COLLECT = ("perf", "--collect-only", "-q", "-p", "no:cacheprovider")
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


def files() -> Iterator[Path]:
    """The files of the project that a run of ``pytest perf`` needs, from its root."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.split():
        if name.startswith(("fixtures/", "perf/")) or "/" not in name:
            yield Path(name)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project."""
    folder = tmp_path_factory.mktemp("project")
    for file in files():
        if (ROOT / file).exists():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, folder / file)
    return folder


@pytest.fixture(scope="module")
def everything(project: Path) -> list[str]:
    """The tests of the whole project. The run that lists them leaves its bytecode in ``project``."""
    return run(project, "pytest", *COLLECT).test_ids


@pytest.fixture
def copy(project: Path, everything: list[str], tmp_path: Path) -> Path:
    """Another copy, with the bytecode."""
    return shutil.copytree(project, tmp_path, dirs_exist_ok=True)


def run(copy: Path, *arguments: str) -> Outcome:
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=copy, env=ENVIRONMENT, capture_output=True, text=True)
    return Outcome(exit_code=done.returncode, output=done.stdout, errors=done.stderr)


def replace_list(copy: Path, extras: dict[str, tuple[str, ...]]) -> None:
    """Write the list of extras anew."""
    file = copy / "fixtures/extras/__init__.py"
    before, _, rest = file.read_text().partition("EXTRAS: ")
    _, _, after = rest.partition("}\n")
    file.write_text(f"{before}EXTRAS: dict[str, tuple[Part, ...]] = {extras!r}\n{after}")


# Each is left out of three of six copies, and no two of the same three: each is somewhere without each other one.
_COPIES = dict(zip(EXTRAS, combinations(range(6), 3), strict=False))
LEFT_OUT = [[extra for extra in EXTRAS if copy in _COPIES[extra]] for copy in range(6)]


@pytest.mark.parametrize("left_out", LEFT_OUT)
def test_without_some_extras_all_other_tests_are_collected(
    left_out: list[str], copy: Path, everything: list[str]
) -> None:
    for extra in left_out:
        shutil.rmtree(copy / "fixtures/extras" / extra)
    replace_list(copy, {name: parts for name, parts in EXTRAS.items() if name not in left_out})
    modules = [f"fixtures.extras.{extra}." for extra in left_out]
    own = [file for file in (copy / "perf").glob("*.py") if any(name in file.read_text() for name in modules)]
    names = {file.name for file in own}
    for file in own:
        file.unlink()
    without = run(copy, "pytest", *COLLECT)
    assert without.exit_code == 0, without.errors
    assert without.test_ids == [test for test in everything if Path(test.partition("::")[0]).name not in names]
    assert run(copy, "fixtures", "--help").exit_code == 0


def test_an_extra_comes_in_by_its_line(copy: Path) -> None:
    folder = copy / "fixtures/extras/sample"
    folder.mkdir()
    for name, text in {"__init__": "", "options": OPTION, "plugin": PLUGIN, "command": COMMAND}.items():
        (folder / f"{name}.py").write_text(text)
    replace_list(copy, {**EXTRAS, "sample": ("options", "plugin", "command")})
    collected = run(copy, "pytest", "perf", "--collect-only", "--sample-note=here", "--instance=a")
    assert "sample: here on a\n" in collected.output, collected.errors
    assert run(copy, "fixtures", "sample").output == "records in baselines\n"
