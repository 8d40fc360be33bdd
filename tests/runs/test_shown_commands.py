"""Every command that the documents show is run, or has its reason here: with the files, the code and the prices that it
names. pytest collects and does not measure. A block of code without a language has commands, line by line.
"""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command_line import ROOT
from tests.forked import command
from tests.forked import pytest as run_pytest
from tests.nightly_records import write_forty_nights
from tests.recordings import ddp_steps, sqlite

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
NOT_SHELL = ("python", "mermaid", "yaml", "text")

# Beginning of a command -> why it is not run.
NOT_RUN = {
    "python3 -m venv": "an environment of 5 GB, which .ci/run makes",
    "pip install -e": "the same",
    "tox": "the same; test_tox_has_the_environments_that_are_shown",
    ". ": "of the shell",
    "git ": "git's own",
    "pip wheel": "tests/e2e/test_wheel.py",
    "pip install dist/": "tests/e2e/test_wheel.py",
    "docker": "needs docker and GPUs",
    "torchrun": "tests/e2e/test_machines.py",
    "head=": "a Slurm job: tests/e2e/test_slurm.py",
    "srun": "the same",
    "nsys": "needs Nsight Systems; the pytest in it is run",
    "python -m studies.calibration": "minutes of simulation, or of training on GPUs: tests/studies, tests/unit/studies",
    "python -m studies.window_simulation": "the same",
    "python -m studies.drift_simulation": "the same",
    "python -m studies.machines": "minutes, with namespaces: tests/e2e/test_machines.py",
    "python -m fixtures bisect": "minutes of launches: tests/runs/test_bisect_command.py",
    "python -m studies.bisection": "minutes of simulation: tests/unit/stats/test_bisection.py",
    "python -m studies.long_run": "an hour of runs: tests/unit/studies/test_long_run.py",
    "python -m studies.fleet_simulation": "the same; tests/unit/stats/test_slow_units.py",
    "python -m studies.share_curve": "minutes of training behind a link",
    "python -m studies.prediction_links": "minutes of training behind links",
    "python -m studies.injected_report": "minutes of training: tests/e2e/test_injected_causes.py",
}
# What a person puts in the place of a word, and where the documents' files are in this repository.
WORDS = {
    "10": ("PRICE",),
    sys.executable: ("/path/to/other-venv/bin/python", "OTHER/bin/python"),
    str(ROOT / "perf"): ("perf", "ddp_perf.perf"),
    str(ROOT / "perf/test_throughput.py"): ("test_speed.py",),
    str(ROOT / "tests/unit/test_rooms.py"): ("tests",),
}
# Commands that select no test on the CPU, or without the config that their page adds.
SELECTS_NOTHING = ("-k '8gpu and bf16'", "-k view_25mb")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A command of a document. path: the PYTHONPATH that the document sets."""

    document: str
    words: tuple[str, ...]
    path: str

    def __str__(self) -> str:
        return f"{self.document}: {shlex.join(self.words)}"

    def begins(self, beginning: str) -> bool:
        return f"{' '.join(self.words)} ".startswith(beginning)


def shown() -> Iterator[Shown]:
    for document in DOCUMENTS:
        for _, language, block in BLOCK.findall(document.read_text()):
            if language in NOT_SHELL:
                continue
            assert language in ("", "bash"), f"{document.name}: is a block of {language!r} for a shell?"
            yield from _commands_in(str(document.relative_to(ROOT)), re.sub(r"\\\n", " ", block))


def _commands_in(document: str, block: str) -> Iterator[Shown]:
    path = ""
    for line in block.replace(" && ", "\n").splitlines():
        words = shlex.split(line.replace(".venv/bin/", ""), comments=True)
        if words and words[0] == "export":
            path = words[1].removeprefix("PYTHONPATH=")
        elif words and words[0].startswith("PYTHONPATH="):
            yield Shown(document=document, words=tuple(words[1:]), path=words[0].removeprefix("PYTHONPATH="))
        elif words:
            yield Shown(document=document, words=tuple(words), path=path)
        if "pytest" in words[1:] and words[0] == "nsys":
            yield Shown(document=document, words=tuple(words[words.index("pytest") :]), path=path)


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
    project = folder / "path/to/your/code/my_project"
    project.mkdir(parents=True)
    for page, module in (("workload", "training"), ("hook", "hooks")):
        (code,) = re.findall(r"```python\n(.*?)```", (ROOT / f"docs/how-to/{page}.md").read_text(), re.DOTALL)
        (project / f"{module}.py").write_text(code)
    shutil.copytree(ROOT / "docs/images", folder / "docs/images")
    shutil.copytree(ROOT / "studies/published", folder / "studies/published")
    records = ROOT / "baselines"
    shutil.copy(records / "8x-nvidia-h200-nv18/0003_vit.json", folder / "A.json")
    shutil.copy(records / "8x-nvidia-h200-nv18/0003_vit.json", folder / "nightly.json")
    shutil.copy(next((records / "4x-nvidia-h200-nv18").glob("*.json")), folder / "B.json")
    shutil.copytree(records / "8x-nvidia-h200-nv18-shm", folder / "records")
    write_forty_nights(folder / "nightlies")
    _traces(folder)
    return folder


def _traces(folder: Path) -> None:
    (folder / "traces").mkdir()
    for rank in range(2):
        ddp_steps(rank).chrome(folder / f"rank{rank}.json")
        ddp_steps(rank).chrome(folder / f"traces/test-bf16-rank{rank}.json.gz")
    own = ddp_steps()
    names = {"get batch": "load", "forward": "fwd", "backward": "bwd"}
    own.ranges = [(names.get(name, name.replace("Batch ", "train_iter_")), *rest) for name, *rest in own.ranges]  # type: ignore[misc]
    sqlite(folder / "run.sqlite", [own])


def typed(one: Shown, folder: Path) -> list[str]:
    """The arguments of a command as a shell passes them on."""
    arguments: list[str] = []
    for word in one.words[1:]:
        for real, placeholders in WORDS.items():
            word = next((real for placeholder in placeholders if word == placeholder), word)
        word = word.replace("=PRICE", "=10")
        if word.startswith(("perf/", "tests/")):
            assert (ROOT / word).exists()
            word = str(ROOT / word)
        arguments += sorted(str(file.relative_to(folder)) for file in folder.glob(word)) if "*." in word else [word]
    return arguments


@of("pytest ")
def test_pytest_takes_a_shown_command_line(one: Shown, workshop: Path, tmp_path: Path) -> None:
    asked = [word for word in typed(one, workshop) if word != "--pyargs"]
    if not {"-k", "--tune"} & set(asked):  # then all files would be collected: one is enough
        asked = [str(ROOT / "perf/test_throughput.py") if word == str(ROOT / "perf") else word for word in asked]
    path = workshop / (one.path or "path/to/your/code")
    outcome = run_pytest(
        *("--collect-only", "-q", "-p", "no:cacheprovider", f"--benchmark-storage={tmp_path}", *asked),
        variables={"PYTHONPATH": f"{path}:{ROOT}"},
        folder=workshop,
    )
    nothing = outcome.exit_code == pytest.ExitCode.NO_TESTS_COLLECTED
    assert nothing == any(word in str(one) for word in SELECTS_NOTHING), outcome.output + outcome.errors
    # Said after every option was read.
    without_gpu = any(says in outcome.errors for says in ("GPU, this machine has none", "ERROR: nothing to run: "))
    assert nothing or without_gpu or outcome.exit_code == 0, outcome.errors


@of("python -m fixtures", "python -m ddp_perf", "ddp-perf")
def test_an_offline_command_does_what_is_shown(one: Shown, workshop: Path, tmp_path: Path) -> None:
    arguments = typed(one, workshop)[0 if one.words[0] == "ddp-perf" else 2 :]
    if arguments[0] == "promote":
        arguments += ["--storage", str(tmp_path)]
    outcome = command(*arguments, folder=workshop)
    assert outcome.exit_code in (0, 1), outcome.errors  # 1: drift has found some, or nobody answers promote
    assert outcome.output, outcome.errors


@of("python -m studies")
def test_a_study_that_is_quick_runs(one: Shown, workshop: Path) -> None:
    done = subprocess.run([sys.executable, *typed(one, workshop)], cwd=workshop, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0


def test_tox_has_the_environments_that_are_shown() -> None:
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini")
    named = {name for one in ALL if one.begins("tox -e") for name in one.words[2].split(",")}
    assert named
    assert {f"testenv:{name}" for name in named} <= set(tox.sections())


def test_every_command_is_run_by_one_test_or_has_a_reason() -> None:
    tested = ("pytest ", "python -m fixtures", "python -m ddp_perf", "ddp-perf", "python -m studies")
    assert [str(one) for one in RUN.values() if sum(map(one.begins, tested)) != 1] == []
    assert [beginning for beginning in NOT_RUN if not any(one.begins(beginning) for one in ALL)] == []
