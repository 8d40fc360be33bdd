"""Damaged files, and what the commands make of them: no traceback, no hang, no control character, one line a fault.

python -m studies.fuzz                                    1000 files of each kind
python -m studies.fuzz --count 10000 --seed 3 --kind trace

Each file is a good one with values changed, removed, swapped and repeated, bytes flipped, cut off or nested
(``fuzz_mutations.py``). Records are read by promote, backtest, compare, report and by what `pytest perf` does
with a baseline; traces and SQLite exports of nsys by explain. The same seed and number make the same file. Exit code:
0 nothing found, 1 something found.
"""

import argparse
import gzip
import io
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from fixtures.__main__ import main
from fixtures.extras.first_run.expectations import read_population
from fixtures.matrix.plain_text import quoted
from fixtures.records.baselines import BadBaseline, History, read_history, read_priors
from fixtures.records.comparability import other_machine
from fixtures.records.differences import cause
from fixtures.stats.verdict import judge
from studies.fuzz_mutations import mutated_bytes, mutated_json, mutated_sqlite
from tests.recordings import AUTOGRAD, TRAIN, ddp_steps, sqlite

_BASELINES = Path(__file__).parent.parent / "baselines"
_INSTANCE = "2x-nvidia-h200-nv18"
_TESTS = 3
# Of one file, by one command.
_MOST_S = 10
_MOST_BYTES = 6 * 10**9
_LONGEST_LINE = 2500
# Files of one task of a process.
_CHUNK = 250

# Any: JSON.
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A file that a command does not take as it should. where: a traceback's last place, or what else is wrong."""

    kind: str
    number: int
    command: str
    where: str
    detail: str


class _TooSlow(BaseException):
    pass


def fuzz(kind: str, numbers: range, seed: int) -> Iterator[Found]:
    """Make the files of this kind with these numbers and run the commands on each."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        try_one = KINDS[kind](Path(folder))
        for number in numbers:
            for command, run in try_one(Random(f"{kind} {seed} {number}")):
                if (wrong := _wrong(run)) is not None:
                    yield Found(kind=kind, number=number, command=command, where=wrong[0], detail=wrong[1])


Try = Callable[[Random], Sequence[tuple[str, Callable[[], object]]]]


def _records(folder: Path) -> Try:
    """Two good baselines and a damaged one."""
    good = [_good_record(name) for name in ("0004_vit.json", "0005_h200_precisions.json")]
    storage, nights = folder / "baselines", folder / "nights"
    for number, record in enumerate(good, 1):
        for file in (storage / _INSTANCE / f"{number:04}_good.json", nights / f"{number}.json"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(record))
    bad, night = storage / _INSTANCE / "0003_bad.json", nights / "bad.json"

    def try_one(random: Random) -> Sequence[tuple[str, Callable[[], object]]]:
        text = mutated_json(random.choice(good), random).encode()
        data = mutated_bytes(text, random) if random.random() < 0.1 else text
        bad.write_bytes(data)
        night.write_bytes(data)
        return (
            ("predict", lambda: main(["predict", str(night), "--network", "400gbit,5us"])),
            ("promote", lambda: main(["promote", str(night), "--storage", str(folder / "empty"), "--name", "n"])),
            ("promote over", lambda: main(["promote", str(night), "--accept=why", "--storage", str(storage)])),
            ("backtest", lambda: main(["backtest", "--storage", str(storage)])),
            ("compare", lambda: main(["compare", str(night), str(nights / "1.json"), "--storage", str(storage)])),
            (
                "report",
                lambda: main(["report", str(night), "--output", str(folder / "report"), "--history", str(nights)]),
            ),
            ("pytest perf", lambda: _as_pytest_perf(storage)),
        )

    return try_one


def _good_record(name: str) -> Json:
    """A record with few tests, and with all that a profiled launch adds."""
    record: Json = json.loads((_BASELINES / _INSTANCE / name).read_text())
    record["benchmarks"] = record["benchmarks"][:_TESTS]
    for benchmark in record["benchmarks"]:
        benchmark["stats"] = {"data": benchmark.get("stats", {}).get("data", [])[:3]}
        benchmark["extra_info"] |= {
            "breakdown_ms": {"compute": 50.0, "exposed_communication": 9.5, "exposed_copy": 0.5, "idle": 3.0},
            "phases_ms": {"forward": 20.0, "backward": 40.0, "optimizer": 3.0},
            "all_reduces": 3,
            "waiting_ms": 2.0,
            "late_ranks": {"0": 1, "1": 5},
            "starved_ms": 0.5,
            "unfed_ms": 0.25,
            "algorithms_percent": {"AllReduce": {"RING LL128": 90.0, "TREE LL": 10.0}},
            "buckets": 2,
            "bucket_bytes": [1000000, 2000000],
        }
    return record


def _as_pytest_perf(storage: Path) -> None:
    """What a run reads of the baselines, and the comparison of each record with the one before."""
    try:
        history: History = read_history(storage, _INSTANCE)
    except BadBaseline as error:
        print(error)
        return
    priors = read_priors(storage, _INSTANCE, history)
    read_population(storage, "NVIDIA H200")
    for test, recorded in history.items():
        print(test, recorded.kind)
        medians_s = recorded.launch_medians_s
        print(judge(medians_s[0], medians_s, tests=1, prior=priors.prior(medians_s[0], medians_s, recorded.kind)))
        assert recorded.last is not None
        for snapshot in recorded.profiled.values():
            print(recorded.mismatch(snapshot.info), cause(snapshot, recorded.last), cause(recorded.last, snapshot))
        print(other_machine(recorded.identities[0], recorded.identities))


def _traces(folder: Path) -> Try:
    """The trace of one rank, on the GPU or on the CPU, beside a good one of the other rank."""
    other = ddp_steps(1).chrome(folder / "rank1.json")
    bases = [json.loads(ddp_steps(0).chrome(folder / "base.json").read_text()), _on_the_cpu()]

    def try_one(random: Random) -> Sequence[tuple[str, Callable[[], object]]]:
        text = mutated_json(random.choice(bases), random).encode()
        data = mutated_bytes(text, random) if random.random() < 0.15 else text
        if random.random() < 0.2:
            data = gzip.compress(data, 1, mtime=0)
            data = mutated_bytes(data, random) if random.random() < 0.5 else data
        file = folder / "rank0.json"
        file.write_bytes(data)
        return (
            ("explain", lambda: main(["explain", str(file), "--collectives"])),
            ("explain two", lambda: main(["explain", str(file), str(other), "--json"])),
        )

    return try_one


def _on_the_cpu() -> Json:
    """Three steps of a rank without a GPU."""
    events = []

    def add(category: str, name: str, thread: int, start: int, end: int) -> None:
        events.append(
            {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": end - start}
        )

    for step in range(3):
        at = 1000 * step
        add("user_annotation", f"Batch {step}", TRAIN, at, at + 900)
        add("user_annotation", "forward", TRAIN, at + 10, at + 300)
        add("cpu_op", "aten::linear", TRAIN, at + 20, at + 290)
        add("user_annotation", "backward", TRAIN, at + 310, at + 700)
        add("cpu_op", "aten::mm", TRAIN, at + 320, at + 600)
        add("cpu_op", "c10d::allreduce_", TRAIN, at + 610, at + 620)
        add("user_annotation", "gloo:all_reduce", AUTOGRAD, at + 615, at + 690)
    return {"distributedInfo": {"rank": 0, "world_size": 2}, "baseTimeNanoseconds": 0, "traceEvents": events}


def _exports(folder: Path) -> Try:
    """An export of one process or of two."""
    bases = [
        sqlite(folder / "one.sqlite", [ddp_steps(0)]),
        sqlite(folder / "two.sqlite", [ddp_steps(0), ddp_steps(1)], text_ids=True),
    ]

    def try_one(random: Random) -> Sequence[tuple[str, Callable[[], object]]]:
        file = Path(shutil.copy(random.choice(bases), folder / "bad.sqlite"))
        mutated_sqlite(file, random)
        return (("explain", lambda: main(["explain", str(file), "--collectives"])),)

    return try_one


KINDS: dict[str, Callable[[Path], Try]] = {"record": _records, "trace": _traces, "sqlite": _exports}


def _wrong(run: Callable[[], object]) -> tuple[str, str] | None:
    """What is wrong with a command's end or its output, in a word and in full; None if nothing is."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with _within(_MOST_S), redirect_stdout(out), redirect_stderr(err):
            code = run()
    except SystemExit as end:
        code = end.code
    except _TooSlow:
        return f"took more than {_MOST_S} s", traceback.format_exc()
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        ours = [f for f in traceback.extract_tb(error.__traceback__) if "/fixtures/" in f.filename][-1:]
        place = " < ".join(dict.fromkeys(f"{Path(frame.filename).name}:{frame.lineno}" for frame in (last, *ours)))
        return f"{type(error).__name__} at {place}", traceback.format_exc()
    if code not in (None, 0, 1, 2):
        return f"exit code {code}", ""
    for text in (out.getvalue(), err.getvalue()):
        if quoted(text, lines=True) != text:
            return "control characters in the output", repr(text)[:2000]
        if (longest := max(map(len, text.split("\n")))) > _LONGEST_LINE:
            return "a line that is too long", f"{longest} characters: {text[:500]}"
    if code == 2 and not err.getvalue().strip():
        return "exit code 2 without a line", out.getvalue()[:500]
    return None


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    def late(_number: int, _frame: FrameType | None) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _of_chunk(chunk: tuple[str, range, int]) -> list[Found]:
    return list(fuzz(*chunk))


def _in_processes(kind: str, count: int, seed: int, jobs: int) -> list[Found]:
    """What ``fuzz`` finds, with the files shared out to ``jobs`` processes. Prints how far it is to stderr."""
    chunks = [(kind, range(first, min(first + _CHUNK, count)), seed) for first in range(0, count, _CHUNK)]
    found: list[Found] = []
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for (_, numbers, _), of_chunk in zip(chunks, pool.imap(_of_chunk, chunks), strict=True):
            found += of_chunk
            print(f"{kind}: {numbers.stop} of {count} files, {len(found)} faults", file=sys.stderr, flush=True)
    return found


def _run(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m studies.fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="files of each kind, default %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, action="append", help="repeatable; default all")
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes, default %(default)s, one a core"
    )
    parser.add_argument("--verbose", action="store_true", help="also print the first traceback of each place")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: must be 1 or more")
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    places: dict[tuple[str, str], list[Found]] = {}
    for kind in options.kind or KINDS:
        began = time.monotonic()
        found = _in_processes(kind, options.count, options.seed, options.jobs)
        for one in found:
            places.setdefault((kind, one.where), []).append(one)
        print(f"{kind}: {options.count} files, {len(found)} faults, {time.monotonic() - began:.0f} s", flush=True)
    for (kind, where), group in sorted(places.items(), key=lambda item: -len(item[1])):
        numbers = ", ".join(f"{one.number} ({one.command})" for one in group[:3])
        print(f"{kind}: {len(group)} x {where}: files {numbers}")
        if options.verbose:
            print(re.sub("^", "    ", group[0].detail, flags=re.MULTILINE))
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(_run())
