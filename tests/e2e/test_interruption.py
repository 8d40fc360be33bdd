"""A run that is interrupted, by a real signal to a real run, from the import of conftest.py to the end of the run.

Nothing is measured here; test_nothing_left_behind.py interrupts runs that measure.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
# Says that it is there, and waits for a file that tells it to go on.
WAIT = """
import pathlib, time
pathlib.Path({folder!r}, "here").touch()
while not pathlib.Path({folder!r}, "go").exists():
    time.sleep(0.05)
"""
# Without ranks, but kept as a measured test is.
MEASURED = """
def test_measured(benchmark):
    benchmark.extra_info["instance"] = "rack-7"
    benchmark.pedantic(lambda: None)
"""
WAITING = """
def test_waiting():
    {wait}
"""
WAITS = MEASURED + WAITING
LOST = """
import os, signal
class Lost:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
def test_lost():
    Lost()
def test_after_it():
    pass
"""
# A path of the suite, for its conftest.py, and none of its tests.
SUITE = ("perf/test_feeds.py", "-k", "not test_feeds")
# After the last test, before the suite's own decisions on the whole run.
AFTER_THE_LAST = """
import os, pytest, signal
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop():
    result = yield
    os.kill(os.getpid(), signal.SIGINT)
    return result
"""
# Long enough on a busy machine; that results come within 10 s is asserted where there are ranks.
START_S = 120
END_S = 30


class Run:
    """A run of pytest in the repository's root with ``folder`` on its path and the storage of its baselines in it.

    files: of these modules the text, which is WAIT alone where there is none. terminal: what the run writes to; None: a
    file.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        files: Mapping[str, str],
        before: Sequence[str] = (),
        terminal: int | None = None,
    ) -> None:
        self.folder = folder
        self.output = folder / "output"
        wait = WAIT.format(folder=str(folder))
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text.format(wait=wait.replace("\n", "\n    ")) if text else wait)
        with self.output.open("wb") as output:
            written = output.fileno() if terminal is None else terminal
            self.process = subprocess.Popen(
                [
                    *before,
                    *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "pyproject.toml", "--rootdir=."),
                    *(f"--benchmark-storage={folder / 'storage'}", *arguments),
                ],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(folder), "CUDA_VISIBLE_DEVICES": ""},
                stdin=written,
                stdout=written,
                stderr=written,
            )

    def await_file(self, name: str) -> None:
        deadline = time.monotonic() + START_S
        while not (self.folder / name).exists():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.05)

    def go_on(self) -> None:
        (self.folder / "go").touch()

    def end(self, within_s: float = END_S) -> int:
        """Its exit code."""
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"no end within {within_s:g} s:\n{self.said}")

    @property
    def said(self) -> str:
        return self.output.read_text()

    @property
    def record(self) -> Any:
        """What --benchmark-json wrote."""
        return json.loads((self.folder / "run.json").read_text())


@pytest.fixture
def kept(tmp_path: Path) -> tuple[str, ...]:
    """The options that ask for results."""
    files = (f"--benchmark-json={tmp_path / 'run.json'}", f"--junitxml={tmp_path / 'junit.xml'}", "--benchmark-save=b")
    return ("-p", "tests.quiet_machine", *files)


@contextlib.contextmanager
def running(folder: Path, *arguments: str, **options: Any) -> Iterator[Run]:
    """Any: keyword arguments of Run."""
    run = Run(folder, *arguments, **options)
    try:
        yield run
    finally:
        run.process.kill()
        run.process.wait()


def running_test(
    folder: Path, test: str, *arguments: str, files: Mapping[str, str] | None = None, **options: Any
) -> Any:
    """A run of one test, with this text, and of none of the suite's. Any: arguments of Run."""
    asked = (*SUITE, str(folder / "test_it.py"), *arguments)
    return running(folder, *asked, files={"test_it": test, **(files or {})}, **options)


@pytest.mark.parametrize(
    ("file", "text", "arguments", "number"),
    [
        # A module that one of the suite's plugins imports.
        ("tabulate", "", ("perf", "--collect-only"), signal.SIGTERM),
        ("my_project", "", ("perf/test_throughput.py", "--workload=my_project:workload"), signal.SIGHUP),
        ("test_collected", "", (*SUITE, "{folder}/test_collected.py"), signal.SIGTERM),
    ],
    ids=["plugins-TERM", "configure-HUP", "collect-TERM"],
)
def test_before_the_tests_a_signal_is_one_line(
    tmp_path: Path, file: str, text: str, arguments: tuple[str, ...], number: signal.Signals
) -> None:
    asked = [argument.format(folder=tmp_path) for argument in arguments]
    with running(tmp_path, *asked, files={file: text}) as run:
        run.await_file("here")
        run.process.send_signal(number)
        assert run.end() == pytest.ExitCode.INTERRUPTED, run.said
    told = [line for line in run.said.splitlines() if "nterrupt" in line and " 0 of 3 speed tests measured" not in line]
    assert len(told) == 1, run.said
    assert number.name in told[0]
    assert "Traceback" not in run.said
    assert "Exception ignored" not in run.said


def test_a_save_is_not_broken_off(tmp_path: Path, kept: tuple[str, ...]) -> None:
    """The JSON goes into a pipe, which nobody reads yet."""
    os.mkfifo(tmp_path / "run.json")
    with running_test(tmp_path, MEASURED, *kept) as run:
        reads_its_end(run)
        for _ in range(2):
            run.process.send_signal(signal.SIGTERM)
        assert run.record["interrupted"] is False  # all tests have run
        assert run.end() == pytest.ExitCode.INTERRUPTED, run.said
    assert [line for line in run.said.splitlines() if "interrupted" in line] == [
        "interrupted by SIGTERM: results are being written; a second signal ends the run at once"
    ]
    (baseline,) = (tmp_path / "storage/rack-7").iterdir()
    assert len(json.loads(baseline.read_text())["benchmarks"]) == 1
    assert "1 passed" in run.said


def reads_its_end(run: Run) -> None:
    """Wait until the run opens the pipe: the kernel tells where a process sleeps."""
    deadline = time.monotonic() + START_S
    while "wait_for_partner" not in Path(f"/proc/{run.process.pid}/wchan").read_text():
        assert time.monotonic() < deadline, run.said
        time.sleep(0.05)


def test_a_second_signal_ends_a_run_at_once(tmp_path: Path, kept: tuple[str, ...]) -> None:
    """Of signals within a second only the first counts."""
    os.mkfifo(tmp_path / "run.json")
    with running_test(tmp_path, MEASURED, *kept) as run:
        reads_its_end(run)
        deadline = time.monotonic() + END_S
        while run.process.poll() is None and time.monotonic() < deadline:
            run.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.process.wait(0.5)
        assert run.process.returncode == pytest.ExitCode.INTERRUPTED, run.said
    assert "ended by SIGINT" in run.said


def test_a_run_that_is_interrupted_after_its_last_test_is_no_baseline_either(
    tmp_path: Path, kept: tuple[str, ...]
) -> None:
    plugin = {"after_the_last": AFTER_THE_LAST}
    with running_test(tmp_path, MEASURED, "-p", "after_the_last", *kept, files=plugin) as run:
        assert run.end(START_S) == pytest.ExitCode.INTERRUPTED, run.said
    assert run.record["interrupted"] is True
    assert not (tmp_path / "storage").exists()


def test_a_closed_terminal_costs_no_results(tmp_path: Path, kept: tuple[str, ...]) -> None:
    """All that the run writes from then on is an error of its terminal."""
    ours, theirs = os.openpty()
    # The terminal is to be the run's own, which a closed one sends SIGHUP.
    with running_test(tmp_path, WAITS, "-v", *kept, before=("setsid", "-c"), terminal=theirs) as run:
        os.close(theirs)
        run.await_file("here")
        os.close(ours)
        assert run.end() == pytest.ExitCode.INTERRUPTED
    assert run.record["interrupted"] is True
    assert [benchmark["name"] for benchmark in run.record["benchmarks"]] == ["test_measured"]
    cases = [case.get("name") for case in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")]
    assert "test_measured" in cases
    assert not (tmp_path / "storage").exists()


def test_under_nohup_a_run_outlives_its_terminal(tmp_path: Path, kept: tuple[str, ...]) -> None:
    with running_test(tmp_path, WAITS, *kept, before=("nohup",)) as run:
        run.await_file("here")
        run.process.send_signal(signal.SIGHUP)
        run.go_on()
        assert run.end(START_S) == pytest.ExitCode.OK, run.said
    assert run.record["interrupted"] is False


def test_a_signal_that_a_destructor_swallows_ends_the_run_before_the_next_test(tmp_path: Path) -> None:
    with running_test(tmp_path, LOST, "-v") as run:
        assert run.end(START_S) == pytest.ExitCode.INTERRUPTED, run.said
    assert "test_after_it" not in run.said
    assert "!!! Interrupted: SIGTERM !!!" in run.said
