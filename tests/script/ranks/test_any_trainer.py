"""Scripts that train without DDP, in live ranks: sharded, split, averaged by hand, with steps that only they know."""

from collections.abc import Callable
from pathlib import Path
from statistics import median
from textwrap import dedent, indent

import pytest

from fixtures.launch.protocol import CannotRun
from tests.script.conftest import STEPS, Run

HEAD = """
import torch
import torch.distributed as dist
from torch import nn

torch.manual_seed(0)
"""
GROUP = 'dist.init_process_group("gloo")\n'
MODEL = """
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
"""
SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
STEP = """
x, y = torch.randn(16, 64), torch.randint(0, 10, (16,))
optimizer.zero_grad()
nn.functional.cross_entropy(model(x), y).backward()
"""
FSDP2 = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for layer in (model[0], model[2], model):
    fully_shard(layer, mesh=mesh)
"""
SPLIT = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
"""
BY_HAND = """
for p in model.parameters():
    dist.all_reduce(p.grad)
    p.grad /= dist.get_world_size()
"""


@pytest.fixture
def trainer(tmp_path: Path) -> Callable[..., Path]:
    """Writes a script from its set-up and its step."""

    def write(before: str, step: str, steps: int = 400) -> Path:
        path = tmp_path / "train.py"
        path.write_text("\n".join((HEAD, before, f"for i in range({steps}):", indent(dedent(step), "    "))))
        return path

    return write


@pytest.mark.parametrize(
    ("before", "step", "called"),
    [
        (GROUP + MODEL + FSDP2 + SGD, STEP + "optimizer.step()", "FSDP2 (fully_shard)"),
        (GROUP + MODEL + SPLIT + SGD, STEP + "optimizer.step()", "no DDP"),
        (GROUP + MODEL + SGD, STEP + BY_HAND + "optimizer.step()", "no DDP"),
    ],
    ids=["FSDP2", "tensor parallel", "averaged by hand"],
)
def test_a_training_without_ddp_is_measured_as_written(
    run: Run, trainer: Callable[..., Path], before: str, step: str, called: str
) -> None:
    script = trainer(before, step)
    results = run(script, check_gradients=True, profile=2)
    assert [len(result.step_s) for result in results] == [STEPS, STEPS]
    first = results[0]
    assert first.found["ddp"] == called
    assert first.found["batch"].startswith("16 samples")
    assert first.wrong is None
    assert first.remarks == []
    profiles = [result.breakdown for result in results if result.breakdown is not None]
    collectives = [collective for profile in profiles for step in profile.steps for collective in step.collectives]
    assert len(profiles) == len(results)
    assert sum(collective.ns for collective in collectives) > 0  # beside load a rank can compute through all of one
    assert first.wire_bytes_per_step is None
    assert (first.sent_bytes_per_step or 0) > 0
    with pytest.raises(CannotRun, match=r"train\.py trains without DDP, which bf16 changes"):
        run(script, "bf16")


APART = "4 of 4 parameters differ between ranks (0.bias [64], 0.weight [64, 64], 2.bias [10] and 1 more)"
SEEDS = "torch.manual_seed(dist.get_rank())\n"


def test_ranks_that_send_nothing_and_differ_in_all_train_different_models(
    run: Run, trainer: Callable[..., Path]
) -> None:
    """A broadcast before the first step, and barriers, average nothing."""
    start = "for p in model.parameters(): dist.broadcast(p.data, 0)\n"
    script = trainer(GROUP + MODEL + SGD + SEEDS + start, STEP + "optimizer.step(); dist.barrier()")
    wrong = run(script, check_gradients=True)[0].wrong or ""
    assert wrong.startswith(f"the ranks train different models: {APART}, and no rank called a collective in ")
    meant = run(script, check_gradients=True, ranks_differ=True)[0]
    assert (meant.wrong, meant.remarks) == (None, [wrong])


def test_ranks_that_send_and_differ_may_be_meant_so(run: Run, trainer: Callable[..., Path]) -> None:
    step = STEP + "optimizer.step(); dist.all_reduce(torch.ones(1)) if i % 50 == 3 else None"
    first = run(trainer(GROUP + MODEL + SGD + SEEDS, step), check_gradients=True)[0]
    assert first.wrong is None
    assert [remark.startswith(f"{APART}: right where each rank has a part") for remark in first.remarks] == [True]


def test_a_replicated_parameter_that_differs_is_wrong(run: Run, trainer: Callable[..., Path]) -> None:
    """torch.distributed.tensor promises that it is the same on all ranks."""
    breaks = "with torch.no_grad(): model[2].bias.to_local().add_(dist.get_rank())\n"
    first = run(trainer(GROUP + MODEL + SPLIT + SGD + breaks, STEP + "optimizer.step()"), check_gradients=True)[0]
    says = "the ranks train different models: 1 parameter replicated by its DTensor differs between ranks: 2.bias [10]"
    assert first.wrong == says


def test_a_ddp_module_that_comes_late_is_what_is_trained(run: Run, trainer: Callable[..., Path]) -> None:
    """After the steps without it have begun to count."""
    late = """
    if i == 105:
        from torch.nn.parallel import DistributedDataParallel
        model = DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    """
    first = run(trainer(GROUP + MODEL + SGD, dedent(late) + STEP + "optimizer.step()"), warmup=12)[0]
    assert first.found["ddp"] == "DDP()"
    assert first.wire_bytes_per_step


def test_a_script_without_a_process_group_is_for_one_device(run: Run, trainer: Callable[..., Path]) -> None:
    script = trainer(MODEL + SGD, STEP + "optimizer.step()")
    with pytest.raises(CannotRun, match=r"train\.py joins no process group, so each of 2 ranks trains by itself"):
        run(script)
    (alone,) = run(script, "single", "1cpu")
    assert alone.found["batch"].startswith("16 samples")


def test_a_compiled_model_without_ddp_is_measured(run: Run, trainer: Callable[..., Path]) -> None:
    """Nothing of the suite is traced by dynamo, and dynamo's weak proxies are not asked what they are."""
    compiled = 'model = torch.compile(model, backend="aot_eager")\n'
    (alone,) = run(trainer(MODEL + compiled + SGD, STEP + "optimizer.step()"), "single", "1cpu")
    assert alone.found["batch"].startswith("16 samples")


def test_a_script_marks_the_steps_that_nothing_else_shows(run: Run, trainer: Callable[..., Path]) -> None:
    """No optimizer of torch.optim updates; a step has two backward passes and takes at least 20 ms."""
    marked = """
    import time
    with torch.profiler.record_function("ddp-perf step"):
        for _ in range(2):
            nn.functional.cross_entropy(model(torch.randn(16, 64)), torch.randint(0, 10, (16,))).backward()
        time.sleep(0.02)
        with torch.no_grad():
            for p in model.parameters():
                dist.all_reduce(p.grad)
                p -= 0.001 * p.grad
                p.grad = None
    """
    results = run(trainer(GROUP + MODEL, marked), profile=2)
    assert [len(result.step_s) for result in results] == [STEPS, STEPS]
    assert min(results[0].step_s) > 0.02
    assert median(results[0].phases_s["input"]) < median(results[0].phases_s["backward"])
    assert results[0].breakdown is not None


@pytest.mark.parametrize("marked_from", [0, 2])
def test_marks_of_a_script_with_ddp_keep_its_model_and_optimizer(
    run: Run, trainer: Callable[..., Path], marked_from: int
) -> None:
    """A marked step has two updates; unmarked ones before, as of a graph's warm-up, do not count."""
    ddp = "from torch.nn.parallel import DistributedDataParallel\nmodel = DistributedDataParallel(model)\n"
    two_updates = "for _ in range(2):" + indent(STEP + "optimizer.step()", "    ")
    marked = f"""
import contextlib
with torch.profiler.record_function("ddp-perf step") if i >= {marked_from} else contextlib.nullcontext():
{indent(two_updates, "    ")}
"""
    results = run(trainer(GROUP + MODEL + ddp + SGD, marked), check_gradients=True, turns_s=0.2)
    first = results[0]
    assert [len(result.step_s) for result in results] == [STEPS, STEPS]
    assert (first.found["ddp"], first.found["optimizer"]) == ("DDP()", "SGD")
    assert first.gradient_lossless
    assert first.block_s, first.remarks


def test_marks_after_updates_without_ddp_keep_the_batch(run: Run, trainer: Callable[..., Path]) -> None:
    """As of a captured step: it updates while it is captured, and replays are marked."""
    marked = f"""
if i < 3:
{indent(STEP + "optimizer.step()", "    ")}
else:
    with torch.profiler.record_function("ddp-perf step"):
        dist.all_reduce(torch.zeros(1000))
"""
    first = run(trainer(GROUP + MODEL + SGD, marked))[0]
    assert first.found["batch"].startswith("16 samples")
    assert first.found["optimizer"] == "its own"


def test_a_script_without_steps_says_how_to_mark_them(run: Run, trainer: Callable[..., Path]) -> None:
    with pytest.raises(Exception, match=r'mark its steps with torch.profiler.record_function\("ddp-perf step"\)'):
        run(trainer(GROUP + MODEL, "model(torch.randn(16, 64)).sum().backward()", steps=20))


@pytest.mark.parametrize("known", [False, True])
def test_a_profile_is_of_marked_steps(run: Run, trainer: Callable[..., Path], known: bool) -> None:
    """A profile needs fewer steps before it than a measurement; the script has more updates before its first mark."""
    ddp = "from torch.nn.parallel import DistributedDataParallel\nmodel = DistributedDataParallel(model)\n"
    marked = f"""
if i < 40:
{indent(STEP + "optimizer.step()", "    ")}
else:
    with torch.profiler.record_function("ddp-perf step"):
        torch.zeros(10).sin()
        dist.all_reduce(torch.zeros(1000))
"""
    first = run(trainer(GROUP + MODEL + ddp + SGD, marked), profile=2, steps=1, warmup=2, marked=known)[0]
    assert first.breakdown is not None
    assert ("sin" in str([*first.breakdown.steps[0].kernels])) == known
    assert first.marked == known
    assert first.found["optimizer"] == "SGD"
