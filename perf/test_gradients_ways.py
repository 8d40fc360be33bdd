"""Does every hook keep its promise in every DDP scenario?   pytest perf -k gradients_ways"""

import pytest

from fixtures.gradients.cases import BUFFER_SCENARIOS
from fixtures.gradients.fixtures import PromiseCheck, other_buffers, other_scenario, unsupported

_ALGORITHMS = "torch.distributed.algorithms"
POST_LOCAL = f"{_ALGORITHMS}.ddp_comm_hooks.post_localSGD_hook:post_localSGD_hook"
AVERAGER = f"{_ALGORITHMS}.model_averaging.averagers:PeriodicModelAverager"

UPDATES = (
    *("fused", "fused_after_fp16", "zero", "zero_bucket_view", "zero_muon"),
    *("in_backward_by_bucket", "in_backward_by_bucket_after_fp16"),
)
# On GPUs two ranks and all; test_gradients.py covers three, whose division is inexact.
pytestmark = [pytest.mark.two_worlds, pytest.mark.unless(reason=unsupported)]


@pytest.mark.unless(reason=other_scenario)
def test_gradients_ways(
    promise: PromiseCheck, gradient_world: str, scenario_hook: str, scenario: str, option: str
) -> None:
    promise(gradient_world, "scenarios:check", hook=scenario_hook, scenario=scenario, option=option)


@pytest.mark.on_request(*UPDATES)
@pytest.mark.parametrize("option", ["bucket_1kb", "bucket_view", "static_graph"])
@pytest.mark.parametrize("update", UPDATES)
def test_gradients_ways_to_step(promise: PromiseCheck, gradient_world: str, update: str, option: str) -> None:
    promise(gradient_world, "parameters:updates", update=update, option=option)


@pytest.mark.on_request("local_sgd_8")
@pytest.mark.parametrize("option", ["bucket_1kb", "bucket_view", "static_graph"])
@pytest.mark.parametrize("allreduce", [True, False], ids=["group_mean", "own"])
def test_gradients_ways_of_post_local_sgd(
    promise: PromiseCheck, gradient_world: str, allreduce: bool, option: str
) -> None:
    promise(gradient_world, "scenarios:post_local", hook=POST_LOCAL, start=3, allreduce=allreduce, option=option)


@pytest.mark.on_request("local_sgd_8")
@pytest.mark.parametrize(("period", "warmup"), [(2, 0), (3, 1)])
def test_gradients_ways_to_average_parameters(
    promise: PromiseCheck, gradient_world: str, period: int, warmup: int
) -> None:
    promise(gradient_world, "parameters:averages", averager=AVERAGER, period=period, warmup=warmup)


@pytest.mark.parametrize("sync", [True, False], ids=["init_sync", "no_init_sync"])
def test_gradients_ways_to_start(promise: PromiseCheck, gradient_world: str, sync: bool) -> None:
    promise(gradient_world, "parameters:start", sync=sync)


@pytest.mark.unless(reason=other_buffers)
@pytest.mark.parametrize("buffers", BUFFER_SCENARIOS)
def test_gradients_ways_with_buffers(promise: PromiseCheck, gradient_world: str, buffers: str) -> None:
    promise(gradient_world, "parameters:buffers", scenario=buffers)
