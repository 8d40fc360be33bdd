"""Does training with a lossy hook still learn?   pytest perf -k training"""

from fixtures.gradients.training import MOST_EXCESS_PERCENT, Training
from fixtures.matrix.hooks import find_hook

# Smaller losses are for the reader of the table to judge; a hook that loses half of the progress is broken.
LEAST_KEPT_PERCENT = 50


def test_training(training: Training, lossy_hook: str, training_precision: str) -> None:
    effect = training(lossy_hook, training_precision)
    assert effect.kept_percent > LEAST_KEPT_PERCENT
    assert effect.least_precision_excess_percent < MOST_EXCESS_PERCENT
    if find_hook(lossy_hook).promise == "mean":
        assert effect.least_excess_percent < MOST_EXCESS_PERCENT


def test_training_without_communication_is_told_apart(training: Training, training_precision: str) -> None:
    effect = training("no_comm", training_precision)
    assert effect.kept_percent < LEAST_KEPT_PERCENT
    assert effect.least_excess_percent > MOST_EXCESS_PERCENT
