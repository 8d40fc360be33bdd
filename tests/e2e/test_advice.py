"""Advice and its predictions: by hand, by properties, against DDP's own buckets, and as a user sees them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import QUICK, Outcome, pytest_perf
from tests.e2e.injected import INJECT

# As a user sees it

FILES = ("perf/test_throughput.py", "perf/test_collectives.py")
WIDE = ("--workload=tests.e2e.injected:wide", "--workload=tests.e2e.injected:late")
ASKED = "1mb or 16mb or (wide and (ddp] or ddp_default] or bf16] or no_comm])) or (late and (ddp] or no_comm]))"


def perf(storage: Path, *arguments: str) -> Outcome:
    return pytest_perf(storage, *arguments, *QUICK, "--explain=all", variables={INJECT: "1"})


@pytest.fixture(scope="module")
def advised(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """64 MB of gradients in a step that does little else, and a step in which rank 1 is late, with all-reduces."""
    storage = tmp_path_factory.mktemp("baselines")
    return storage, perf(storage, *FILES, *WIDE, "-k", ASKED, "--benchmark-save=first")


def info_of(storage: Path, test: str) -> dict[str, Any]:
    (file,) = storage.rglob("*.json")
    infos = {one["name"]: one["extra_info"] for one in json.loads(file.read_text())["benchmarks"]}
    info: dict[str, Any] = infos[test]
    return info


def gains(storage: Path, config: str, now: str) -> bool:
    """Whether the first record has a step of this config that is shorter by more than 1 %."""
    one, other = (info_of(storage, f"test_throughput[wide-2cpu-{name}]")["steps_per_s"] for name in (config, now))
    return bool(1 - other / one > 0.01)


@pytest.mark.parametrize("now", ["ddp", "ddp_default"])
def test_compression_is_advised_where_it_was_measured_to_gain(advised: tuple[Path, Outcome], now: str) -> None:
    _, found, below = advised[1].output.partition(f"advice for {now} of wide on 2cpu, ")
    assert found, advised[1].output
    heading, _, below = below.partition(":\n")
    assert heading.endswith(", from the all-reduces of this run")
    line = r" bfloat16 compression( and larger buckets)? \(bf16\): [^;]* measured \(predicted [\d.]+\); "
    line += r"gradient error \de-03 "
    below = f" {' '.join(below.partition('advice for ')[0].split())} "
    assert ("bfloat16 compression" in below) >= gains(advised[0], "bf16", now)
    assert ("(bf16)" in below) <= gains(advised[0], "bf16", now)
    assert ("(bf16)" in below) == bool(re.search(line, below))


def test_the_record_has_the_prediction_beside_the_measurement(advised: tuple[Path, Outcome]) -> None:
    ddp = info_of(advised[0], "test_throughput[wide-2cpu-ddp]")
    measured_ = {
        name: 1e3 / info_of(advised[0], f"test_throughput[wide-2cpu-{name}]")["steps_per_s"]
        for name in ("ddp_default", "bf16")
    }
    checked = [one for one in ddp["advice"] if one["config"] in measured_]
    assert bool(checked) == any(gains(advised[0], name, "ddp") for name in measured_)
    for one in checked:
        assert one["measured_ms"] == one["expected_ms"] == pytest.approx(measured_[one["config"]])
        off = one["predicted_ms"] / one["measured_ms"] - 1
        assert one["prediction_error_percent"] == pytest.approx(100 * off)


def test_the_three_ways_stand_in_the_record_and_side_by_side(advised: tuple[Path, Outcome]) -> None:
    info = info_of(advised[0], "test_throughput[wide-2cpu-ddp]")
    ways = info["exposed_communication_ms"]
    assert list(ways) == ["profiler", "no_sync", "no_comm"]
    apart_ms = max(ways.values()) - min(ways.values())
    assert info["exposed_communication_disagreement_percent"] == pytest.approx(
        100 * apart_ms / max(map(abs, ways.values()))
    )
    _, _, below = advised[1].output.partition("what communication costs a step of wide on 2cpu")
    (row,) = [line for line in below.splitlines()[:8] if line.startswith("ddp ")]
    assert f"{ways['no_sync']:.2f} " in row
    assert f"{ways['no_comm']:.2f} " in row


def test_the_parts_stand_in_the_table_and_add_up(advised: tuple[Path, Outcome]) -> None:
    _, _, below = advised[1].output.partition("what communication costs a step of late on 2cpu, in ms\n")
    names, parts, _, *rows = below.splitlines()
    assert names.split() == [*("config", "no_sync", "no_comm", "exposed", "exposed", "slowed", "rest", "sum")], names
    assert parts.split() == ["transfer", "copies", "compute"]
    (row,) = [line for line in rows[:2] if line.startswith("ddp ")]
    *_, transfer, copies, slowed, rest, all_ = row.split()
    assert float(transfer) + float(copies) + float(slowed) + float(rest) == pytest.approx(float(all_), abs=0.03)


def test_buckets_of_many_tests_are_not_listed_but_it_is_said_how_to_see_them(advised: tuple[Path, Outcome]) -> None:
    assert "each collective of a step with its bucket: run one test alone" in advised[1].output
    assert "the collectives of a step of" not in advised[1].output
    assert info_of(advised[0], "test_throughput[wide-2cpu-ddp]")["ledger"]["one_to_one"]


def test_the_record_has_the_parts_over_no_comm_which_add_up_to_the_step(advised: tuple[Path, Outcome]) -> None:
    ddp, no_comm = (info_of(advised[0], f"test_throughput[late-2cpu-{config}]") for config in ("ddp", "no_comm"))
    cost = ddp["cost_of_communication"]
    assert cost["config"] == "no_comm"
    assert cost["step_ms"] == pytest.approx(ddp["profiled_step_ms"] - no_comm["profiled_step_ms"], abs=1e-6)
    parts = [cost[f"{part}_ms"] for part in ddp["breakdown_ms"]]
    assert sum(parts) == pytest.approx(cost["step_ms"], abs=1e-6)
    assert no_comm["cost_of_communication"] is None
    assert list(no_comm["exposed_communication_ms"]) == ["profiler", "no_sync", "no_comm"]
    assert no_comm["exposed_communication_ms"]["no_comm"] is None


def test_the_newest_record_has_the_curve_when_this_run_has_none(advised: tuple[Path, Outcome]) -> None:
    arguments = ("perf/test_throughput.py", WIDE[0], "-k", "wide and ddp]", "--min-slowdown=1e6")
    outcome = perf(advised[0], *arguments)
    assert ", from the recorded all-reduces:" in outcome.output, outcome.output
    assert ("bfloat16 compression (bf16): " in outcome.output) == gains(advised[0], "bf16", "ddp")
    if gains(advised[0], "bf16", "ddp"):
        measured_ = r"\(bf16\): [^;]*, measured \([\d.]+ against [\d.]+ in 0001_first.json; "
        assert re.search(measured_, outcome.unwrapped)


def test_a_starved_loader_is_told_to_have_more_workers(tmp_path: Path) -> None:
    arguments = ("perf/test_feeds.py", "--workload=tests.e2e.injected:fed", "-k", "loader or pinned")
    outcome = perf(tmp_path, *arguments)
    advice_ = outcome.unwrapped.partition("advice for feed_loader of fed on 2cpu")[2]
    assert re.search(r"more loader workers, [^:]* \(feed_pinned\): [^;]* measured \(predicted [\d.]+\)", advice_)
    assert "no all-reduces were measured for advice on buckets and compression" in advice_
