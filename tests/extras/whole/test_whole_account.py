"""The account of a whole training from the notes of its ranks, the time of all its steps, and the lines on both."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from fixtures.extras.whole.plugin import compared, hours, prediction, sentence, steps_of
from fixtures.extras.whole.whole_account import END, TIME, Place, RankNotes, Stack, WholeAccount, account_of
from tests.builders import known

MAIN = Place("train.py", 10, "main", "own")
STEP = Stack((MAIN, Place("train.py", 301, "train", "own")))
BACKWARD = Stack((*STEP.places, Place("graph.py", 9, "_engine_run_backward", "torch")), waits=True)


def calling(line: int, function: str, of: str = "own") -> Stack:
    return Stack((MAIN, Place("train.py", line, "train", "own"), Place("other.py", 1, function, of)))


EVALUATES, SAVES = calling(267, "estimate_loss"), calling(290, "save", "torch")


def ranks(
    steps: int, *events: tuple[Stack, int, float, Sequence[int]], ended: str | None = TIME, start_s: float = 5
) -> list[RankNotes]:
    """Two ranks whose steps take 0.1 s. events: stack, period, seconds, the ranks that are busy."""
    notes = []
    for rank in (0, 1):
        step_s, sampled = [start_s], {0: {STEP: start_s}}
        for number in range(1, steps):
            sampled[number] = {STEP: 0.08, BACKWARD: 0.02}
            for stack, period, seconds, busy in events:
                if number % period == 0:
                    at = stack if rank in busy else BACKWARD
                    sampled[number][at] = sampled[number].get(at, 0.0) + seconds
            step_s.append(sum(sampled[number].values()))
        notes.append(RankNotes(step_s=step_s, sampled=sampled, ended=ended, seconds=sum(step_s)))
    return notes


def accounted(*given: object, **more: object) -> WholeAccount:
    return known(account_of(ranks(*given, **more)))  # type: ignore[arg-type]


def test_what_comes_seldom_has_its_line_its_period_and_the_ranks_that_are_busy() -> None:
    account = accounted(401, (EVALUATES, 100, 2.0, (0, 1)), (SAVES, 100, 1.0, (0,)))
    evaluates, saves = account.seldom
    assert (evaluates.line, evaluates.number, evaluates.period) == ("train.py:267 estimate_loss", 4, 100)
    assert evaluates.event_s == pytest.approx(2.0)
    assert evaluates.ranks is None
    assert (saves.line, saves.ranks, saves.waits_in) == ("train.py:290 torch.save", [0], "train.py:301")
    assert account.step_s == pytest.approx(0.1)


def test_all_parts_add_up_to_the_time() -> None:
    account = accounted(401, (EVALUATES, 100, 2.0, (0, 1)), (SAVES, 70, 1.0, (1,)))
    seldom_s = sum(one.number * one.event_s for one in account.seldom)
    parts_s = account.start_s + (account.steps - 1) * account.step_s + seldom_s + account.end_s
    assert parts_s == pytest.approx(account.seconds)


def test_the_line_has_the_parts_of_an_hour() -> None:
    assert sentence(accounted(401, (EVALUATES, 100, 2.0, (0, 1)), (SAVES, 100, 1.0, (0,)), start_s=72)) == (
        "of an hour: steps 75 %, train.py:267 estimate_loss 15 % (every 100 steps, 2.0 s), "
        "train.py:290 torch.save 8 % (every 100 steps, 1.0 s, rank 0; others wait in line 301), start 2 %"
    )


def test_a_script_that_has_ended_has_the_parts_of_its_own_time_and_no_prediction() -> None:
    account = accounted(401, (EVALUATES, 100, 2.0, (0, 1)), ended=END)
    assert sentence(account).startswith("of all of its 53 s: steps 75 %, train.py:267 estimate_loss 15 % (every 100")
    assert prediction(account, ["--steps", "1000"]) is None


def test_two_periods_in_one_line_are_none_and_one_long_step_of_no_new_line_is_a_usual_one() -> None:
    (both,) = accounted(140, (EVALUATES, 60, 1.0, (0, 1)), (EVALUATES, 90, 1.0, (0, 1))).seldom  # steps 60, 90, 120
    assert (both.number, both.period) == (3, None)
    assert accounted(401, (STEP, 399, 3.0, (0, 1))).seldom == []


def test_a_machine_that_gets_slower_makes_no_steps_seldom() -> None:
    notes = ranks(400)
    for rank in notes:
        rank.step_s = [s * (1 if place < 200 else 2) for place, s in enumerate(rank.step_s)]
    account = known(account_of(notes))
    assert account.seldom == []
    low, high = known(known(prediction(account, ["--steps=1000"])).interval_s)
    assert low < sum(notes[0].step_s) + 600 * 0.2 < high


def test_a_line_of_every_step_that_regularly_takes_longer_comes_seldom_too() -> None:
    loads = Stack((MAIN, Place("train.py", 20, "train", "own"), Place("dataloader.py", 1, "__iter__", "torch")))
    notes = ranks(401, (loads, 50, 1.0, (0, 1)))
    for rank in notes:
        for of_step in rank.sampled.values():
            of_step[loads] = of_step.get(loads, 0.0) + 0.01  # type: ignore[index]
    assert [(one.line, one.period) for one in known(account_of(notes)).seldom] == [("train.py:20", 50)]


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        (["--max_iters=300"], (300, "--max_iters")),
        (["--train-steps", "50"], (50, "--train-steps")),
        (["--eval_iters=20", "--save_steps", "9", "--warmup-steps=3"], (10_000, None)),
    ],
)
def test_the_number_of_steps_is_an_argument_of_the_script(arguments: list[str], steps: tuple[int, str | None]) -> None:
    assert steps_of(arguments) == steps


def test_the_hours_of_steps_are_not_said_before_each_line_came_three_times() -> None:
    assert hours(known(prediction(accounted(250, (EVALUATES, 100, 2.0, (0, 1))), ["--steps=1000"]))) == (
        "all 1,000 steps (--steps): time not known, train.py:267 estimate_loss came less than 3 times: raise --minutes"
    )


def test_what_came_at_the_beginning_alone_does_not_hide_the_hours() -> None:
    notes = ranks(401, (EVALUATES, 100, 2.0, (0, 1)))
    for rank in notes:
        rank.sampled[7][SAVES] = 5.0  # type: ignore[index]
        rank.step_s[7] += 5.0  # type: ignore[index]
        rank.seconds = sum(rank.step_s)
    found = known(prediction(known(account_of(notes)), []))
    assert found.seconds == pytest.approx(sum(notes[0].step_s) + 9_599 * 0.12, rel=1e-3)


def test_nine_in_ten_intervals_hold_the_time() -> None:
    """Steps vary by 30 %, events by 20 %, and a third of the events come by chance."""
    draw, held, runs = random.Random(0), 0, 60
    for _ in range(runs):
        total = 2_000
        step_s = [draw.gauss(0.1, 0.03) for _ in range(total)]
        events = {n: draw.gauss(2.0, 0.4) for n in range(100, total, 100)}
        by_chance = {n: draw.gauss(1.0, 0.2) for n in range(1, total) if draw.random() < 0.01}
        notes = []
        for _rank in (0, 1):
            sampled = {
                n: {STEP: step_s[n]}
                | ({EVALUATES: events[n]} if n in events else {})
                | ({SAVES: by_chance[n]} if n in by_chance else {})
                for n in range(total)
            }
            notes.append(RankNotes(step_s=[sum(of.values()) for of in sampled.values()], sampled=sampled, ended=TIME))
        account = known(account_of([replace(rank, step_s=rank.step_s[:500]) for rank in notes]))
        found = prediction(account, [f"--steps={total}"])
        if found is not None and found.interval_s is not None:
            held += found.interval_s[0] <= sum(notes[0].step_s) <= found.interval_s[1]
    assert held >= 0.85 * runs


def test_the_sides_of_an_a_b_test_are_compared_part_by_part() -> None:
    now = accounted(401, (EVALUATES, 100, 2.0, (0, 1)), (SAVES, 100, 1.0, (0,)))
    assert list(compared(now, accounted(401, (calling(255, "estimate_loss"), 100, 1.0, (0, 1))), "v1")) == [
        "part by part, v1 -> this side, one launch of each:",
        "  start 5.0 s -> 5.0 s (+0.0 %), a step 100 ms -> 100 ms (+0.0 %)",
        "  train.py:267 estimate_loss 1.0 s -> 2.0 s (+100.0 %), every 100 steps",
        "  train.py:290 torch.save only on this side (every 100 steps, 1.0 s, rank 0; others wait in line 301)",
        "  a step with all of these 110 ms -> 130 ms (+18.2 %)",
    ]
