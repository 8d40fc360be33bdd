"""What limits a step, by its account."""

from dataclasses import replace
from typing import Any

import pytest

from fixtures.stats.step_account import AHEAD, Line, RankAccount, StepAccount
from fixtures.stats.step_limit import StepLimit, gain_without_percent, limited_by

LOOP = "train.py:39 main()"


def on_cpu(line: str | None = None, errors: dict[str, float] | None = None, **ms: float) -> RankAccount:
    """A rank on the CPU. waiting: for the other one of two ranks. line: of its own work."""
    lines = [] if line is None else [Line(phase="own", line=line, ms=ms["own"], error_ms=1)]
    return RankAccount(step_ms=sum(ms.values()), host_ms=ms, errors_ms=errors or {}, lines=lines)


def on_gpu(host: dict[str, float], device: dict[str, float]) -> RankAccount:
    whole = dict.fromkeys(("compute", "transfer", "copy", "waiting", "idle"), 0.0) | device
    lines = [Line(phase=phase, line=f"train.py:{phase}", ms=ms, error_ms=0) for phase, ms in host.items()]
    return RankAccount(
        step_ms=sum(device.values()),
        host_ms=host,
        errors_ms={},
        device_ms=whole,
        is_ahead=False,
        lines=lines,
    )


def late(account: RankAccount, **waiting_ms: float) -> RankAccount:
    """The rank waits for others: rank_0=49."""
    return replace(account, waiting_ms={rank.removeprefix("rank_"): ms for rank, ms in waiting_ms.items()})


def of(*ranks: RankAccount) -> StepLimit:
    return limited_by(StepAccount(ranks=[*ranks]))


@pytest.mark.parametrize(
    ("account", "by", "percent"),
    [
        (on_cpu(LOOP, forward=5, backward=15, own=80), "own", 80),
        (on_cpu(loader=70, forward=10, backward=20), "loader", 70),
        (on_cpu(forward=10, backward=44, transfer=46), "transfer", 46),
        (on_cpu(loader=12, forward=30, backward=58), "compute", 88),
        (on_cpu(loader=25, forward=10, backward=35, transfer=30), "transfer", 30),
    ],
)
def test_on_the_cpu_the_largest_part_over_its_threshold_limits(account: RankAccount, by: str, percent: float) -> None:
    found = of(account)
    assert [found.by, found.percent] == [by, pytest.approx(percent)]
    assert found.line == (LOOP if by == "own" else None)


HOST = {"loader": 5.0, "forward": 25.0, "backward": 45.0, "update": 10.0, "own": 15.0}


@pytest.mark.parametrize(
    ("account", "by", "percent"),
    [
        # Idle, and the host never blocks: its largest part limits; waiting for a value of the device is none of them.
        (on_gpu({"loader": 30, AHEAD: 55, "own": 15}, {"compute": 48, "idle": 52}), "loader", 52),
        (on_gpu(HOST, {"compute": 79, "idle": 21}), "host", 21),
        (on_gpu({"loader": 70, "forward": 30}, {"compute": 40, "idle": 60}), "loader", 60),
        (on_gpu({"own": 70, "forward": 30}, {"compute": 40, "idle": 60}), "own", 60),
        (on_gpu({"loader": 40, "own": 45, "forward": 15}, {"compute": 50, "idle": 50}), "own", 50),
        # Launch, wait, launch.
        (on_gpu({**HOST, "backward": 30, AHEAD: 15}, {"compute": 79, "idle": 21}), "synchronisation", 21),
        (on_gpu({**HOST, "backward": 20, AHEAD: 25}, {"compute": 81, "idle": 19}), "compute", 81),
        (
            replace(on_gpu({**HOST, "backward": 33, AHEAD: 12}, {"compute": 50, "idle": 50}), errors_ms={AHEAD: 3.0}),
            "host",
            50,
        ),
        # The host waits for its loader, and then for the device.
        (on_gpu({"loader": 45, AHEAD: 30, "forward": 25}, {"compute": 50, "idle": 50}), "loader", 50),
        # The device has no slack.
        (on_gpu(HOST, {"compute": 98, "idle": 2}), "compute", 98),
        (on_gpu({**HOST, "backward": 30, AHEAD: 15}, {"compute": 91, "idle": 9}), "compute", 91),
        (on_gpu({**HOST, "backward": 36, AHEAD: 9}, {"compute": 96, "idle": 4}), "compute", 96),
        (on_gpu(HOST, {"compute": 54, "transfer": 46}), "transfer", 46),
        (on_gpu(HOST, {"compute": 85, "copy": 15}), "copy", 15),
        (on_gpu(HOST, {"compute": 85, "transfer": 15}), "compute", 85),
    ],
)
def test_on_a_gpu_the_side_without_slack_limits(account: RankAccount, by: str, percent: float) -> None:
    found = of(account)
    assert [found.by, found.also, found.percent] == [by, None, pytest.approx(percent)]


@pytest.mark.parametrize("idle", [5, 14])
def test_both_limit_where_neither_has_slack(idle: int) -> None:
    """A compiled nanoGPT on two H200: these two launches of one machine."""
    account = on_gpu(HOST, {"compute": 100 - idle, "idle": idle})
    found = of(account)
    assert (found.by, found.percent, found.also, found.line) == ("compute", 100 - idle, "host", "train.py:backward")
    assert of(replace(account, is_ahead=True)).also == (None if idle < 10 else "host")
    copies = on_gpu({"copy": 60, "forward": 40}, {"compute": 70, "copy": 30 - idle, "idle": idle})
    assert (of(copies).by, of(copies).also) == ("copy", None)


def test_loaders_that_are_late_by_turns_limit_whichever_rank_was_late_in_the_profile() -> None:
    """Of a launch of an ImageNet example with two workers a rank."""
    first = on_gpu({"loader": 137, "own": 29, AHEAD: 24}, {"compute": 67, "transfer": 2, "waiting": 118, "idle": 3})
    second = on_gpu({"loader": 26, "own": 29, AHEAD: 135}, {"compute": 60, "transfer": 2, "waiting": 73, "idle": 55})
    found = of(late(first, rank_1=118), second)
    assert [found.by, found.percent, found.line] == ["loader", pytest.approx(100 * 121 / 190), "train.py:loader"]


def test_another_part_of_an_idle_gpus_host_is_as_large_only_within_the_errors() -> None:
    errors = {"own": 3.0, "forward": 1.0}
    apart, close = (
        replace(on_gpu({"forward": 50 + more, "own": 50 - more}, {"compute": 50, "idle": 50}), errors_ms=errors)
        for more in (20, 1)
    )
    assert (of(apart).by, of(apart).also) == ("host", None)
    assert (of(close).by, of(close).also) == ("host", "own")


def test_the_line_of_a_late_rank_is_the_one_that_takes_it_longer_than_the_others() -> None:
    def lines(**ms: float) -> list[Line]:
        return [Line(phase="own", line=line, ms=own_ms, error_ms=1) for line, own_ms in ms.items()]

    both = replace(on_cpu(forward=20, backward=20, own=60), lines=lines(ema=40, logs=20))
    waits = late(replace(on_cpu(forward=20, backward=20, own=40, waiting=20), lines=lines(ema=40)), rank_0=20)
    assert (of(both, waits).line, of(both, waits).line_ms) == ("logs", 20)


def test_a_rank_that_nothing_takes_longer_is_not_the_late_one() -> None:
    """It was late in the profile only: by chance, or because of other work."""
    first = on_cpu(forward=52, backward=46, waiting=2)
    second = late(on_cpu(forward=30, backward=42, waiting=28), rank_0=28)
    assert (of(first, second).rank, of(first, second).late_by) == (0, "forward")
    taken_out = {"forward": 32, "backward": 66, "waiting": 2}  # of the other's backward pass, as its wait
    assert of(replace(first, host_ms=taken_out), second).rank is None
    assert of(replace(first, host_ms={"forward": 35, "backward": 50, "waiting": 15}), second).rank is None
    by_turns = {"forward": 6.0}  # batches of uneven length, a few steps of them
    assert of(replace(first, errors_ms=by_turns), replace(second, errors_ms=by_turns)).rank is None


def test_without_half_of_its_step_a_training_is_twice_as_fast() -> None:
    assert (gain_without_percent(50), gain_without_percent(0), gain_without_percent(100)) == (100, 0, None)


LOGS = on_cpu("train.py:37 main()", forward=9, backward=10, own=49)
WAITS = late(on_cpu(forward=9, backward=10, own=0, waiting=49), rank_0=49)
SENDS = on_cpu(forward=10, backward=44, transfer=46)
LOADS = on_cpu(loader=29, forward=20, backward=29, transfer=22)
AHEAD_OF_GPU = RankAccount(step_ms=100, host_ms={"forward": 40, "backward": 40, AHEAD: 20}, errors_ms={}, is_ahead=True)
UNSURE_LINES = [Line(phase="own", line="a", ms=20, error_ms=30), Line(phase="own", line="b", ms=2, error_ms=0)]


# Any: fields of an account and of a limit.
@pytest.mark.parametrize(
    ("ranks", "of_account", "expected"),
    [
        # Of steps unlike the measured ones there are no shares.
        (
            [on_gpu(HOST, {"compute": 51, "idle": 49})],
            {"withheld": "12 % less"},
            {"by": "host", "percent": None, "line": "train.py:backward", "line_ms": None, "why": "12 % less"},
        ),
        # The rank that the others wait for, with its own largest part and line.
        (
            [LOGS, WAITS],
            {},
            {
                "by": "waiting",
                "rank": 0,
                "late_by": "own",
                "line": "train.py:37 main()",
                "percent": pytest.approx(72, abs=0.1),
            },
        ),
        # Waiting below two of its errors does not limit.
        ([LOGS, replace(WAITS, errors_ms={"waiting": 30.0})], {}, {"by": "own"}),
        # Its kernels run slower.
        (
            [
                on_gpu(HOST, {"compute": 95, "transfer": 5}),
                late(on_gpu(HOST, {"compute": 60, "transfer": 5, "waiting": 35}), rank_0=35),
            ],
            {},
            {"rank": 0, "late_by": "compute"},
        ),
        # Late by turns.
        (
            [
                late(on_cpu(forward=30, backward=40, waiting=30), rank_1=30),
                late(on_cpu(forward=32, backward=40, waiting=28), rank_0=28),
            ],
            {},
            {"by": "waiting", "rank": None},
        ),
        # The loaders of two ranks are late by turns; a public script on two H200.
        (
            [
                on_gpu({"loader": 39, AHEAD: 45, "forward": 39}, {"compute": 64, "waiting": 17, "idle": 42}),
                on_gpu({"loader": 21, AHEAD: 61, "forward": 41}, {"compute": 62, "idle": 61}),
            ],
            {},
            {"by": "loader", "line": "train.py:loader"},
        ),
        # What no_comm saves beyond transfer is communication.
        ([LOADS] * 2, {}, {"by": "loader"}),
        ([LOADS] * 2, {"rest_percent": 20}, {"by": "transfer", "percent": pytest.approx(42)}),
        # Two parts closer than their errors.
        (
            [on_cpu(errors={"own": 3, "loader": 3}, own=41, loader=39, forward=20)],
            {},
            {"by": "own", "also": "loader"},
        ),
        ([on_cpu(errors={"own": 1, "loader": 1}, own=41, loader=39, forward=20)], {}, {"by": "own", "also": None}),
        # A collective of the script is named if it is half of the transfer.
        ([replace(SENDS, lines=[Line(phase="collective", line=LOOP, ms=20, error_ms=1)])], {}, {"line": None}),
        ([replace(SENDS, lines=[Line(phase="collective", line=LOOP, ms=25, error_ms=1)])], {}, {"line": LOOP}),
        # A line below its error, or below three percent.
        ([replace(on_cpu(own=90, forward=10), lines=UNSURE_LINES)], {}, {"line": None}),
        # Withheld, or communication not told apart.
        ([], {"withheld": "unlike"}, {"why": "unlike"}),
        ([on_cpu(forward=40, backward=60)] * 2, {"sent_known": False}, {"by": None}),
        ([on_cpu(LOOP, forward=10, backward=10, own=80)] * 2, {"sent_known": False}, {"by": "own"}),
        # A GPU that the host is ahead of computes or sends.
        ([AHEAD_OF_GPU], {}, {"by": "compute"}),
        ([AHEAD_OF_GPU], {"sent_known": False}, {"by": None}),
    ],
)
def test_an_account_has_its_limit(
    ranks: list[RankAccount], of_account: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = limited_by(StepAccount(ranks=ranks, **of_account))
    assert {name: getattr(found, name) for name in expected} == expected
