"""Records among the baselines: whole or not there, never silently left out, and nowhere outside the storage."""

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.machine.instance import BadInstance, checked, folder_of
from fixtures.matrix.recorded import json_of
from fixtures.matrix.transfers import HOST
from fixtures.records.baselines import (
    BadBaseline,
    BaselineStorage,
    History,
    LaunchTimes,
    Recorded,
    host_change,
    read_history,
)
from fixtures.records.measurement import had_no_lead
from fixtures.records.schema import SCHEMA, TestRecord
from fixtures.session.canaries import CanaryTimes
from fixtures.stats.decision import explained_by_host
from fixtures.stats.prior import Kind
from fixtures.stats.verdict import Verdict
from tests import nightly_records
from tests.builders import TRAINED, known, snapshot
from tests.nightly_records import BF16, DDP, HERE, Record

ELSEWHERE = f"{HERE}-shm"


def benchmark(test: str, *medians: float, instance: str | None = HERE) -> Record:
    return nightly_records.benchmark(test, 0.1, launch_medians_s=list(medians), instance=instance)


def output(*benchmarks: Record) -> Record:
    """What pytest-benchmark hands over to be saved, with what our hook adds."""
    return {"schema": SCHEMA, "instance": HERE, "machine_info": {"instance": HERE}, "benchmarks": list(benchmarks)}


def storage(folder: Path) -> BaselineStorage:
    return BaselineStorage(str(folder), logger=None, default_machine_id=HERE)


def save(folder: Path, *benchmarks: Record, name: str = "night") -> list[Path]:
    saving = storage(folder)
    saving.save(output(*benchmarks), name)
    return saving.written


def medians(history: History) -> dict[str, list[list[float]]]:
    return {test: recorded.launch_medians_s for test, recorded in history.items()}


def wrong(folder: Path) -> str:
    """What reading these baselines complains of."""
    with pytest.raises(BadBaseline) as raised:
        read_history(folder, HERE)
    return str(raised.value)


def write(folder: Path, name: str, record: object) -> Path:
    """A file as a person or a broken program might leave it; text is written as it is."""
    file = folder / HERE / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(record if isinstance(record, str) else json.dumps(record))
    return file


def test_what_is_saved_is_read_again_to_the_last_bit_from_the_oldest_to_the_newest(tmp_path: Path) -> None:
    save(tmp_path, benchmark(DDP, 0.1, 1 / 3, 0.30000000000000004), benchmark(BF16, 0.05))
    assert medians(read_history(tmp_path, HERE)) == {DDP: [[0.1, 1 / 3, 0.30000000000000004]], BF16: [[0.05]]}
    assert read_history(tmp_path, HERE)[DDP].workload == "vit_l_32"
    for time in (0.3, 0.1, 0.2):
        save(tmp_path, benchmark(DDP, time))
    assert medians(read_history(tmp_path, HERE))[DDP][1:] == [[0.3], [0.1], [0.2]]


def with_batch(size: int, time: float) -> Record:
    one = benchmark(DDP, time)
    one["extra_info"]["workload_fingerprint"] = json_of(replace(TRAINED, batch_size=size))
    return one


def test_records_of_another_workload_under_one_name_are_never_pooled(tmp_path: Path) -> None:
    """Saved elsewhere and merged, because a save refuses them."""
    for number, one in enumerate((benchmark(DDP, 0.1), with_batch(4, 0.2), with_batch(8, 0.3), with_batch(8, 0.4)), 1):
        write(tmp_path, f"{number:04}_night.json", output(one))
    recorded = read_history(tmp_path, HERE)[DDP]
    assert recorded.launch_medians_s == [[0.3], [0.4]]
    assert recorded.files == ["0003_night.json", "0004_night.json"]
    assert recorded.left_out == ["0001_night.json", "0002_night.json"]


def test_a_test_of_another_workload_is_not_saved_and_the_others_are(tmp_path: Path) -> None:
    save(tmp_path, with_batch(4, 0.1))
    saving = storage(tmp_path)
    saving.save(output(with_batch(8, 0.1), benchmark(BF16, 0.05)), "night")
    assert [file.name for file in saving.written] == ["0002_night.json"]
    assert medians(read_history(tmp_path, HERE)) == {DDP: [[0.1]], BF16: [[0.05]]}
    (line,) = saving.unwritten
    assert line.startswith(
        f"{DDP} on {HERE}: the records have another workload under this name: batch 4 in the records"
    )


def test_without_a_folder_or_a_benchmark_of_ours_there_is_no_history(tmp_path: Path) -> None:
    assert save(tmp_path, {"fullname": "tests/test_other.py::test_sort", "extra_info": {}}) == []
    assert list(tmp_path.iterdir()) == []
    assert read_history(tmp_path, HERE) == {}


def test_each_instance_gets_a_file_of_its_own(tmp_path: Path) -> None:
    here, there = save(tmp_path, benchmark(DDP, 0.1), benchmark(DDP, 0.6, instance=ELSEWHERE))
    assert [here, there] == [tmp_path / HERE / "0001_night.json", tmp_path / ELSEWHERE / "0001_night.json"]
    assert medians(read_history(tmp_path, ELSEWHERE)) == {DDP: [[0.6]]}
    assert json.loads(there.read_text())["machine_info"] == {"instance": ELSEWHERE}
    there.write_text("torn")
    assert list(read_history(tmp_path, HERE)) == [DDP]


def test_numbers_go_on_from_the_greatest_with_five_digits_after_9999(tmp_path: Path) -> None:
    write(tmp_path, "0001_first.json", "")
    write(tmp_path, "0007_seventh.json", "")
    assert [file.name for file in save(tmp_path, benchmark(DDP, 0.1))] == ["0008_night.json"]
    assert [file.name for file in save(tmp_path, benchmark(DDP, 0.1), name="later")] == ["0009_later.json"]
    for file in (tmp_path / HERE).iterdir():
        file.unlink()
    write(tmp_path, "9998_night.json", output(benchmark(DDP, 0.1)))
    saved = [file.name for time_s in (0.2, 0.3, 0.4) for file in save(tmp_path, benchmark(DDP, time_s))]
    assert saved == ["9999_night.json", "10000_night.json", "10001_night.json"]
    assert medians(read_history(tmp_path, HERE)) == {DDP: [[0.1], [0.2], [0.3], [0.4]]}


def test_a_storage_without_hard_links_takes_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert len(save(tmp_path, benchmark(DDP, 0.1))) == 1


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_saving_leaves_nothing_but_the_record_with_the_mode_of_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        (file,) = save(tmp_path, benchmark(DDP, 0.1))
    finally:
        os.umask(before)
    assert list(file.parent.iterdir()) == [file]
    assert file.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize(
    ("refuse", "failed", "kept"),
    [(False, {DDP}, {BF16: [[0.05]]}), (False, {DDP, BF16}, {}), (True, set(), {})],
    ids=["one failed", "all failed", "may not be kept"],
)
def test_a_failed_test_is_not_saved_nor_a_run_that_may_not_be_kept(
    tmp_path: Path, refuse: bool, failed: set[str], kept: dict[str, list[list[float]]]
) -> None:
    saving = storage(tmp_path)
    saving.failed |= failed
    saving.refuse = refuse
    saving.save(output(benchmark(DDP, 0.2), benchmark(BF16, 0.05)), "night")
    assert medians(read_history(tmp_path, HERE)) == kept
    assert len(saving.written) == len(list(tmp_path.iterdir())) == bool(kept)


def test_what_cannot_be_written_is_kept_in_mind_and_costs_no_other_instance_its_file(tmp_path: Path) -> None:
    (tmp_path / HERE).touch()
    saving = storage(tmp_path)
    saving.save(output(benchmark(DDP, 0.1), benchmark(DDP, 0.6, instance=ELSEWHERE)), "night")
    assert saving.unwritten == [f"the baseline of {HERE} in {tmp_path / HERE}: File exists"]
    assert saving.written == [tmp_path / ELSEWHERE / "0001_night.json"]


RECORD = output(benchmark(DDP, 0.1))
DAMAGED = "cannot be read: incomplete or damaged JSON ("
EXPECTED = f"{DDP}: Expected "


def with_medians(*values: object) -> Record:
    return output({"fullname": DDP, "extra_info": {"workload": "vit_l_32", "launch_medians_s": list(values)}})


def with_info(**info: object) -> Record:
    known = benchmark(DDP, 0.1)
    return output({**known, "extra_info": {**known["extra_info"], **info}})


def with_(**top: object) -> Record:
    return {**RECORD, **top}


NO_SCHEMA = "is not a record of ddp-perf: it has no schema"
# id -> record and complaint
UNUSABLE: Mapping[str, tuple[object, str]] = {
    "empty": ("", "cannot be read: incomplete or damaged JSON (Expecting value"),
    "merge conflict": ("<<<<<<< HEAD\n{}", "cannot be read: incomplete or damaged JSON (Expecting value"),
    "binary": ("\x00\x01\x02", "cannot be read: incomplete or damaged JSON"),
    "nested too deep": ("[" * 100_000, "cannot be read: incomplete or damaged JSON"),
    "list": ([RECORD], NO_SCHEMA),
    "foreign": ({"benchmarks": RECORD["benchmarks"]}, NO_SCHEMA),
    "schema is text": (with_(schema="1"), NO_SCHEMA),
    "schema is true": (with_(schema=True), NO_SCHEMA),
    "schema -5": (with_(schema=-5), "has schema -5, this version of ddp-perf reads 1"),
    "future": (with_(schema=99), "has schema 99, this version of ddp-perf reads 1"),
    "another instance": (with_(instance=ELSEWHERE), f"is of instance '{ELSEWHERE}', not '{HERE}'"),
    "environment": (with_(environment=[]), "Expected `object`, got `array` - at `$.environment`"),
    "variables": (
        with_(environment={"variables": "none"}),
        "Expected `object | null`, got `str` - at `$.environment.variables`",
    ),
    "no benchmarks": (with_(benchmarks=[]), "has no benchmarks"),
    "benchmarks is no list": (with_(benchmarks={}), "has no benchmarks"),
    "benchmark is null": (with_(benchmarks=[None]), "benchmark 0: Expected `object`, got `null`"),
    "twice": (with_(benchmarks=RECORD["benchmarks"] * 2), f"has {DDP} twice"),
    "no times": (
        with_(benchmarks=[benchmark(DDP, 0.1), {"fullname": BF16, "extra_info": {}}]),
        f"{BF16}: Object missing required field `",
    ),
    "no workload": (
        with_(benchmarks=[{"fullname": DDP, "extra_info": {"launch_medians_s": [0.1]}}]),
        f"{DDP}: Object missing required field `workload` - at `$.extra_info`",
    ),
    "name is no text": (
        with_(benchmarks=[benchmark(DDP, 0.1) | {"fullname": [DDP]}]),
        f"{[DDP]}: Expected `str`, got `array` - at `$.fullname`",
    ),
    "name is too long": (
        with_(benchmarks=[benchmark(DDP, 0.1) | {"fullname": "x" * 5000}]),
        f"{'x' * 100} ... (4800 characters) ... {'x' * 100}: Expected `str` of length <= 1000 - at `$.fullname`",
    ),
    "steps are no list": (
        with_(benchmarks=[benchmark(DDP, 0.1) | {"stats": {"data": 0.5}}]),
        f"{DDP}: Expected `array | null`, got `float` - at `$.stats.data`",
    ),
    "no launch": (with_medians(), EXPECTED + "`array` of length >= 1 - at `$.extra_info.launch_medians_s`"),
    "nan": (
        with_medians(0.1, float("nan")),
        DAMAGED + "the number NaN is beyond 1e+30)",
    ),
    "infinite": (
        with_medians(float("inf")),
        DAMAGED + "the number Infinity is beyond 1e+30)",
    ),
    "negative": (with_medians(-0.1), EXPECTED + "`float` >= 1e-12 - at `$.extra_info.launch_medians_s[0]`"),
    "zero": (with_medians(0), EXPECTED + "`float` >= 1e-12"),
    "too large for a float": (with_medians(10**400), "cannot be read: incomplete or damaged JSON (the number 1000"),
    "text": (with_medians("0.1"), EXPECTED + "`float`, got `str`"),
    "bool": (with_medians(True), EXPECTED + "`float`, got `bool`"),
    "no rate": (with_info(steps_per_s=None), f"{DDP}: has no steps_per_s"),
    "interconnect": (
        with_info(interconnect=["shm"]),
        EXPECTED + "`str | null`, got `array` - at `$.extra_info.interconnect`",
    ),
    "no interconnect": (with_info(interconnect={}), EXPECTED + "`str | null`, got `object`"),
    "phases": (with_info(phases_ms=[1.0]), EXPECTED + "`object | null`, got `array`"),
    "hook": (with_info(hook=5), EXPECTED + "`str | null`, got `int`"),
} | {
    f"{name} is too long": (
        with_info(**{name: "x" * 5000}),
        f"{DDP}: Expected `str` of length <= 1000 - at `$.extra_info.{name}`",
    )
    for name in ("instance", "workload", "config", "hook")
}


@pytest.mark.parametrize(("record", "complaint"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_record_that_cannot_be_used_is_named_with_what_is_wrong(
    tmp_path: Path, record: object, complaint: str
) -> None:
    file = write(tmp_path, "0001_night.json", record)
    assert wrong(tmp_path).startswith(f"{file}: {complaint}")


@pytest.mark.parametrize("name", ["night.json", "1_night.json", "00001_night.json", "0001.json", "copy of 0001_x.json"])
def test_a_file_of_another_name_is_not_left_out(tmp_path: Path, name: str) -> None:
    file = write(tmp_path, name, RECORD)
    assert wrong(tmp_path) == f"{file}: its name is not NNNN_name.json"


def test_what_is_no_file_in_the_folder_of_an_instance_is_named(tmp_path: Path) -> None:
    folder = tmp_path / HERE
    (folder / "0001_night.json").mkdir(parents=True)
    assert wrong(tmp_path).startswith(f"{folder / '0001_night.json'}: cannot be read")
    (folder / "0001_night.json").rmdir()
    os.mkfifo(folder / "0001_night.json")
    assert wrong(tmp_path) == f"{folder / '0001_night.json'}: is not a regular file"
    (folder / "0001_night.json").rename(tmp_path / "0001_night.json")
    assert wrong(tmp_path) == f"{tmp_path / '0001_night.json'}: is not in the folder of an instance"


@pytest.mark.parametrize("broken", ["a file", "a link to itself", "a link to nothing"])
def test_a_folder_that_cannot_be_read_is_no_empty_history(tmp_path: Path, broken: str) -> None:
    folder = tmp_path / HERE
    if broken == "a file":
        folder.touch()
    else:
        folder.symlink_to(folder if "itself" in broken else tmp_path / "nothing")
    assert wrong(tmp_path).startswith(f"{folder}: cannot be read: ")


def test_every_bad_file_is_named_at_once(tmp_path: Path) -> None:
    bad = [write(tmp_path, "0001_a.json", ""), write(tmp_path, "0003_c.json", {**RECORD, "schema": 2})]
    write(tmp_path, "0002_b.json", RECORD)
    assert [line.partition(": ")[0] for line in wrong(tmp_path).splitlines()] == [str(file) for file in bad]


@given(st.data())
def test_a_record_cut_off_anywhere_is_reported(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        (file,) = save(Path(folder), benchmark(DDP, 0.1, 0.2), benchmark(BF16, 0.05))
        whole = file.read_bytes()
        file.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
        assert wrong(Path(folder)).startswith(f"{file}: cannot be read: incomplete or damaged JSON ")


@pytest.mark.parametrize(
    ("world", "backend", "transport", "kind"),
    [
        ("8gpu", "nccl", {"P2P/CUMEM": 48}, Kind(on_gpu=True)),
        ("16gpu_2node", "nccl", {"P2P/CUMEM": 48, "NET/IB": 2}, Kind(on_gpu=True, through_host=True)),
        ("2gpu", "nccl", {"SHM/direct/direct": 8}, Kind(on_gpu=True, through_host=True)),
        ("1gpu", "nccl", {}, Kind(on_gpu=True)),
        ("2cpu", "gloo", {}, Kind(on_gpu=False)),
    ],
)
def test_the_kind_of_a_test_is_what_ran_and_not_its_name(
    world: str, backend: str, transport: dict[str, int], kind: Kind
) -> None:
    recorded = Recorded(workload="vit_l_32")
    info = {"world": world, "backend": backend, "transport": transport, "launch_medians_s": [0.1]}
    recorded.add("0001_a.json", snapshot({"workload": "vit_l_32", **info}, {}), {})
    assert recorded.kind == kind


# No name of an instance and no link leads out of the storage: on reading and saving


RACK = "rack-7"
TEST = "perf/test_throughput.py::test_throughput[vit_tiny-2cpu-ddp]"
# Names that are no folder's name, and names that begin as a good one and lead elsewhere.
HOSTILE = {
    "empty": "",
    "dot": ".",
    "parent": "..",
    "below a parent": "../elsewhere",
    "far below a parent": "../../../../elsewhere",
    "through a good name": f"{RACK}/../../elsewhere",
    "absolute": "/elsewhere",
    "below the storage": f"{RACK}/more",
    "hidden": ".rack",
    "NUL": f"{RACK}\0",
    "line end": f"{RACK}\n",
    "option": "-rf",
    "backslashes": "..\\elsewhere",
    "drive": "C:elsewhere",
    "long": "x" * 201,
    "other letters": "räck",
}


@pytest.fixture
def deep_storage(tmp_path: Path) -> Path:
    """Deep enough that what leads out of it stays inside tmp_path."""
    folder = tmp_path / "1" / "2" / "3" / "baselines"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def linked(deep_storage: Path, tmp_path: Path) -> Path:
    """A storage in which the folder of RACK is a link to a folder outside."""
    (tmp_path / "elsewhere").mkdir()
    (deep_storage / RACK).symlink_to(tmp_path / "elsewhere")
    return deep_storage


def files_in(folder: Path) -> list[str]:
    return sorted(os.path.relpath(file, folder) for file in folder.rglob("*") if file.is_file())


def record(instance: str) -> Record:
    return {"schema": SCHEMA, "benchmarks": [benchmark(TEST, 0.1, instance=instance)]}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_record_of_no_instance_is_not_read_or_saved_and_costs_the_others_nothing(
    deep_storage: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(BadBaseline, match=r"instance '.*: a name has letters"):
        read_history(deep_storage, name)
    saving = BaselineStorage(str(deep_storage), logger=None, default_machine_id=RACK)
    saving.save({"schema": SCHEMA, "benchmarks": [record(one)["benchmarks"][0] for one in (name, RACK)]}, "night")
    assert files_in(tmp_path) == [f"1/2/3/baselines/{RACK}/0001_night.json"]
    (unwritten,) = saving.unwritten
    assert unwritten.startswith("the baseline of instance '")


def test_no_link_out_of_the_storage_is_followed(linked: Path, tmp_path: Path) -> None:
    outside = f"is a link to {tmp_path / 'elsewhere'}, outside the storage: replace the link by a folder"
    saving = BaselineStorage(str(linked), logger=None, default_machine_id=RACK)
    saving.save(record(RACK), "night")
    assert files_in(tmp_path) == []
    (unwritten,) = saving.unwritten
    assert outside in unwritten
    (tmp_path / "elsewhere" / "0001_night.json").write_text(json.dumps(record(RACK)))
    with pytest.raises(BadBaseline, match="outside the storage: replace the link by a folder"):
        read_history(linked, RACK)


def test_a_link_to_a_folder_of_the_storage_and_one_to_the_whole_storage_are_followed(
    deep_storage: Path, tmp_path: Path
) -> None:
    (deep_storage / "rack-8").mkdir()
    (deep_storage / RACK).symlink_to("rack-8")
    (tmp_path / "link").symlink_to(deep_storage)
    assert folder_of(deep_storage, RACK) == deep_storage / RACK
    assert folder_of(tmp_path / "link", "rack-8") == tmp_path / "link" / "rack-8"


@pytest.mark.parametrize("link", [".", "..", "rack-8/more"], ids=["storage", "parent", "below"])
def test_a_link_to_anything_else_is_not(deep_storage: Path, link: str) -> None:
    (deep_storage / RACK).symlink_to(link)
    with pytest.raises(BadInstance):
        folder_of(deep_storage, RACK)


@pytest.mark.parametrize("other", [None, 7, ["rack-7"], b"rack-7", "a\nb" * 1000], ids=str)
def test_only_text_is_a_name_and_the_message_is_one_short_line(other: object) -> None:
    with pytest.raises(BadInstance) as raised:
        checked(other)
    assert len(str(raised.value)) < 250
    assert "\n" not in str(raised.value)


# A slower host: in every look, against the records of one test, and for tests that it limits


# What a thousand launches took on the slowest ranks of three sets of four H200s, before and after a run, in ms.
MEASURED = [6.84, 5.13, 6.88, 6.99, 5.34, 7.14]
HOST_RECORD: dict[str, LaunchTimes] = {"4gpu": {HOST: MEASURED}}


def looks(*slower_percent: float) -> CanaryTimes:
    """Before the first test, and after the last."""
    found = [{HOST: [t * (1 + percent / 100) for t in MEASURED[:3]]} for percent in slower_percent]
    return CanaryTimes(world="4gpu", before_s=found[0], after_s=found[1])


def change(now: CanaryTimes, *records: dict[str, LaunchTimes]) -> Verdict | None:
    return host_change(now.measurements, records, world=now.world, min_slowdown_percent=1)


@pytest.mark.parametrize(("records", "percent"), [(1, 40), (3, 35)])
def test_a_host_that_is_slower_all_the_time_is_found_though_its_processes_lie_apart(
    records: int, percent: float
) -> None:
    verdict = known(change(looks(percent, percent + 5), *[HOST_RECORD] * records))
    assert verdict.word == "slower"
    assert verdict.change_percent == pytest.approx(percent, abs=3)
    assert explained_by_host(47.4, verdict) == verdict.change_percent
    assert explained_by_host(18.7, verdict) == 18.7


@pytest.mark.parametrize("slow", [(40, 0), (0, 40), (40, 3)])
def test_one_look_that_is_not_slower_is_enough(slow: tuple[float, ...]) -> None:
    """Before the first look no code under test has run, and a burst is over by the last."""
    verdict = known(change(looks(*slow), HOST_RECORD))
    assert verdict.word in ("ok", "unclear")
    assert explained_by_host(40, verdict) == 0


def test_looks_that_there_are_not_do_not_count() -> None:
    now = looks(50, 50)
    now.after_s = {}
    assert known(change(now, HOST_RECORD)).word == "slower"


@pytest.mark.parametrize("lacks", [{}, {"4gpu": {"copy": [1.0]}}, {"2gpu": {HOST: [1.0]}}])
def test_every_record_of_the_test_must_have_timed_the_host(lacks: dict[str, LaunchTimes]) -> None:
    assert change(looks(50, 50), HOST_RECORD, lacks) is None
    assert change(CanaryTimes(world="4gpu", before_s={"copy": [1.0]}), HOST_RECORD) is None
    assert explained_by_host(50, None) == 0


@pytest.mark.parametrize(("lead_ms", "limited"), [(0.05, True), (9, True), (11, False), (33.5, False), (None, False)])
def test_a_record_says_whether_the_without_lead_its_test(lead_ms: float | None, limited: bool) -> None:
    record = TestRecord(workload="vit_l_32", launch_medians_s=[0.1], steps_per_s=10)
    assert not had_no_lead(record)
    assert had_no_lead(replace(record, host_lead_ms=lead_ms)) is (None if lead_ms is None else limited)
