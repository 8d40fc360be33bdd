"""Random runs of ``pytest perf`` with random faults, for an hour or as long as wanted, and what was reported wrongly.

    python -m studies.long_run --minutes 60 --seed 1 --report DIR
    python -m studies.long_run --seed 1 --only 17 --report DIR       run 17 of that hour again

Each run trains healthy workloads and, between them, workloads of ``studies.faulty_workloads``. Most runs have a
disturbance from outside as well (``DISTURBANCES``): a signal, a killed rank, a full TMPDIR, a damaged record.
Checked after each run: every fault is reported in the words of its kind and fails its own test alone; healthy tests
pass; no process, file or shared memory is left. Healthy tests that follow a fault are compared with those in runs
without one: their step times, and how often they are called slower, which other users of the machine can cause too.
DIR gets report.md and report.json, rewritten after each run, also on Ctrl-C, and the output of each run with a finding.
Needs unshare and mount (util-linux), for a TMPDIR and a /dev/shm of its own.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any
from xml.etree import ElementTree

from scipy.stats import mannwhitneyu

from fixtures.launch import reaper
from fixtures.launch.rank_sets import CHANGES_ITS_PROCESS
from studies.faulty_workloads import HEALTHY, KINDS, planted
from studies.fuzz_mutations import mutated_bytes, mutated_json

ROOT = Path(__file__).parents[1]
MODULE = "studies.faulty_workloads"
MARKER = "DDP_PERF_LONG_RUN"
_INSIDE = "DDP_PERF_LONG_RUN_MOUNTS"
RANK_TIMEOUT_S = 10
_DEADLINE_S = 400
# From the end of pytest until nothing may be left of it.
_GONE_S = 15
_TMP_BYTES = 200_000_000
# Ratios of step times below these are the machine's.
_MIN_RATIO, _MAX_P = 1.15, 0.01
_OPTIONS = ("--launches=1", "--steps=8", "--warmup=4", "--recheck=0", "--explain=none", "--no-references")
_NEVER = ("INTERNALERROR", "Exception ignored", "Error in sys.excepthook")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One run. tests: names of workloads, in order. moment: when the disturbance comes, as a share of the run."""

    number: int
    seed: int
    tests: tuple[str, ...]
    disturbance: str
    moment: float


@dataclass(kw_only=True)
class Done:
    """One run that has ended.

    outcomes: workload -> message of its failure; "" if it passed. medians: workload -> seconds a step.
    words: workload -> word of its verdict. disturbed: the disturbance came while the run was alive.
    """

    plan: Plan
    exit_code: int = 0
    took_s: float = 0
    disturbed: bool = False
    outcomes: dict[str, str] = field(default_factory=dict)
    medians: dict[str, float] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)


class Run:
    """A run of pytest, leader of a session like a job of a terminal, with a TMPDIR of its own in ``folder``."""

    def __init__(self, folder: Path, *arguments: str, disk_bytes: int = _TMP_BYTES) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        if not self.temporary.exists():
            self.temporary.mkdir()
            _mount(self.temporary, disk_bytes)
        self._marker = f"{MARKER}={uuid.uuid4().hex}".encode()
        name, _, value = self._marker.decode().partition("=")
        self.output = folder / "output"
        with self.output.open("ab") as file:
            self.process = subprocess.Popen(
                [*(sys.executable, "-m", "pytest", "-p", "no:cacheprovider"), *arguments],
                cwd=ROOT,
                env={
                    **{key: value for key, value in os.environ.items() if not key.startswith("PYTEST")},
                    "TMPDIR": str(self.temporary),
                    "PYTHONUNBUFFERED": "1",
                    "CUDA_VISIBLE_DEVICES": "",
                    "COLUMNS": "400",
                    "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
                    name: value,
                },
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def processes(self) -> list[int]:
        """The live processes of the run, pytest among them."""
        return [pid for pid, environment in _environments() if self._marker in environment]

    def ranks(self) -> list[int]:
        """The rank processes, children of pytest."""
        needle = f"{reaper.MARKER}=".encode()
        return [
            pid
            for pid, environment in _environments()
            if self._marker in environment
            and any(variable.startswith(needle) for variable in environment)
            and _parent(pid) == self.process.pid
        ]

    def reapers(self) -> list[int]:
        return [pid for pid in self.processes() if b"reaper.py" in _read(Path(f"/proc/{pid}/cmdline"))]

    def left(self) -> list[str]:
        """What is there besides its output."""
        return [
            *(f"process {pid}: {_read(Path(f'/proc/{pid}/cmdline'))[:100]!r}" for pid in self.processes()),
            *(str(path.name) for path in self.temporary.glob("*") if path.name != "filler"),
            *(str(path) for path in Path("/dev/shm").iterdir()),
        ]

    def clear(self) -> None:
        """Remove all that it left."""
        reaper.end(self.processes)
        self.process.wait()
        subprocess.run(["umount", "--lazy", str(self.temporary)], check=False, capture_output=True)
        for path in Path("/dev/shm").iterdir():
            path.unlink()


def _environments() -> Iterator[tuple[int, list[bytes]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and reaper.state_of(int(entry.name)) not in (None, "Z"):
            with contextlib.suppress(OSError):  # gone meanwhile, or another user's
                yield int(entry.name), (entry / "environ").read_bytes().split(b"\0")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _mount(folder: Path, size: int) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)


# The disturbances: what comes from outside at some moment. Returns True if it found the run alive.


def _signal_all(number: signal.Signals) -> Callable[[Run, random.Random], None]:
    def send(run: Run, random: random.Random) -> None:
        os.killpg(run.process.pid, number)

    return send


def _suspend(run: Run, random: random.Random) -> None:
    os.kill(run.process.pid, signal.SIGSTOP)
    time.sleep(random.uniform(2, 14))
    os.kill(run.process.pid, signal.SIGCONT)


def _signal_a_rank(number: signal.Signals) -> Callable[[Run, random.Random], None]:
    def send(run: Run, random: random.Random) -> None:
        deadline = time.monotonic() + 60
        while not (ranks := run.ranks()) and run.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.choice(sorted(ranks)), number)

    return send


def _fill(run: Run, random: random.Random) -> None:
    with contextlib.suppress(OSError), (run.temporary / "filler").open("wb", buffering=0) as file:
        while file.write(b"\0" * 65536):
            pass


def _remove(run: Run, random: random.Random) -> None:
    for path in run.temporary.glob("*"):
        shutil.rmtree(path, ignore_errors=True)


def _kill_both(run: Run, random: random.Random) -> None:
    for pid in run.reapers():
        os.kill(pid, signal.SIGKILL)
    run.process.kill()


DISTURBANCES: dict[str, Callable[[Run, random.Random], None] | None] = {
    "none": None,
    "SIGINT": _signal_all(signal.SIGINT),
    "SIGTERM": _signal_all(signal.SIGTERM),
    "SIGHUP": _signal_all(signal.SIGHUP),
    "SIGKILL": lambda run, random: run.process.kill(),
    "pytest and its reaper killed": _kill_both,
    "suspended": _suspend,
    "rank killed": _signal_a_rank(signal.SIGKILL),
    "rank stopped": _signal_a_rank(signal.SIGSTOP),
    "TMPDIR full": _fill,
    "TMPDIR emptied": _remove,
    # At the start:
    "damaged record": None,
    "broken import": None,
    "import changes the process": None,
    "wrong in the preflight": None,
    "wrong hook": None,
}
_WRONG_HOOKS = {
    "not_divided": "own_sum",
    "divided_twice": "own_half",
    "one_in_ten_thousand_off": "own_nearly",
    "fast_and_wrong": "own_fast",
}
_INTERRUPTING = ("SIGINT", "SIGTERM", "SIGHUP")
_KILLING = ("SIGKILL", "pytest and its reaper killed")
# Disturbances after which any test may fail, in these words.
_FAILS_MORE = {
    "rank killed": r"died of SIGKILL",
    "rank stopped": r"is stopped",
    "TMPDIR full": r"cannot be used|No space left",
    "TMPDIR emptied": r"was removed while the run used it|cannot be used",
}
_AT_IMPORT = """
import os
os.umask(0o077)
from studies.faulty_workloads import __getattr__ as _planted
workload = _planted("healthy__r0_s0_99")
"""


def drawn(seed: int, number: int) -> Plan:
    """The plan of one run: the same for the same seed and number."""
    random_ = random.Random(f"{seed} {number}")
    control = random_.random() < 0.2
    disturbance = "none" if control or random_.random() < 0.4 else random_.choice([*DISTURBANCES][1:])
    kinds = [name for name in KINDS if name != HEALTHY]
    tests = [f"{HEALTHY}__r0_s0_0"]
    for copy in range(1, random_.randint(2, 4)):
        kind = HEALTHY if control else random_.choice(kinds)
        tests.append(f"{kind}__r{random_.randint(0, 1)}_s{random_.randint(1, 8)}_{copy}")
        tests.append(f"{HEALTHY}__r0_s0_{copy + 10}")
    return Plan(number=number, seed=seed, tests=tuple(tests), disturbance=disturbance, moment=random_.random())


def run_plan(plan: Plan, storage: Path, folder: Path, typical_s: float) -> Done:
    """Run, disturb, look. storage: baselines of the healthy workloads, which are copied. typical_s: length of a run."""
    random_ = random.Random(f"{plan.seed} {plan.number} disturbance")
    own = folder / "storage"
    shutil.copytree(storage, own)
    references = [f"{MODULE}:{name}" for name in plan.tests]
    chosen = ["perf/test_throughput.py", "-k", "ddp_default and 2cpu"]
    if plan.disturbance == "damaged record":
        _damage(own, random_)
    elif plan.disturbance == "broken import":
        (folder / "broken.py").write_text(random_.choice(["1 / 0", "import os; os._exit(5)", "raise SystemExit(0)"]))
        references.append("broken:workload")
    elif plan.disturbance == "import changes the process":
        (folder / "changing.py").write_text(_AT_IMPORT)
        references.append("changing:workload")
    elif plan.disturbance == "wrong in the preflight":
        references.append(f"{MODULE}:raises__r{random_.randint(0, 1)}_s0_50")
    elif plan.disturbance == "wrong hook":
        hook = random_.choice([*_WRONG_HOOKS])
        hooks = [f"--hook=tests.hooks_for_tests:{name}" for name in (hook, "lossless")]
        chosen = ["perf", *hooks, "-k", f"({_WRONG_HOOKS[hook]} or own_mean) and bucket_1kb and test_gradients"]
    before = _files(own)
    began = time.monotonic()
    run = Run(
        folder,
        *chosen,
        *_OPTIONS,
        *(f"--rank-timeout={RANK_TIMEOUT_S}", f"--benchmark-storage={own}", "--benchmark-save=run"),
        *(f"--junitxml={folder / 'junit.xml'}", f"--benchmark-json={folder / 'run.json'}"),
        *(f"--workload={reference}" for reference in references),
    )
    done = Done(plan=plan)
    try:
        disturb = DISTURBANCES[plan.disturbance]
        if disturb is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.process.wait(0.5 + plan.moment * typical_s)
            if run.process.poll() is None:
                done.disturbed = True
                disturb(run, random_)
        try:
            done.exit_code = run.process.wait(_DEADLINE_S)
        except subprocess.TimeoutExpired:
            done.findings.append(f"no end within {_DEADLINE_S} s")
            run.process.kill()
        done.took_s = time.monotonic() - began
        _read_results(done, folder)
        if plan.disturbance == "pytest and its reaper killed" and done.disturbed:
            _follow(done, folder, own)
        deadline = time.monotonic() + _GONE_S
        while run.left() and time.monotonic() < deadline:
            time.sleep(0.2)
        done.findings += [f"left behind: {one}" for one in run.left()]
        _check(done, run.said, saved=_files(own) - before)
    finally:
        run.clear()
    return done


def _follow(done: Done, folder: Path, storage: Path) -> None:
    """The next run with the same TMPDIR removes what the killed one could not."""
    run = Run(
        folder,
        *("perf/test_throughput.py", "-k", "ddp_default and 2cpu", *_OPTIONS, f"--benchmark-storage={storage}"),
        f"--workload={MODULE}:{HEALTHY}__r0_s0_0",
    )
    if run.process.wait(_DEADLINE_S) not in (0, 1):
        done.findings.append(f"the run after a killed one ended with {run.process.returncode}")


def _files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def _damage(storage: Path, random_: random.Random) -> None:
    path = random_.choice(sorted(_files(storage)))
    if random_.random() < 0.5:
        path.write_text(mutated_json(json.loads(path.read_text()), random_), errors="surrogatepass")
    else:
        path.write_bytes(mutated_bytes(path.read_bytes(), random_))


def _read_results(done: Done, folder: Path) -> None:
    """Outcomes from JUnit, numbers from the record."""
    with contextlib.suppress(OSError, ElementTree.ParseError):
        for case in ElementTree.parse(folder / "junit.xml").iter("testcase"):
            failures = [*case.iter("failure"), *case.iter("error")]
            message = " ".join(f"{one.get('message', '')} {one.text or ''}" for one in failures)
            done.outcomes[_workload(case.get("name", ""))] = message
            if not failures and case.find("skipped") is not None:
                done.outcomes[_workload(case.get("name", ""))] = "skipped"
    with contextlib.suppress(OSError, ValueError):
        for benchmark in json.loads((folder / "run.json").read_text())["benchmarks"]:
            info = benchmark["extra_info"]
            if info.get("launch_medians_s"):
                done.medians[info["workload"]] = info["launch_medians_s"][0]
                done.words[info["workload"]] = info["verdict"]["word"]


def _workload(test: str) -> str:
    """``test_throughput[healthy__r0_s0_0-2cpu-ddp_default]`` -> ``healthy__r0_s0_0``; another name as it is."""
    match = re.fullmatch(r"test_throughput\[(\w+)-2cpu-ddp_default\]", test)
    return match[1] if match else test


def _check(done: Done, said: str, saved: set[Path]) -> None:
    """Add what is wrong to ``done.findings``."""
    plan, kind = done.plan, done.plan.disturbance
    find = done.findings.append
    done.findings += [f"the output has {never!r}" for never in _NEVER if never in said]
    if saved and done.exit_code not in (0, 1):
        find(f"a run that ended with {done.exit_code} saved a baseline")
    if done.disturbed and kind in _KILLING:
        return
    if done.disturbed and kind in _INTERRUPTING:
        _check_interrupted(done, said)
        return
    if kind in ("broken import", "wrong in the preflight"):
        words = "broken:workload" if kind == "broken import" else "ValueError: the label is out of range"
        if done.exit_code != 4 or words not in said:
            find(f"{kind}: exit code {done.exit_code}, {words!r} is {'' if words in said else 'not '}said")
        if done.medians:
            find(f"{kind}: {len(done.medians)} tests were measured")
        return
    if kind == "wrong hook":
        wrong = [name for name, message in done.outcomes.items() if message not in ("", "skipped")]
        # That hook is no right one in a group of some ranks: it sums over all.
        if not wrong or any("own_mean" in name and "group_of_pairs" not in name for name in wrong):
            find(f"wrong hook: failed are {wrong or 'none'} of {len(done.outcomes)}")
        return
    if kind == "damaged record" and done.exit_code == 4 and "bad baseline, nothing was measured" in said:
        return
    if kind == "import changes the process" and f"{CHANGES_ITS_PROCESS}: umask" not in " ".join(said.split()):
        find("the change of the process by an import is not said")
    more = re.compile(_FAILS_MORE.get(kind, r"(?!)"), re.DOTALL)
    if done.exit_code not in (0, 1) and not (kind == "TMPDIR full" and done.exit_code == 4):
        find(f"exit code {done.exit_code}")
        return
    unplanned = 0
    for test in plan.tests:
        unplanned += _check_test(done, test, said, more)
    if unplanned > 1 and kind.startswith("rank"):
        find(f"one rank cost {unplanned} tests")
    failed = any(message not in ("", "skipped") for message in done.outcomes.values())
    if done.exit_code != int(failed) and kind != "TMPDIR full":
        find(f"exit code {done.exit_code} with {'failed' if failed else 'no failed'} tests")


def _check_test(done: Done, test: str, said: str, more: re.Pattern[str]) -> int:
    """Check one test against its workload's fault. Returns 1 if the disturbance failed it."""
    fault = planted(test)
    assert fault is not None
    message = done.outcomes.get(test)
    if message is None:
        if not (done.plan.disturbance == "TMPDIR full" and done.exit_code == 4):
            done.findings.append(f"{test}: no outcome")
        return 0
    pattern = fault.fails
    if done.disturbed and message and more.search(message):
        return 1
    if pattern is None and message:
        # On a machine that others use this may be so; the report compares how often it comes with a fault and without.
        if done.words.get(test) != "slower":
            done.findings.append(f"{test}: failed: {message[:300]}")
    elif pattern is not None and not re.search(pattern, message, re.DOTALL):
        done.findings.append(f"{test}: {pattern!r} is not in {message[:300] or 'its outcome: passed'!r}")
    sentence = re.search(rf"^training {MODULE}:{test} {CHANGES_ITS_PROCESS}:(.*(\n  .*)*)", said, re.MULTILINE)
    said_of_it = " ".join(sentence[1].split()) if sentence else ""  # it is wrapped
    says = KINDS[fault.kind].says
    if says and message == "" and says not in said_of_it:
        done.findings.append(f"{test}: {says!r} is not said, but {said_of_it!r}")
    if says is None and said_of_it:
        done.findings.append(f"{test}: said without a reason: {said_of_it[:300]}")
    return 0


def _check_interrupted(done: Done, said: str) -> None:
    early = done.exit_code < 0 and done.plan.moment < 0.1 and "test session starts" not in said
    over = done.exit_code in (0, 1) and re.search(r"=+ .*(passed|failed).* in \d", said)  # before the signal came
    if done.exit_code != 2 and not early and not over:
        done.findings.append(f"{done.plan.disturbance}: exit code {done.exit_code}")
    for test, message in done.outcomes.items():
        fault = planted(test)
        if fault and message and not (fault.fails and re.search(fault.fails, message, re.DOTALL)):
            done.findings.append(f"{done.plan.disturbance}: {test} is reported as failed: {message[:300]}")


# The report


def numbers(runs: list[Done]) -> dict[str, dict[str, Any]]:
    """Kind -> how the healthy test after it compares with the first of its run, against runs without a fault."""
    ratios: dict[str, list[float]] = {}
    for done in runs:
        first = done.medians.get(done.plan.tests[0])
        control = all(planted(test).kind == HEALTHY for test in done.plan.tests)  # type: ignore[union-attr]
        for fault, after in zip(done.plan.tests[1::2], done.plan.tests[2::2], strict=True):
            if first and after in done.medians:
                kind = planted(fault).kind  # type: ignore[union-attr]
                ratios.setdefault("control" if control else kind, []).append(done.medians[after] / first)
    controls = ratios.pop("control", [])
    found: dict[str, dict[str, Any]] = {}
    if not controls:
        return found
    base = median(controls)
    every = [ratio for kind in ratios.values() for ratio in kind]
    for kind, values in {"all faults": every, **dict(sorted(ratios.items()))}.items():
        if values:
            p = float(mannwhitneyu(values, controls, alternative="greater").pvalue)
            ratio = median(values) / base
            slower = ratio > _MIN_RATIO and p < _MAX_P / (1 + len(ratios))
            found[kind] = {"tests": len(values), "ratio": ratio, "p": p, "slower": slower}
    return {"without a fault": {"tests": len(controls), "ratio": 1.0, "p": 1.0, "slower": False}, **found}


def called_slower(runs: list[Done]) -> dict[str, tuple[int, int]]:
    """Runs without and with a fault -> healthy tests after the first one: judged, and called slower."""
    counts = {"without a fault": (0, 0), "with a fault": (0, 0)}
    for done in runs:
        if done.plan.disturbance == "damaged record":  # its numbers may have changed
            continue
        planted_ = any(planted(test).kind != HEALTHY for test in done.plan.tests)  # type: ignore[union-attr]
        arm = "with a fault" if planted_ else "without a fault"
        words = [done.words[test] for test in done.plan.tests[2::2] if test in done.words]
        judged, slower = counts[arm]
        counts[arm] = (judged + len(words), slower + words.count("slower"))
    return counts


def counted(runs: list[Done]) -> dict[str, tuple[int, int]]:
    """Kind of fault or disturbance -> how often it was planted, and in how many runs with it something was found."""
    counts: dict[str, tuple[int, int]] = {}
    for done in runs:
        kinds = [planted(test).kind for test in done.plan.tests[1::2]]  # type: ignore[union-attr]
        names = [name for name in kinds if name != HEALTHY]
        reached = done.disturbed or DISTURBANCES[done.plan.disturbance] is None
        if done.plan.disturbance != "none" and reached:
            names.append(f"({done.plan.disturbance})")
        for name in names or ["(without a fault)"]:
            planted_, found = counts.get(name, (0, 0))
            wrong = any(name in finding or name.startswith("(") for finding in done.findings)
            counts[name] = (planted_ + 1, found + wrong)
    return dict(sorted(counts.items()))


def markdown(runs: list[Done], seed: int, minutes: float, facts: Mapping[str, str]) -> str:
    """The report."""
    words: dict[str, int] = {}
    for done in runs:
        for word in done.words.values():
            words[word] = words.get(word, 0) + 1
    faults = sum(planted(test).kind != HEALTHY for done in runs for test in done.plan.tests)  # type: ignore[union-attr]
    outside = sum(done.plan.disturbance != "none" for done in runs)
    found = [(done, finding) for done in runs for finding in done.findings]
    lines = [
        f"# {len(runs)} runs in {minutes:.0f} minutes, seed {seed}",
        "",
        "; ".join(f"{name} {value}" for name, value in facts.items()),
        "",
        f"{faults} faults in workloads, {outside} from outside; {sum(len(done.outcomes) for done in runs)} tests; "
        f"verdicts: {', '.join(f'{count} {word}' for word, count in sorted(words.items()))}.",
        "",
        "Healthy tests called slower: "
        + ", ".join(f"{slower} of {judged} {arm}" for arm, (judged, slower) in called_slower(runs).items())
        + ".",
        "",
        f"## Findings: {len(found)}",
        "",
        *(f"- run {done.plan.number} ({done.plan.disturbance}): {' '.join(text.split())}" for done, text in found),
        "",
        "| fault, (from outside) | runs with it | with a finding |",
        "|---|---|---|",
        *(f"| {name} | {planted_} | {wrong} |" for name, (planted_, wrong) in counted(runs).items()),
        "",
        "Step time of the healthy test after a fault over that of the first test, relative to runs without a fault:",
        "",
        "| after | tests | ratio of medians | p | |",
        "|---|---|---|---|---|",
        *(
            f"| {kind} | {one['tests']} | {one['ratio']:.2f} | {one['p']:.2g} | {'slower' if one['slower'] else ''} |"
            for kind, one in numbers(runs).items()
        ),
        "",
    ]
    return "\n".join(lines)


def write_report(folder: Path, runs: list[Done], seed: int, minutes: float, facts: Mapping[str, str]) -> None:
    """Write report.md and report.json."""
    (folder / "report.md").write_text(markdown(runs, seed, minutes, facts))
    (folder / "report.json").write_text(json.dumps([asdict(done) for done in runs], indent=1))


def make_baselines(storage: Path, folder: Path) -> None:
    """Three records of the healthy workloads, each from a run without records, so that all its tests are saved."""
    tests = [f"{HEALTHY}__r0_s0_{copy}" for copy in (0, 11, 12, 13)]
    for number in range(3):
        alone = folder / f"storage{number}"
        run = Run(
            folder,
            *("perf/test_throughput.py", "-k", "ddp_default and 2cpu", *_OPTIONS, f"--benchmark-storage={alone}"),
            f"--benchmark-save=base{number}",
            *(f"--workload={MODULE}:{name}" for name in tests),
        )
        try:
            if run.process.wait(_DEADLINE_S):
                sys.exit(f"no baseline:\n{run.said}")
        finally:
            reaper.end(run.processes)
        (record,) = _files(alone)
        (storage / record.parent.name).mkdir(parents=True, exist_ok=True)
        record.rename(storage / record.parent.name / record.name.replace("0001", f"{number + 1:04}"))
    run.clear()


def main(arguments: list[str]) -> int:
    """Returns 0 without and 1 with findings, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m studies.long_run")
    parser.add_argument("--minutes", type=float, default=60, help="default: %(default)g")
    parser.add_argument("--seed", type=int, default=1, help="makes the same runs again; default: %(default)s")
    parser.add_argument("--only", type=int, metavar="N", help="run N of this seed alone")
    parser.add_argument("--report", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    if _INSIDE not in os.environ:  # mounts of its own, which the kernel removes with the last process
        user = () if os.geteuid() == 0 else ("--map-root-user",)
        inside = ("unshare", "--mount", *user, sys.executable, "-m", "studies.long_run", *arguments)
        os.execvpe("unshare", inside, {**os.environ, _INSIDE: "1"})
    _mount(Path("/dev/shm"), 500_000_000)
    # Runs inherit an ignored signal, as a background job or nohup has it, but no handler.
    for stopping in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stopping, signal.default_int_handler)
    signal.signal(signal.SIGHUP, lambda number, frame: None)
    options.report.mkdir(parents=True, exist_ok=True)
    facts = {"torch": version("torch"), "Python": sys.version.split()[0], "cores": str(os.cpu_count())}
    began, code = time.monotonic(), 0
    runs: list[Done] = []
    with tempfile.TemporaryDirectory(prefix="long-", ignore_cleanup_errors=True) as name:
        try:
            (Path(name) / "first").mkdir()
            make_baselines(Path(name) / "baselines", Path(name) / "first")
            number = options.only or 1
            while (options.only is None and time.monotonic() - began < 60 * options.minutes) or not runs:
                plan = drawn(options.seed, number)
                folder = Path(name) / str(number)
                folder.mkdir()
                lengths = [done.took_s for done in runs if not done.disturbed and done.took_s > 15]
                done = run_plan(plan, Path(name) / "baselines", folder, median(lengths) if lengths else 45)
                runs.append(done)
                minutes = (time.monotonic() - began) / 60
                what = [planted(test).kind for test in plan.tests[1::2]]  # type: ignore[union-attr]
                print(f"[{minutes:5.1f} min] run {number}: {plan.disturbance}, {', '.join(what)}: ", end="")
                print(f"{len(done.findings)} findings" if done.findings else f"as expected ({done.took_s:.0f} s)")
                for finding in done.findings:
                    print(f"    {' '.join(finding.split())[:400]}", flush=True)
                if done.findings or options.only:
                    shutil.copy(folder / "output", options.report / f"run-{number}.txt")
                sys.stdout.flush()
                write_report(options.report, runs, options.seed, minutes, facts)
                shutil.rmtree(folder, ignore_errors=True)
                number += 1
        except KeyboardInterrupt:
            code = 130
            print(f"interrupted after {len(runs)} runs", flush=True)
    if runs:
        write_report(options.report, runs, options.seed, (time.monotonic() - began) / 60, facts)
        print(
            f"{options.report / 'report.md'}: {sum(len(done.findings) for done in runs)} findings in {len(runs)} runs"
        )
    return code or int(any(done.findings for done in runs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
