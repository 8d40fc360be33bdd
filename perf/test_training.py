"""Does training with a lossy config still learn?   pytest perf -k training"""

from fixtures.judge.training import Training

# How much a config costs is for the reader of the table to weigh; one that loses half of the progress is broken.
LEAST_KEPT_PERCENT = 50


def test_training(training: Training, lossy_config: str) -> None:
    assert training(lossy_config).kept_percent > LEAST_KEPT_PERCENT


def test_training_without_communication_is_told_apart(training: Training) -> None:
    assert training("no_comm").kept_percent < LEAST_KEPT_PERCENT
