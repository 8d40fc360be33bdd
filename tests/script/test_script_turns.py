"""The rows of the hooks that took turns in one start of a script."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.launch.script import LaunchLine
from fixtures.matrix.configs import CONFIGS
from fixtures.records.schema import Reason
from fixtures.report.card import card_of
from fixtures.session.run_record import record_so_far
from fixtures.session.run_state import Run
from fixtures.session.script_tests import keep_turns, took_turns
from fixtures.stats.difference import of_sides
from fixtures.stats.step_account import host_time
from fixtures.stats.verdict import UNJUDGED
from tests.builders import QUIET_HOST, SETTINGS, case_of, known, launch, measured, printed, report_of

LINE = LaunchLine(path=Path("train.py"), arguments=(), shown="train.py", name="train")


# Any: fields of a launch.
def run_with(block_ms: Mapping[str, Sequence[float]], **of_launch: Any) -> Run:
    """A script whose step takes 100 ms as written, and whose hooks took turns."""
    as_written = measured("ddp", 1, world="2gpu", launches=(replace(launch(0.1), gradient_error=0.0),))
    as_written = replace(
        as_written,
        config=CONFIGS["as_written"],
        workload=replace(as_written.workload, name="train", training=LINE),
        launches=(
            replace(
                as_written.launches[0],
                gradients=[(8_600_000, 4)],
                phase_s={"input": 0.0, "forward": 0.0},
                host_times=(host_time([{"forward": 0.1}] * 16, {}, lead_ms=50.0),) * 2,
                **of_launch,
            ),
        ),
    )
    run = Run(settings=SETTINGS, host_load=QUIET_HOST)
    case = case_of(measurement=as_written, verdict=UNJUDGED)
    case.subject = replace(case.subject, test="perf/test_script[train-2gpu-as_written]")
    case.shared.block_s = {hook: [ms / 1e3 for ms in times] for hook, times in block_ms.items()}
    run.own_workloads["train"] = as_written.workload
    keep_turns(run, case)
    run.cases[case.subject.test] = case
    return run


BLOCKS = {"allreduce": [100.2] * 6, "bf16": [95.19] * 6, "no_comm": [79.158] * 6}


@pytest.mark.parametrize("longer", [1, 1.2])
def test_the_rows_are_relative_to_the_plain_mean_whatever_changed_since_the_measured_steps(longer: float) -> None:
    run = run_with({hook: [longer * ms for ms in times] for hook, times in BLOCKS.items()})
    steps = {case.measurement.config.name: case.measurement.seconds_per_step for case in run.compared.values()}
    assert steps == pytest.approx({"as_written": 0.1, "as_written-bf16": 0.095, "as_written-no_comm": 0.079})
    words = {case.measurement.config.name: case.measurement.fidelity for case in run.compared.values()}
    assert words == {"as_written": "lossless", "as_written-bf16": "not compared", "as_written-no_comm": "limit"}
    record = record_so_far(run, None)
    assert [reference.config for reference in record.references or []] == ["as_written-bf16", "as_written-no_comm"]
    (limit,) = [known(benchmark.extra_info.step_limit) for benchmark in record.benchmarks]
    assert (limit.by, round(limit.percent or 0)) == ("transfer", 21)


@pytest.mark.parametrize(("bf16_ms", "reason"), [(95.0, Reason.GRADIENTS), (103.2, Reason.NOT_FASTER)])
def test_a_hook_that_took_turns_is_not_advised_before_its_gradients_were_compared(
    bf16_ms: float, reason: Reason
) -> None:
    (best, *_) = report_of(run_with(BLOCKS | {"bf16": [bf16_ms] * 6})).record.best or []
    assert (best.reason, best.use, best.lines, best.in_turns) == (reason, None, None, True)


def test_turns_find_three_percent_that_launches_do_not_where_starts_differ_by_twelve() -> None:
    (turns,) = run_with(BLOCKS | {"bf16": [103.2] * 6}).turns.values()
    assert turns.difference("as_written-bf16", "as_written").is_slower(comparisons=2)
    starts = [100.0, 106.0, 112.0]
    assert not of_sides([1.03 * ms for ms in starts], starts).is_slower()


SENT = "communication between ranks that no compute hides (21 % of the step)"


@pytest.mark.parametrize(
    ("longer_s", "limit", "change"),
    [
        (0.2, SENT, None),
        (
            0.9,
            f"2 of 16 steps, which take 56 % of the time; the others by {SENT}",
            "what makes 2 of 16 steps longer",
        ),
    ],
    ids=["rare", "most of the time"],
)
def test_steps_that_do_other_work_are_said(longer_s: float, limit: str, change: str | None) -> None:
    """Such as an evaluation, which the median step does not show."""
    run = run_with(BLOCKS)
    case = run.cases["perf/test_script[train-2gpu-as_written]"]
    (first,) = case.shared.launches
    case.shared.launches = (replace(first, step_s=(*[0.1] * 14, longer_s, longer_s)),)
    assert any(line.startswith("as_written: 2 of 16 steps took ") for line in printed(run))
    card = card_of(report_of(run))
    assert known(card.limit).text == limit
    assert change is None or known(card.change).text == change


def test_a_row_says_what_the_card_says_where_other_work_made_blocks_longer() -> None:
    longer = {"allreduce": [100.2, 100.2, 170, 100.2, 100.2, 100.2], "no_comm": [80.16, 150, 80.16, 80.16, 140, 80.16]}
    run = run_with(BLOCKS | longer)
    steps = {case.measurement.config.name: case.measurement.seconds_per_step for case in run.compared.values()}
    assert steps["as_written-no_comm"] == pytest.approx(0.08)
    (benchmark,) = record_so_far(run, None).benchmarks
    assert benchmark.extra_info.of_limit_percent == pytest.approx(80)
    assert known(benchmark.extra_info.step_limit).communication_percent == pytest.approx(20)


def test_the_bytes_are_those_of_the_hook() -> None:
    sent = {
        case.measurement.config.name: case.measurement.wire_bytes_per_step for case in run_with(BLOCKS).cases.values()
    }
    assert sent == {"as_written": 17_200_000, "as_written-bf16": 8_600_000, "as_written-no_comm": 0}


@pytest.mark.parametrize(
    ("batches", "counted", "of_rows"),
    [
        (1, 8_600_000.0, {"as_written-bf16": 4_300_000.0, "as_written-no_comm": 0.0}),
        (1, 12_800_000.0, {"as_written-bf16": 8_500_000.0, "as_written-no_comm": 4_200_000.0}),
        (4, 34_400_000.0, {"as_written-bf16": 17_200_000.0, "as_written-no_comm": 0.0}),
        (1, None, {"as_written-bf16": None, "as_written-no_comm": None}),
    ],
    ids=["DDP alone", "own all-reduce", "accumulation without no_sync", "over NCCL"],
)
def test_what_the_script_sends_beside_ddp_stays_in_each_row(
    batches: int, counted: float | None, of_rows: Mapping[str, float | None]
) -> None:
    run = run_with(BLOCKS, all_reduced_batches=batches, sent_bytes_per_step=counted)
    rows = {case.measurement.config.name: case.measurement.counted_bytes_per_rank for case in run.cases.values()}
    assert {name: rows[name] for name in of_rows} == of_rows


def test_the_configs_that_took_turns_are_not_launched() -> None:
    run = run_with(BLOCKS)
    (as_written,) = run.trained.values()

    def asked(config: str) -> str | None:
        return took_turns(run, replace(as_written.measurement, config=CONFIGS[config], launches=()))

    assert {name: asked(name) for name in ("bf16", "no_comm", "bucket_10mb")} == {
        "bf16": "measured in turns with as_written, see its row as_written-bf16",
        "no_comm": "measured in turns with as_written, see its row as_written-no_comm",
        "bucket_10mb": None,
    }
