"""The numbers of steps of a launch."""

from dataclasses import replace

import pytest

from fixtures.launch.protocol import TrainRequest
from fixtures.matrix.configs import CONFIGS
from fixtures.ranks.feed import PREFETCH
from fixtures.ranks.training import Schedule, schedule

REQUEST = TrainRequest(workload="vit_tiny", config="ddp", world="2cpu", steps=20, warmup=10, precision_percent=0.25)


def of(config: str, request: TrainRequest = REQUEST, workers: int = 1) -> Schedule:
    return schedule(request, CONFIGS[config], workers=workers)


def test_the_last_half_of_the_warm_up_tells_how_long_a_step_takes_if_a_precision_is_asked_for() -> None:
    plan = of("ddp")
    assert (plan.warmup, plan.timed, plan.ahead, plan.sizes) == (5, 4, 1, [8, 8, 4])
    assert plan.batches == 10 + 20 + 2 + 3 * (8 + 1)  # one more step before each further block
    plan = of("ddp", replace(REQUEST, precision_percent=0))
    assert (plan.warmup, plan.timed, plan.ahead, plan.sizes) == (9, 0, 1, [20])


def test_a_loader_and_averaged_weights_have_whole_rounds() -> None:
    plan = of("feed_loader", workers=3)
    assert (plan.round, plan.steps, plan.loaded_ahead, plan.timed) == (3, 21, 3 * PREFETCH, 0)
    assert (plan.warmup, plan.ahead) == (6, 1)  # after three more: a round
    assert plan.batches == 10 + plan.loaded_ahead + 3 + 21 + len(plan.sizes) - 1 + 3 * (9 + 3)
    assert (of("local_sgd_8").round, of("local_sgd_8").steps) == (8, 24)


def test_what_comes_after_the_window_has_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fixtures.ranks.training.profiled_repetitions", lambda: 2)
    plain = of("ddp").batches
    assert of("ddp", replace(REQUEST, check_gradients=True)).batches == plain + 1
    assert of("ddp", replace(REQUEST, count_flops=True)).batches == plain + 1
    assert of("ddp", replace(REQUEST, profile=4)).batches == plain + 2 + 4 + 2
    assert of("ddp", replace(REQUEST, profile=4, traces=("a", "b"))).batches == plain + 2 * (2 + 4) + 2
    assert of("accumulate_4").batches == 4 * plain
