"""Does every hook deliver its mean however DDP is run?   pytest perf -k gradients_ways"""

import pytest

from fixtures.judge.equivalence import Promise
from fixtures.matrix.buffers import BUFFER_WAYS
from fixtures.matrix.ddp_options import DDP_OPTIONS
from fixtures.matrix.hooks import find_hook
from fixtures.matrix.torch_version import torch_version
from fixtures.matrix.updates import UPDATE_OPTIONS, UPDATES, optimizers_for
from fixtures.matrix.ways import WAYS, kinds_for
from fixtures.matrix.worlds import parse_world

_ALGORITHMS = "torch.distributed.algorithms"
POST_LOCAL = f"{_ALGORITHMS}.ddp_comm_hooks.post_localSGD_hook:post_localSGD_hook"
AVERAGER = f"{_ALGORITHMS}.model_averaging.averagers:PeriodicModelAverager"

# On GPUs two ranks and all of them: what divides inexactly is held to its bound by test_gradients.py.
pytestmark = pytest.mark.two_worlds


def skip_unless_it_runs(world: str, hook: str, way: str, option: str) -> None:
    """Skip with the reason when this torch, its DDP or this backend cannot do it."""
    reasons = (
        find_hook(hook).why_not_on_gloo() if world.endswith("cpu") else None,
        DDP_OPTIONS[option].why_not(),
        WAYS[way].why_not(hook, parse_world(world), torch_version()),
    )
    if reason := next(filter(None, reasons), None):
        pytest.skip(reason)


def test_gradients_ways(promise: Promise, gradient_world: str, playing_hook: str, way: str, option: str) -> None:
    skip_unless_it_runs(gradient_world, playing_hook, way, option)
    kinds = kinds_for(playing_hook, WAYS[way])
    promise(gradient_world, "ways:check", hook=playing_hook, way=way, option=option, kinds=kinds, seed=0)


@pytest.mark.parametrize("option", UPDATE_OPTIONS)
@pytest.mark.parametrize("update", UPDATES)
def test_gradients_ways_to_step(promise: Promise, gradient_world: str, update: str, option: str) -> None:
    if reason := UPDATES[update].why_not(option, on_cpu=gradient_world.endswith("cpu")):
        pytest.skip(reason)
    promise(gradient_world, "updates:check", update=update, optimizers=optimizers_for(option), option=option, seed=0)


@pytest.mark.parametrize("option", ["bucket_1kb", "bucket_view", "static_graph"])
@pytest.mark.parametrize("allreduce", [True, False], ids=["group_mean", "own"])
def test_gradients_ways_of_post_local_sgd(promise: Promise, gradient_world: str, allreduce: bool, option: str) -> None:
    asked = {"hook": POST_LOCAL, "start": 3, "allreduce": allreduce, "option": option, "seed": 0}
    promise(gradient_world, "local_sgd:post_local", **asked)


@pytest.mark.parametrize(("period", "warmup"), [(2, 0), (3, 1)])
def test_gradients_ways_to_average_parameters(promise: Promise, gradient_world: str, period: int, warmup: int) -> None:
    promise(gradient_world, "local_sgd:averager", averager=AVERAGER, period=period, warmup=warmup, seed=0)


@pytest.mark.parametrize("sync", [True, False], ids=["init_sync", "no_init_sync"])
def test_gradients_ways_to_start(promise: Promise, gradient_world: str, sync: bool) -> None:
    promise(gradient_world, "buffers:start", sync=sync)


@pytest.mark.parametrize("buffers", BUFFER_WAYS)
def test_gradients_ways_with_buffers(promise: Promise, gradient_world: str, buffers: str) -> None:
    if reason := BUFFER_WAYS[buffers].why_not(torch_version()):
        pytest.skip(reason)
    promise(gradient_world, "buffers:follow", way=buffers)
