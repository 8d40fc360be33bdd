"""The bandwidth curve: its arithmetic, the links' limit, and bare all-reduces live over gloo."""

import json
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.explain.nvlink import limit_gb_per_s
from fixtures.judge.all_reduces import AllReduceLaunch, AllReduces
from fixtures.matrix.collectives import ALL_REDUCES, all_reduces_for
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import World
from fixtures.ranks.rank_sets import RankSets
from tests.command_line import QUICK, Outcome, pytest_perf


def all_reduces(ranks: int, *launches_s: tuple[float, ...], limit_gb_per_s: float | None = None) -> AllReduces:
    return AllReduces(
        collective=ALL_REDUCES["all_reduce_1gb"],
        world=World(backend="nccl", size=ranks),
        interconnect=INTERCONNECTS["native"],
        launches=tuple(AllReduceLaunch(step_s=steps, transport=Counter()) for steps in launches_s),
        limit_gb_per_s=limit_gb_per_s,
    )


def test_eight_ranks_send_seven_quarters_of_the_bytes() -> None:
    measured = all_reduces(8, (0.004,), limit_gb_per_s=450)
    assert measured.algorithm_gb_per_s == pytest.approx(268.435456)  # 2^30 B in 4 ms
    assert measured.bus_gb_per_s == pytest.approx(469.762048)
    assert measured.of_limit_percent == pytest.approx(104.39156)


def test_the_time_is_the_geometric_mean_of_the_launches_medians() -> None:
    assert all_reduces(2, (0.001, 0.002, 9), (0.008,)).seconds_per_step == pytest.approx(0.004)


@given(ranks=st.integers(2, 64), seconds=st.floats(1e-6, 10))
def test_the_bus_carries_between_once_and_twice_what_the_algorithm_does(ranks: int, seconds: float) -> None:
    measured = all_reduces(ranks, (seconds,))
    assert 1 <= measured.bus_gb_per_s / measured.algorithm_gb_per_s * (1 + 1e-12) < 2


@pytest.mark.parametrize(
    ("link", "version", "limit"),
    [
        ("nv18", 6, 450),  # H100, H200: 900 GB/s in both directions
        ("nv12", 5, 300),  # A100: 600, NVLink 3.1
        ("nv18", 7, 900),  # B200: 1800
        ("nv4", 1, 80),  # P100: 160
        ("nv18", 99, None),
        ("nv18", None, None),
        ("sys", 6, None),
        (None, 6, None),
    ],
)
def test_the_limit_is_the_version_times_the_links(link: str | None, version: int | None, limit: float | None) -> None:
    assert limit_gb_per_s(link, version) == limit


def test_the_curve_goes_from_64_kb_to_2_gb_on_gpus_and_to_less_on_the_cpu() -> None:
    sizes = [ALL_REDUCES[name].bytes for name in all_reduces_for("nccl")]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (64 * 1024, 2 * 1024**3)
    assert ALL_REDUCES[all_reduces_for("gloo")[-1]].bytes == 16 * 1024**2


def test_a_launch_times_each_all_reduce(two_ranks: RankSets) -> None:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    arguments = {"collective": "all_reduce_4mb", "steps": 7, "warmup": 2}
    world = World(backend="gloo", size=2)
    answers = ranks.run(world, "fixtures.ranks.bandwidth:all_reduce", arguments, doing="all-reduce")
    assert [len(answer["step_s"]) for answer in answers] == [7, 7]
    assert min(time for answer in answers for time in answer["step_s"]) > 4e6 / 100e9  # no memory is that fast


# As a user runs it

ONE = ("perf/test_collectives.py", "-k", "all_reduce_1mb or all_reduce_4mb", *QUICK)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """The folder of the baselines, and the run that saved one."""
    storage = tmp_path_factory.mktemp("baselines")
    grouped = "--benchmark-group-by=param:config,param:collective"
    return storage, pytest_perf(storage, *ONE, "--benchmark-save=first", f"--junitxml={storage / 'junit.xml'}", grouped)


def infos(storage: Path) -> list[dict[str, Any]]:
    (file,) = storage.rglob("*.json")
    return [benchmark["extra_info"] for benchmark in json.loads(file.read_text())["benchmarks"]]


def test_both_bandwidths_are_in_the_record(saved: tuple[Path, Outcome]) -> None:
    assert saved[1].exit_code == 0, saved[1].output
    found = infos(saved[0])
    assert [info["message_bytes"] for info in found] == [2**20, 2**22]
    for info in found:
        assert info["algorithm_gb_per_s"] == pytest.approx(info["message_bytes"] / info["all_reduce_s"] / 1e9)
        assert info["bus_gb_per_s"] == info["algorithm_gb_per_s"]  # of two ranks


def test_junit_has_the_bandwidths_and_the_verdict(saved: tuple[Path, Outcome]) -> None:
    for case in ElementTree.parse(saved[0] / "junit.xml").iter("testcase"):
        numbers = {one.get("name"): one.get("value") for one in case.iter("property")}
        assert numbers["verdict"] == "no baseline"
        assert float(numbers["bus_gb_per_s"] or 0) > 0


def test_the_curve_is_a_table_at_the_end(saved: tuple[Path, Outcome]) -> None:
    _, found, below = saved[1].output.partition("bare all-reduces on 2cpu, float32\n")
    assert found
    assert [line.split()[0] for line in below.splitlines()[3:5]] == ["all_reduce_1mb", "all_reduce_4mb"]


def test_a_slower_all_reduce_fails_with_one_line(saved: tuple[Path, Outcome], tmp_path: Path) -> None:
    (file,) = saved[0].rglob("*.json")
    record = json.loads(file.read_text())
    for benchmark in record["benchmarks"]:  # as on a machine with a link a thousand times as fast
        benchmark["extra_info"]["launch_medians_s"] = [t / 1000 for t in benchmark["extra_info"]["launch_medians_s"]]
    record["environment"]["torch"] = "2.0"
    (tmp_path / file.parent.name).mkdir()
    (tmp_path / file.parent.name / file.name).write_text(json.dumps(record))
    outcome = pytest_perf(tmp_path, *ONE)
    assert outcome.exit_code == 1, outcome.output
    assert outcome.output.count("ms an all-reduce, ") >= 2
    assert "torch 2.0 -> " in outcome.output


def test_grouping_by_a_parameter_that_a_test_has_not_leaves_it_empty(saved: tuple[Path, Outcome]) -> None:
    for size in ("1mb", "4mb"):
        assert f" benchmark 'config= collective=all_reduce_{size}': 1 tests " in saved[1].output


@pytest.fixture(scope="module")
def unsaved(saved: tuple[Path, Outcome], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """The folder of a baseline with a test that has another name today, and a run that cannot write a further one,
    nor its JSON."""
    storage = tmp_path_factory.mktemp("unsaved")
    (file,) = saved[0].rglob("*.json")
    (storage / file.parent.name).mkdir()
    (storage / file.parent.name / file.name).write_text(file.read_text().replace("all_reduce_4mb", "all_reduce_5mb"))
    chosen = ("perf/test_collectives.py", "-k", "1mb or 5mb", *QUICK, "--min-slowdown=1e6")
    places = (f"--benchmark-save={'too long' * 32}", "--benchmark-json=/dev/full")
    return storage, pytest_perf(storage, *chosen, *places)


def test_what_the_baseline_has_and_was_not_measured_is_missed(unsaved: tuple[Path, Outcome]) -> None:
    assert "test_collectives[2cpu-all_reduce_5mb]" in unsaved[1].output.partition("selected, but not measured")[2]


def test_a_baseline_that_cannot_be_written_costs_the_exit_code_and_not_the_table(unsaved: tuple[Path, Outcome]) -> None:
    storage, outcome = unsaved
    ((instance, file),) = ((file.parent, file) for file in storage.rglob("*") if file.is_file())
    assert (outcome.exit_code, file.name) == (pytest.ExitCode.TESTS_FAILED, "0001_first.json")
    assert "bare all-reduces on 2cpu, float32\n" in outcome.output
    assert f"\nERROR: not saved: the baseline of {instance.name} in {instance}: File name too long\n" in outcome.output
    assert "\nERROR: not saved: /dev/full: No space left on device\n" in outcome.output
    assert "Traceback" not in outcome.output + outcome.errors
