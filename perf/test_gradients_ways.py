"""Does every hook keep its promise in every DDP scenario?   pytest perf -k gradients_ways"""

import pytest

from fixtures.gradients.cases.buffers import BUFFER_SCENARIOS
from fixtures.gradients.cases.checks import Check
from fixtures.gradients.cases.ddp_options import DDP_OPTIONS
from fixtures.gradients.cases.optimizers import UPDATE_OPTIONS, UPDATES, optimizers_for
from fixtures.gradients.cases.scenarios import SCENARIOS, kinds_for
from fixtures.gradients.fixtures import PromiseCheck, skip_repetition
from fixtures.matrix.hooks import find_hook
from fixtures.matrix.torch_version import torch_version
from fixtures.matrix.worlds import parse_world

_ALGORITHMS = "torch.distributed.algorithms"
POST_LOCAL = f"{_ALGORITHMS}.ddp_comm_hooks.post_localSGD_hook:post_localSGD_hook"
AVERAGER = f"{_ALGORITHMS}.model_averaging.averagers:PeriodicModelAverager"

# On GPUs two ranks and all; test_gradients.py covers three, whose division is inexact.
pytestmark = pytest.mark.two_worlds


def skip_unless_it_runs(world: str, hook: str, scenario: str, option: str) -> None:
    """Skip with the reason if this torch, its DDP or this backend does not support it."""
    reasons = (
        find_hook(hook).why_not_on_gloo() if world.endswith("cpu") else None,
        DDP_OPTIONS[option].why_not(),
        SCENARIOS[scenario].why_not(hook, parse_world(world), torch_version()),
    )
    if reason := next(filter(None, reasons), None):
        pytest.skip(reason)
    if reason := SCENARIOS[scenario].shown_elsewhere(hook, parse_world(world)):
        skip_repetition(reason)


def test_gradients_ways(
    promise: PromiseCheck, gradient_world: str, scenario_hook: str, scenario: str, option: str
) -> None:
    skip_unless_it_runs(gradient_world, scenario_hook, scenario, option)
    kinds = kinds_for(scenario_hook, SCENARIOS[scenario])
    promise(gradient_world, Check.SCENARIO, hook=scenario_hook, scenario=scenario, option=option, kinds=kinds, seed=0)


@pytest.mark.parametrize("option", UPDATE_OPTIONS)
@pytest.mark.parametrize("update", UPDATES)
def test_gradients_ways_to_step(promise: PromiseCheck, gradient_world: str, update: str, option: str) -> None:
    if reason := UPDATES[update].why_not(option, on_cpu=gradient_world.endswith("cpu")):
        pytest.skip(reason)
    promise(gradient_world, Check.OPTIMIZERS, update=update, optimizers=optimizers_for(option), option=option, seed=0)


@pytest.mark.parametrize("option", ["bucket_1kb", "bucket_view", "static_graph"])
@pytest.mark.parametrize("allreduce", [True, False], ids=["group_mean", "own"])
def test_gradients_ways_of_post_local_sgd(
    promise: PromiseCheck, gradient_world: str, allreduce: bool, option: str
) -> None:
    asked = {"hook": POST_LOCAL, "start": 3, "allreduce": allreduce, "option": option, "seed": 0}
    promise(gradient_world, Check.POST_LOCAL_SGD, **asked)


@pytest.mark.parametrize(("period", "warmup"), [(2, 0), (3, 1)])
def test_gradients_ways_to_average_parameters(
    promise: PromiseCheck, gradient_world: str, period: int, warmup: int
) -> None:
    promise(gradient_world, Check.PARAMETER_AVERAGER, averager=AVERAGER, period=period, warmup=warmup, seed=0)


@pytest.mark.parametrize("sync", [True, False], ids=["init_sync", "no_init_sync"])
def test_gradients_ways_to_start(promise: PromiseCheck, gradient_world: str, sync: bool) -> None:
    promise(gradient_world, Check.INITIAL_STATE, sync=sync)


@pytest.mark.parametrize("buffers", BUFFER_SCENARIOS)
def test_gradients_ways_with_buffers(promise: PromiseCheck, gradient_world: str, buffers: str) -> None:
    if reason := BUFFER_SCENARIOS[buffers].why_not(torch_version()):
        pytest.skip(reason)
    promise(gradient_world, Check.BUFFERS, scenario=buffers)
