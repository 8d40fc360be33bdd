"""Promotion of nightly results to baselines: the output, refused records, and complete, numbered files.

The records are those of real runs; some are edited as a broken machine or a person might.
"""

import json
import multiprocessing
import os
import pty
import re
import shutil
import signal
import sys
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from fixtures.__main__ import main
from fixtures.records.baselines import BaselineStorage, read_history
from fixtures.records.schema import SCHEMA
from fixtures.stats.verdict import change_in_words, in_column
from tests import nightly_records
from tests.command_line import QUICK, Outcome, run
from tests.forked import command
from tests.forked import perf as pytest_perf
from tests.workloads_for_tests import STEP_MS

SCALING = ("perf/test_scaling.py", "-k", "1cpu", "--workload=tests.workloads_for_tests:steady", *QUICK)
HERE = ("--instance=rack-7", "--min-slowdown=100")
SINGLE = "perf/test_scaling.py::test_scaling[steady-1cpu-single]"

# Any: records are JSON.
Record = dict[str, Any]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs' --benchmark-json: first.json, which failed for want of a baseline; then, with that promoted into
    baselines/, tonight.json and slower.json, which failed for being slower."""
    folder = tmp_path_factory.mktemp("runs")

    def measure(name: str, step_ms: str, *arguments: str) -> Outcome:
        outcome = pytest_perf(
            folder / "baselines",
            *(*SCALING, *HERE, f"--benchmark-json={folder / name}", *arguments),
            variables={STEP_MS: step_ms},
        )
        edited(folder / name, folder / name, set_all(commit_info={"id": "c0ffee", "dirty": False}))
        return outcome

    assert measure("first.json", "40", "--require-baseline").exit_code == pytest.ExitCode.TESTS_FAILED
    promote(folder / "baselines", folder / "first.json", "--yes").exits(0)
    assert measure("tonight.json", "40").exit_code == 0
    assert measure("slower.json", "200").exit_code == pytest.ExitCode.TESTS_FAILED
    return folder


@pytest.fixture
def storage(runs: Path, tmp_path: Path) -> Path:
    """Baselines of its own with the first record in them."""
    return Path(shutil.copytree(runs / "baselines", tmp_path / "baselines"))


@pytest.fixture
def tonight(runs: Path) -> Path:
    return runs / "tonight.json"


def promote(storage: Path, *arguments: str | Path, stdin: str = os.devnull) -> Outcome:
    return command("promote", f"--storage={storage}", "--min-slowdown=100", *arguments, stdin=stdin)


def files_in(storage: Path) -> list[str]:
    return sorted(str(file.relative_to(storage)) for file in storage.rglob("*") if file.is_file())


def edited(source: Path, target: Path, change: Callable[[Record], Record | None]) -> Path:
    """A copy of a record with a change: an edit, or another record instead."""
    record = json.loads(source.read_text())
    target.write_text(json.dumps(change(record) or record))
    return target


def with_medians(*medians_s: float) -> Callable[[Record], None]:
    """The change of a record in which each test took so long."""

    def change(record: Record) -> None:
        record["benchmarks"] = [nightly_records.with_medians(one, *medians_s) for one in record["benchmarks"]]

    return change


def over_shm(record: Record, first: int = 0) -> None:
    """From this test on."""
    for benchmark in record["benchmarks"][first:]:
        benchmark["extra_info"] |= {"interconnect": "shm", "instance": "rack-7-shm"}


# What is shown and written


def test_what_would_change_is_shown_and_written(storage: Path, tonight: Path) -> None:
    outcome = promote(storage, "--yes", tonight).exits(0)
    then, now = (
        next(b for b in json.loads(file.read_text())["benchmarks"] if b["fullname"] == SINGLE)["extra_info"]
        for file in (storage / "rack-7/0001_first.json", tonight)
    )
    (row,) = re.findall(r"^test_scaling\[steady-1cpu-single\] +(.*)$", outcome.output, re.MULTILINE)
    change = 100 * (then["steps_per_s"] / now["steps_per_s"] - 1)
    speeds = f"{then['steps_per_s']:.3f} {now['steps_per_s']:.3f}"
    assert row.split() == f"{speeds} {in_column(change_in_words(change))} 100.0 1 ok".split()
    assert f"saved {storage / 'rack-7/0002_tonight.json'}" in outcome.output
    written = json.loads((storage / "rack-7/0002_tonight.json").read_text())
    assert written["benchmarks"] == json.loads(tonight.read_text())["benchmarks"]
    assert {len(test.launch_medians_s) for test in read_history(storage, "rack-7").values()} == {2}


def test_several_are_promoted_in_their_order_under_a_name(storage: Path, tonight: Path, tmp_path: Path) -> None:
    later = edited(tonight, tmp_path / "later.json", with_medians(0.05))
    assert promote(storage, "--yes", "--name=week-7", tonight, later).exit_code == 0
    assert files_in(storage)[1:] == ["rack-7/0002_week-7.json", "rack-7/0003_week-7.json"]
    assert read_history(storage, "rack-7")[SINGLE].launch_medians_s[2] == [0.05]


def test_tests_of_the_baselines_that_are_not_in_it_and_other_software_are_reported(
    storage: Path, tonight: Path
) -> None:
    def lengthen(record: Record) -> None:
        one = record["benchmarks"][0]
        record["benchmarks"] += [{**one, "fullname": f"perf/test_gone.py::test_gone[{n:02}]"} for n in range(14)]
        record["environment"]["torch"] = "2.99"

    baseline = storage / "rack-7/0001_first.json"
    edited(baseline, baseline, lengthen)
    outcome = promote(storage, tonight)
    _, _, missing = outcome.output.partition("14 more are in the baselines of rack-7, not in this record:")
    names = [f"    perf/test_gone.py::test_gone[{n:02}]" for n in range(12)]
    assert missing.splitlines()[1:14] == [*names, "    and 2 more"]
    assert re.search(r"^other: torch 2\.99 -> \S+ since 0001_first\.json$", outcome.output, re.MULTILINE)


def test_each_interconnect_of_a_run_goes_to_its_own_instance(storage: Path, tonight: Path, tmp_path: Path) -> None:
    promote(storage, "--yes", edited(tonight, tmp_path / "both.json", lambda record: over_shm(record, 1))).exits(0)
    assert set(files_in(storage)) == {"rack-7/0001_first.json", "rack-7/0002_both.json", "rack-7-shm/0001_both.json"}
    assert len(read_history(storage, "rack-7-shm")) == 1


def test_it_works_without_torch(storage: Path, tonight: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('there is no torch here')")
    arguments = (f"--storage={storage}", "--min-slowdown=100", "--yes", str(tonight))
    run(*(sys.executable, "-m", "fixtures", "promote"), *arguments, variables={"PYTHONPATH": str(tmp_path)}).exits(
        0
    )  # a process that has imported nothing


# Asking


def test_without_a_terminal_nothing_is_written_unless_told(storage: Path, tonight: Path) -> None:
    outcome = promote(storage, tonight).exits(1)
    assert "there is no terminal to ask on; --yes writes without asking" in outcome.errors
    assert files_in(storage) == ["rack-7/0001_first.json"]


@pytest.mark.parametrize(("answer", "files"), [("y", 2), ("yes", 2), ("n", 1), ("", 1), ("\x04", 1)])
def test_on_a_terminal_it_asks(storage: Path, tonight: Path, answer: str, files: int) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode() if answer != "\x04" else b"\x04")
    outcome = promote(storage, tonight, stdin=os.ttyname(theirs))
    os.close(ours)
    os.close(theirs)
    assert "write 1 record? [y/N]" in outcome.output
    assert outcome.exit_code == (0 if files == 2 else 1)
    assert ("nothing was written" in outcome.output) == (files == 1)
    assert len(files_in(storage)) == files


# Refusing


def set_all(**values: object) -> Callable[[Record], Record]:
    return lambda record: {**record, **values}


def of_instance(name: str) -> Callable[[Record], None]:
    def change(record: Record) -> None:
        record["instance"] = name
        for benchmark in record["benchmarks"]:
            benchmark["extra_info"]["instance"] = name

    return change


def of_a_larger_batch(record: Record) -> None:
    for benchmark in record["benchmarks"]:
        benchmark["extra_info"]["workload_fingerprint"]["batch_size"] = 512


def forget_failures(record: Record) -> None:
    del record["failed"]


WRONG = {"perf/test_gradients.py::test_exact[bf16]": "rank 1 died of SIGKILL"}


# tests/unit/records/test_baselines.py has what is wrong with any record, test_refused_records.py wrong instances.
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (set_all(schema=SCHEMA + 1), "has schema 2, this version of ddp-perf reads 1"),
        (set_all(schema=0), "has schema 0, this version of ddp-perf reads 1"),
        (set_all(benchmarks=[{"extra_info": {}}]), "has no benchmarks of ddp-perf"),
        (forget_failures, "has no list of failed tests"),
        (set_all(failed=WRONG), "1 of its tests failed:"),
        (set_all(interrupted=True), "is from an interrupted run"),
        (of_a_larger_batch, "2 of its tests measured something different from the baselines of the same name"),
        (of_instance("rack-8"), "is of instance 'rack-8', "),
    ],
    ids=["newer", "older", "another suite", "no failures", "failed", "interrupted", "batch", "another instance"],
)
def test_a_bad_record_is_refused_by_name_and_the_good_one_next_to_it_too(
    storage: Path, tonight: Path, tmp_path: Path, change: Callable[[Record], Record | None], complaint: str
) -> None:
    bad = edited(tonight, tmp_path / "bad.json", change)
    headline, line, *_ = promote(storage, "--yes", tonight, bad).exits(1).errors.splitlines()
    assert headline == "refused, nothing was written:"
    assert line.startswith(f"{bad}: {complaint}")
    assert files_in(storage) == ["rack-7/0001_first.json"]


def test_a_torn_record_and_a_bad_name_are_refused_at_once(storage: Path, tonight: Path, tmp_path: Path) -> None:
    (tmp_path / "torn.json").write_bytes(tonight.read_bytes()[:2000])
    shutil.copy(tonight, tmp_path / "a b.json")
    outcome = promote(storage, "--yes", tmp_path / "torn.json", tmp_path / "a b.json").exits(2)
    assert f"\n{tmp_path / 'torn.json'}: cannot be read: incomplete or damaged JSON (" in outcome.errors
    assert f"\n{tmp_path / 'a b.json'}: 'a b' is not a valid name for a baseline" in outcome.errors


def test_a_run_that_could_find_too_little_may_become_a_baseline(storage: Path, tonight: Path, tmp_path: Path) -> None:
    """More records are what lets the next run find more."""
    blunt = edited(tonight, tmp_path / "blunt.json", set_all(failed={"perf::sensitivity[rack-7]": "only over 100 %"}))
    promote(storage, "--yes", blunt).exits(0)
    assert files_in(storage)[1:] == ["rack-7/0002_blunt.json"]


def test_a_slower_record_is_refused_unless_that_is_accepted(storage: Path, runs: Path) -> None:
    refused = promote(storage, "--yes", runs / "slower.json").exits(1)
    assert "2 of its tests failed:" in refused.errors
    assert re.search(rf"{re.escape(SINGLE)}: slower by \d+\.\d % ", refused.errors)
    accepted = promote(storage, "--yes", "--accept=a larger model", runs / "slower.json").exits(0)
    assert "2 tests: 2 slower" in accepted.output
    assert files_in(storage)[1:] == ["rack-7/0002_slower.json"]
    assert json.loads((storage / "rack-7/0002_slower.json").read_text())["accepted"] == "a larger model"


def make_unclear(record: Record) -> None:
    verdict = record["benchmarks"][0]["extra_info"]["verdict"]
    record["benchmarks"][0]["extra_info"]["verdict"] = {**verdict, "word": "unclear", "reason": "slower by 35.0 %"}


@pytest.mark.parametrize(
    ("change", "doubt"),
    [
        (make_unclear, ": unclear: slower by 35.0 %"),
        (set_all(disturbed=["copy 30 % slower"]), "    disturbed: copy 30 % slower"),
        (set_all(doubts=["train.py changed"]), "    train.py changed"),
        (set_all(commit_info={"id": "c0ffee", "dirty": True}), "    uncommitted changes in the checkout of c0ffee"),
    ],
    ids=["unclear", "disturbed", "doubtful", "dirty"],
)
def test_a_record_that_may_be_no_sound_baseline_is_refused_unless_that_is_accepted(
    storage: Path, tonight: Path, tmp_path: Path, change: Callable[[Record], Record | None], doubt: str
) -> None:
    file = edited(tonight, tmp_path / "doubtful.json", change)
    _, headline, reason = promote(storage, "--yes", file).exits(1).errors.splitlines()
    assert headline == f"{file}: measure again, or say with --accept why it is a sound baseline:"
    assert reason.endswith(doubt)
    assert files_in(storage) == ["rack-7/0001_first.json"]
    promote(storage, "--yes", "--accept=the disk was idle", file).exits(0)


def test_a_burst_that_was_over_when_a_test_was_measured_again_is_not_slower(
    storage: Path, tonight: Path, tmp_path: Path
) -> None:
    """As in its night: the fastest measurement is judged, the first is stored."""

    def slow_down(record: Record) -> None:
        for benchmark in record["benchmarks"]:
            info = benchmark["extra_info"]
            info["remeasured_launch_medians_s"] = [info["launch_medians_s"]]
        with_medians(0.2)(record)

    promote(storage, "--yes", edited(tonight, tmp_path / "burst.json", slow_down)).exits(0)
    assert read_history(storage, "rack-7")[SINGLE].launch_medians_s[1] == [0.2]


def test_a_record_that_is_slower_only_than_todays_baselines_is_refused(
    storage: Path, tonight: Path, tmp_path: Path
) -> None:
    outcome = promote(storage, "--yes", edited(tonight, tmp_path / "old.json", with_medians(0.2, 0.2))).exits(1)
    assert "2 of its tests are slower now; if that is intended, say why with --accept:" in outcome.errors


def test_no_record_counts_twice(storage: Path, tonight: Path) -> None:
    both = promote(storage, "--yes", tonight, tonight).exits(1)
    assert f"{tonight}: is the same record as {tonight}" in both.errors
    assert promote(storage, "--yes", tonight).exit_code == 0
    again = promote(storage, "--yes", "--name=again", tonight).exits(1)
    assert f"is among the baselines already: {storage / 'rack-7/0002_tonight.json'}" in again.errors


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("promote",), "the following arguments are required: RUN.json"),
        (("promote", "--min-slowdown=-1", "x.json"), "--min-slowdown must be over 0, got -1"),
    ],
)
def test_wrong_usage_is_reported_in_one_line(arguments: tuple[str, ...], complaint: str) -> None:
    assert complaint in command(*arguments).exits(2).errors.splitlines()[-1]


# Several at once, and the worst time to be killed


def _variants(tonight: Path, folder: Path, name: str, count: int) -> list[Path]:
    """Records that differ in their times."""
    times_s = [0.04 + 1e-6 * number + 1e-9 * len(name) for number in range(count)]
    return [
        edited(tonight, folder / f"{name}{number}.json", with_medians(time_s)) for number, time_s in enumerate(times_s)
    ]


def _promote_each(storage: Path, files: list[Path], together: Barrier) -> None:
    """Its exit code is how many of these were not refused."""
    written = 0
    for file in files:
        together.wait(60)
        written += main(["promote", "--yes", "--min-slowdown=100", f"--storage={storage}", str(file)]) == 0
    raise SystemExit(written)


def _save_each(storage: Path, output: Record, count: int, together: Barrier) -> None:
    """What pytest --benchmark-save does at its end."""
    for _ in range(count):
        together.wait(60)
        BaselineStorage(str(storage), logger=None, default_machine_id="rack-7").save(output, "saved")


def test_of_two_promotions_of_one_record_at_once_one_is_refused_and_a_save_takes_its_own_number(
    storage: Path, tonight: Path, tmp_path: Path
) -> None:
    server, count = multiprocessing.get_context("forkserver"), 10
    server.set_forkserver_preload([__name__])
    together, files = server.Barrier(3), _variants(tonight, tmp_path, "same", count)
    save = (storage, json.loads(tonight.read_text()), count, together)
    processes = [
        *(server.Process(target=_promote_each, args=(storage, files, together), daemon=True) for _ in range(2)),
        server.Process(target=_save_each, args=save, daemon=True),
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    first, second, saved = (process.exitcode or 0 for process in processes)
    assert (first + second, saved) == (count, 0)
    numbers = [file.partition("/")[2].partition("_")[0] for file in files_in(storage)]
    assert numbers == [f"{number:04}" for number in range(1, 2 * count + 2)]
    assert len(read_history(storage, "rack-7")[SINGLE].launch_medians_s) == 2 * count + 1


# The kernel kills a process that writes more into a file than its limit.
LIMIT_BYTES = 4096
LIMITED = f"""
import resource, signal, sys
from fixtures.__main__ import main
sys.dont_write_bytecode = True
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT_BYTES}, {LIMIT_BYTES}))
main()
"""


def test_killed_while_it_writes_it_leaves_no_half_record(storage: Path, tonight: Path, tmp_path: Path) -> None:
    asked = ("promote", "--yes", f"--storage={storage}", "--min-slowdown=100", str(tonight))
    run(sys.executable, "-c", LIMITED, *asked).exits(-signal.SIGXFSZ)
    assert [file for file in files_in(storage) if file.endswith(".json")] == ["rack-7/0001_first.json"]
    (left,) = (storage / "rack-7").glob(".*.part")
    assert left.stat().st_size == LIMIT_BYTES
    assert promote(storage, "--yes", tonight).exit_code == 0
    assert len(read_history(storage, "rack-7")[SINGLE].launch_medians_s) == 2


@pytest.mark.parametrize(
    ("target", "told"),
    [(None, "refused, nothing was written:"), (Path("/proc"), "refused, 0 of 1 records were written:")],
    ids=["a-file-in-the-folder's-place", "a-folder-that-takes-no-files"],
)
def test_where_nothing_can_be_written_that_is_reported(
    storage: Path, tonight: Path, tmp_path: Path, target: Path | None, told: str
) -> None:
    if target is None:
        (storage / "rack-7-shm").touch()
    else:
        storage = tmp_path / "link"
        storage.symlink_to(target)

    outcome = promote(storage, "--yes", edited(tonight, tmp_path / "shm.json", over_shm)).exits(1)
    assert told in outcome.errors
    assert "Traceback" not in outcome.errors
