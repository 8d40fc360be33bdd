"""Every command that README, AGENTS and start.md show is run, or has its reason here: with the files, the code and the
prices that it names. pytest collects and does not measure. A block of code without a language has commands, one a line.
"""

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command_line import ROOT
from tests.forked import command
from tests.forked import pytest as run_pytest
from tests.recordings import ddp_steps

DOCUMENTS = [ROOT / "README.md", ROOT / "AGENTS.md", ROOT / "docs/start.md", ROOT / "docs/how-to/hand-in-records.md"]
BLOCK = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
NOT_SHELL = ("python", "mermaid", "yaml", "text")

# Beginning of a command -> why it is not run.
NOT_RUN = {
    "python3 -m venv": "an environment of 5 GB, which .ci/run makes",
    "pip install -e": "the same",
    "python -m fixtures bisect": "minutes of launches: tests/extras/upgrades/runs/test_bisect_command.py",
    "python -m fixtures doctor": "its exit code depends on the machine: tests/extras/doctor/runs/test_doctor.py",
}
# The text that a person puts for a word, and the paths of the documents' files in this repository.
WORDS = {
    sys.executable: ("/path/to/other-venv/bin/python",),
    str(ROOT / "perf"): ("perf",),
    f"{ROOT / 'tests/script/scripts/plain.py'} --width 768": ("train.py --width 768",),
    str(ROOT / "tests/unit/test_rooms.py"): ("tests",),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A command of a document."""

    document: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.document}: {shlex.join(self.words)}"

    def begins(self, beginning: str) -> bool:
        return f"{' '.join(self.words)} ".startswith(beginning)


def shown() -> Iterator[Shown]:
    for document in DOCUMENTS:
        for _, language, block in BLOCK.findall(document.read_text()):
            if language in NOT_SHELL:
                continue
            for line in re.sub(r"\\\n", " ", block).replace(" && ", "\n").splitlines():
                if words := shlex.split(line.replace(".venv/bin/", ""), comments=True):
                    yield Shown(document=str(document.relative_to(ROOT)), words=tuple(words))


ALL = list(shown())
RUN = {str(one): one for one in ALL if not any(one.begins(beginning) for beginning in NOT_RUN)}


def of(*programs: str) -> pytest.MarkDecorator:
    """Each command that begins with one of these, once."""
    chosen = {one.words: one for one in RUN.values() if any(one.begins(program) for program in programs)}
    return pytest.mark.parametrize("one", chosen.values(), ids=str)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that commands name."""
    folder = tmp_path_factory.mktemp("workshop")
    records = ROOT / "baselines"
    shutil.copy(records / "8x-nvidia-h200-nv18/0003_vit.json", folder / "A.json")
    shutil.copy(next((records / "4x-nvidia-h200-nv18").glob("*.json")), folder / "B.json")
    shutil.copy(ROOT / "tests/script/scripts/plain.py", folder / "train.py")
    (folder / "my_project").mkdir()
    (hook,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/hook.md").read_text(), re.DOTALL)
    (folder / "my_project/hooks.py").write_text(hook)
    for rank in range(2):
        ddp_steps(rank).chrome(folder / f"rank{rank}.json")
    return folder


def typed(one: Shown) -> list[str]:
    """The arguments of a command as a shell passes them on."""
    arguments: list[str] = []
    for word in one.words[1:]:
        for real, placeholders in WORDS.items():
            word = next((real for placeholder in placeholders if word == placeholder), word)
        if word.startswith(("perf/", "tests/")):
            assert (ROOT / word).exists()
            word = str(ROOT / word)
        arguments.append(word.replace("=PRICE", "=10"))
    return arguments


@of("pytest ")
def test_pytest_takes_a_shown_command_line(one: Shown, workshop: Path, tmp_path: Path) -> None:
    asked = typed(one)
    if "-k" not in asked:  # then all files would be collected: one is enough
        file = "perf/test_script.py" if "--script" in asked else "perf/test_throughput.py"
        asked = [str(ROOT / file) if word == str(ROOT / "perf") else word for word in asked]
    outcome = run_pytest(
        *("--collect-only", "-q", "-p", "no:cacheprovider", f"--benchmark-storage={tmp_path}", *asked), folder=workshop
    )
    without_gpu = outcome.errors.startswith("ERROR: nothing to run: ")  # said after every option was read
    assert without_gpu or outcome.exit_code == 0, outcome.errors


@of("python -m fixtures")
def test_a_command_does_what_is_shown(one: Shown, workshop: Path) -> None:
    name, *arguments = typed(one)[2:]
    collect = ("--collect-only", "-q") if name in ("run", "check") else ()
    outcome = command(name, *collect, *arguments, folder=workshop).exits(0)
    assert outcome.output, outcome.errors
