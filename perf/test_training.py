"""Does training with a lossy config still learn?   pytest perf -k training"""

import pytest

from fixtures.judge.training import Training
from fixtures.matrix.configs import CONFIGS, THROUGHPUT
from fixtures.matrix.hooks import HOOKS

LOSSY = [name for name in THROUGHPUT if HOOKS[CONFIGS[name].hook].fidelity == "lossy"]

# How much a config costs is for the reader of the table to weigh; one that loses half of the progress is broken.
LEAST_KEPT_PERCENT = 50


@pytest.mark.parametrize("config", LOSSY)
def test_training(training: Training, config: str) -> None:
    assert training(config).kept_percent > LEAST_KEPT_PERCENT


def test_training_without_communication_is_told_apart(training: Training) -> None:
    assert training("no_comm").kept_percent < LEAST_KEPT_PERCENT
