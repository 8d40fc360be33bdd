"""The effect of a lossy hook on a loss, from the curves alone."""

import re
from dataclasses import replace

import pytest

from fixtures.extras.loss.small_problem import EVERY, effect, faults, is_undecided, loss_lines
from fixtures.matrix.hook import Hook
from fixtures.records.loss_comparison import Effect

REFERENCE = [(2.0, 0.5), (2.2, 0.4), (2.1, 0.6)]


def test_the_same_curves_have_no_effect_and_a_reference_that_learns_nothing_is_refused() -> None:
    same = effect("bf16", "2cpu", REFERENCE, REFERENCE)
    assert (same.excess_percent, same.margin_percent, same.kept_percent) == (0, 0, 100)
    with pytest.raises(ValueError, match="learnt nothing"):
        effect("bf16", "2cpu", REFERENCE, [(2.0, 2.0), (2.2, 0.4), (2.1, 0.6)])


def test_the_excess_is_paired_by_seed_and_has_students_interval() -> None:
    worse = effect("powersgd", "2cpu", [(2.0, 0.55), (2.2, 0.48), (2.1, 0.78)], REFERENCE)
    assert worse.excess_percent == pytest.approx(20)  # 10, 20 and 30 %
    assert worse.margin_percent == pytest.approx(4.302653 * 10 / 3**0.5)  # t of 2 degrees of freedom at 97.5 %
    assert worse.kept_percent == pytest.approx(100 - (0.05 / 1.5 + 0.08 / 1.8 + 0.18 / 1.5) * 100 / 3)


def test_the_curves_are_means_over_the_seeds() -> None:
    found = effect("bf16", "2cpu", [(2.0, 1.5, 0.5), (2.2, 1.1, 0.7)], [(2.0, 1.0, 0.25), (2.0, 0.5, 0.75)])
    assert found.steps == (0, EVERY, 2 * EVERY)
    assert found.curve == pytest.approx((2.1, 1.3, 0.6))
    assert found.reference_curve == (2.0, 0.75, 0.5)


def measured(excess: float, margin: float, *, kept: float = 99, delivered: float | None = 100) -> Effect:
    even = effect("mine", "2cpu", REFERENCE, REFERENCE)
    return replace(even, excess_percent=excess, margin_percent=margin, kept_percent=kept, delivered_percent=delivered)


MINE = Hook(name="mine", build=None)
STATED = replace(MINE, loss_excess_percent=30)


@pytest.mark.parametrize(
    ("hook", "found", "says"),
    [
        (MINE, measured(790, 200, kept=-102), "keeps -102 % of the progress, 50 wanted"),
        (
            MINE,
            measured(85, 20, delivered=60),
            r"\+85.0 ± 20.0 % from the uncompressed, 4 allowed; it delivers 60 % of",
        ),
        (MINE, measured(85, 20, delivered=60), "if the hook is meant to cost that, state it with loss_excess_percent$"),
        (MINE, measured(32, 9, delivered=50), "delivers 50 % .*: is it divided by the number of ranks twice.$"),
        (MINE, measured(85, 20, delivered=200), "^delivers 200 % .* a factor is wrong; .*, 4 allowed$"),
        (MINE, measured(790, 200, kept=-102), "4 allowed$"),
        (MINE, measured(-12, 3), "-12.0 ± 3.0 % .* too large"),
        (STATED, measured(146, 30), "30 allowed"),
        (STATED, measured(9, 6, delivered=500), "delivers 500 % of the mean gradient along it, at most 125 wanted"),
        (replace(MINE, promise="mean", wire_dtype="float16"), measured(2, 0.5), "1 allowed"),
        *((hook, found, "^$") for hook, found in ((MINE, measured(3, 2)), (MINE, measured(-3, 2)))),
        (STATED, measured(26, 6), "^$"),
    ],
)
def test_a_training_says_what_is_wrong(hook: Hook, found: Effect, says: str) -> None:
    assert re.search(says, "; ".join(faults(found, hook)))


def test_more_seeds_are_due_where_the_limit_is_within_the_interval() -> None:
    assert [is_undecided(measured(excess, 2), 4) for excess in (0, 3, 5, 7, -3)] == [False, True, True, False, True]


# The sentence on the training of a small problem

HIGHER = "the final loss is higher with"
CURVES = [(2.0, 0.5), (2.2, 0.7)]


def trained(config: str, excess: float) -> Effect:
    return replace(effect(config, "2cpu", CURVES, CURVES), excess_percent=excess, margin_percent=0.1)


BF16, LOW_RANK = trained("bf16", 0.01), trained("powersgd_rank1", 26)
FEWER = [trained("accumulate_2", 46), trained("batch_x4", 182), trained("no_comm", 787)]


@pytest.mark.parametrize(
    ("effects", "says"),
    [
        ([BF16], "1 of 1 configs reach the loss of uncompressed training (-v: the table)"),
        (
            [BF16, LOW_RANK],
            f"1 of 2 configs reach the loss of uncompressed training; {HIGHER} powersgd_rank1 +26 % (-v: the table)",
        ),
        (
            [BF16, LOW_RANK, *FEWER],
            f"{HIGHER} powersgd_rank1 +26 %, 3 that exchange less often +46 to +787 % (-v: the table)",
        ),
        (
            [FEWER[0]],
            f"0 of 1 configs reach the loss of uncompressed training; {HIGHER} accumulate_2 +46 % (-v: the table)",
        ),
    ],
)
def test_configs_that_exchange_less_often_are_counted(effects: list[Effect], says: str) -> None:
    assert " ".join(line.strip() for line in loss_lines(effects)).endswith(says)
