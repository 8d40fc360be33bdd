"""Does training with a lossy hook still learn?   pytest perf -k training"""

import pytest

from fixtures.extras.loss.small_problem import Training, TrainingAtEqualSamples, faults, one_rank
from fixtures.gradients.fixtures import unsupported
from fixtures.gradients.tested_hooks import HarmedLoss
from fixtures.matrix.configs import FEWER_EXCHANGES
from fixtures.matrix.hooks import find_hook
from fixtures.stats.thresholds import LEAST_KEPT_PERCENT, MOST_EXCESS_PERCENT

pytestmark = [pytest.mark.unless(reason=one_rank), pytest.mark.unless(reason=unsupported)]

# Noise helps or harms a short training by less.
AS_MUCH = 1.1


def test_training(training: Training, lossy_hook: str, training_precision: str) -> None:
    if wrong := faults(training(lossy_hook, training_precision), find_hook(lossy_hook)):
        raise HarmedLoss("; ".join(wrong), pytrace=False)


def test_training_without_communication_is_told_apart(training: Training, training_precision: str) -> None:
    effect = training("no_comm", training_precision)
    assert effect.kept_percent < LEAST_KEPT_PERCENT
    assert effect.least_excess_percent > MOST_EXCESS_PERCENT


@pytest.mark.on_request(*FEWER_EXCHANGES)
@pytest.mark.parametrize("fewer", FEWER_EXCHANGES)
def test_training_with_fewer_exchanges(training_at_equal_samples: TrainingAtEqualSamples, fewer: str) -> None:
    """It learns as much as plain training with as many optimizer steps, whose gradients are noisier."""
    effect, plain_loss = training_at_equal_samples(fewer)
    assert effect.curve[-1] < AS_MUCH * plain_loss
