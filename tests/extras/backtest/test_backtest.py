"""Backtest: every record judged by the others, planted slowdowns, and the output."""

import json
import shutil
from pathlib import Path

import pytest

from fixtures.extras.backtest.command import Backtest, Rule, backtest, backtest_lines, summary
from tests.command_line import command_here, refused

BASELINES = Path(__file__).parents[3] / "baselines"
NVLINK, FOUR = "2x-nvidia-h200-nv18", "4x-nvidia-h200-nv18"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Backtest]:
    """Of the four records of each kind of 2026-11-22. With later ones, 93 % of quiet tests are found."""
    storage = tmp_path_factory.mktemp("storage") / "baselines"
    shutil.copytree(BASELINES, storage, ignore=shutil.ignore_patterns("*_w6*"))
    return {name: backtest(storage, name, Rule(plant_percent=2)) for name in (NVLINK, FOUR)}


def test_each_record_is_judged_by_all_the_others_and_what_the_host_limits_is_summed_up_apart(
    planted: dict[str, Backtest],
) -> None:
    """Seven of PowerSGD: their records come from hosts of different speeds, so they alone are blunt."""
    result = planted[NVLINK]
    assert [(replay.file[:4], [name[:4] for name in replay.against]) for replay in result.replays] == [
        ("0001", ["0002", "0003", "0004"]),
        ("0002", ["0001", "0003", "0004"]),
        ("0003", ["0001", "0002", "0004"]),
        ("0004", ["0001", "0002", "0003"]),
    ]
    assert {test.verdict.history for replay in result.replays for test in replay.tests} == {3}
    free, limited = (summary(result)[key] for key in ("with_lead", "without_lead"))
    assert (free["tests"], limited["tests"]) == (25, 7)
    assert free["threshold_three_quarters_percent"] <= 2 < limited["threshold_median_percent"]
    assert "25 tests that the host does not limit: median 1.3 %" in " ".join(backtest_lines(result))


def test_the_records_of_one_day_meet_the_targets_over_nvlink(planted: dict[str, Backtest]) -> None:
    """Three records: 1.6 % in half of the tests, 2 % found in 94 of 100 quiet tests, nothing slower or faster."""
    both = [summary(result) for result in planted.values()]
    assert all(totals["threshold_median_percent"] <= 1.6 for totals in both)
    found, quiet = map(sum, zip(*(totals["planted_found"]["one_quiet_test"] for totals in both), strict=True))
    assert found >= 0.94 * quiet
    assert [totals["planted_found"]["all_tests"] for totals in both] == [(4, 4), (4, 4)]
    for totals in both:
        assert not {"slower", "faster"} & {*totals["words"], *totals["shift_words"]}


def test_a_record_with_a_slower_test_is_called_so(tmp_path: Path) -> None:
    shutil.copytree(BASELINES, tmp_path / "baselines")
    file = tmp_path / "baselines" / NVLINK / "0004_vit.json"
    record = json.loads(file.read_text())
    test = "perf/test_throughput.py::test_throughput[vit_l_32-2gpu-ddp_default]"
    (info,) = (b["extra_info"] for b in record["benchmarks"] if b["fullname"] == test)
    info["launch_medians_s"] = [t * 1.02 for t in info["launch_medians_s"]]
    file.write_text(json.dumps(record))
    outcome = command_here("backtest", NVLINK, f"--storage={tmp_path / 'baselines'}", "--json").exits(1)
    (instance,) = json.loads(outcome.output)["instances"]
    (replay,) = (replay for replay in instance["replays"] if replay["file"] == "0004_vit.json")
    (slower,) = (test for test in replay["tests"] if test["verdict"]["word"] == "slower")
    assert slower["test"] == test
    assert slower["verdict"]["change_percent"] == pytest.approx(2, abs=0.1)


def test_the_record_that_is_judged_has_no_influence_on_its_thresholds(tmp_path: Path) -> None:
    """Four tests, so that the changes of the others do not count."""
    shutil.copytree(BASELINES, tmp_path / "baselines")

    def last(factor: float) -> dict[str, float | None]:
        for file in (tmp_path / "baselines" / NVLINK).iterdir():
            record = json.loads(file.read_text())
            record["benchmarks"] = record["benchmarks"][:4]
            for benchmark in record["benchmarks"] if file.name.startswith("0004") else ():
                info = benchmark["extra_info"]
                info["launch_medians_s"] = [t * factor for t in info["launch_medians_s"]]
            file.write_text(json.dumps(record))
        replay = backtest(tmp_path / "baselines", NVLINK, Rule()).replays[3]
        return {test.test: test.verdict.threshold_percent for test in replay.tests}

    before, after = last(1), last(1.5)
    assert len(before) == 4
    assert before == pytest.approx(after)


def test_where_no_record_knows_the_host_there_is_one_summary() -> None:
    result = backtest(BASELINES, "8x-nvidia-h200-nv18", Rule())
    assert summary(result)["without_lead"] == {}
    assert "host" not in " ".join(backtest_lines(result))


def test_one_record_alone_is_too_few_and_an_unreadable_one_is_named(tmp_path: Path) -> None:
    (tmp_path / NVLINK).mkdir()
    shutil.copy(BASELINES / NVLINK / "0001_vit.json", tmp_path / NVLINK)
    outcome = command_here("backtest", f"--storage={tmp_path}")
    assert (outcome.exit_code, outcome.output) == (0, f"{NVLINK}: 1 record, too few to judge one against the others\n")
    (tmp_path / NVLINK / "0002_torn.json").write_text("{")
    assert "0002_torn.json: " in refused("backtest", f"--storage={tmp_path}")


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("9x-unknown", "no instance named '9x-unknown' in "),
        ("--plant=0", "--plant must be over 0, got 0"),
        ("--records=0", "--records must be over 0, got 0"),
        ("--false-alarms=100", "--false-alarms must be between 0 and 100, got 100"),
        ("--storage=/nowhere", "there are no baselines in /nowhere"),
    ],
)
def test_a_wrong_option_is_named(argument: str, said: str) -> None:
    assert said in refused("backtest", argument)
