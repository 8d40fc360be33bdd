"""The sentence on the training of a small problem."""

from dataclasses import replace

import pytest

from fixtures.gradients.hook_training import effect
from fixtures.records.loss_comparison import Effect
from fixtures.report.gradients import loss_lines

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
