"""Scripts of many styles, measured under several configs and described right."""

from collections.abc import Callable
from pathlib import Path
from statistics import median
from textwrap import dedent, indent

import pytest

from fixtures.launch.protocol import CannotRun
from tests.script.conftest import PLAIN, STEP, Run

# Ways to call the model on 32 samples: set-up, step.
CALLS = {
    "forward": (PLAIN, STEP.replace("m(x)", "m.forward(x)")),
    "keywords": (PLAIN, STEP.replace("m(x)", "m(x=x)")),
    "two views": (
        PLAIN.replace("m =", "Net.forward = lambda self, views: sum(self.head(self.body(v)) for v in views)\nm ="),
        STEP.replace("m(x)", "m([x, x[:, :64]])"),
    ),
    "nested": (
        PLAIN.replace(
            "m =", "Net.forward = lambda self, b: self.head(self.body(b['in'][0] + b['mask'][:, None] * 0))\nm ="
        ),
        STEP.replace("m(x)", "m({'scale': torch.ones(3), 'in': (x,), 'mask': torch.ones(32)})"),
    ),
    "two calls": (PLAIN, STEP.replace("m(x)", "m(x) + m(x)")),
    "first under no_grad": (PLAIN, STEP.replace("loss =", "with torch.no_grad(): m(x[:7])\nloss =")),
    "accumulated": (
        PLAIN,
        STEP.replace("batch()", "batch(16)").replace("o.step()", "m(batch(16)[0]).sum().backward()\no.step()"),
    ),
}


@pytest.mark.parametrize("how", CALLS)
def test_the_samples_of_a_step_are_counted(run: Run, script: Callable[..., Path], how: str) -> None:
    before, step = CALLS[how]
    first, _ = run(script(before, step), check_gradients=True)
    assert first.workload_fingerprint.batch_size == 32
    assert first.gradient_lossless


def test_the_samples_of_batches_that_are_objects_are_those_of_the_loader(run: Run, script: Callable[..., Path]) -> None:
    """Such as graphs, whose first dimension is the number of nodes."""
    before = PLAIN + (
        "from torch.utils.data import DataLoader\n"
        "class Graphs:\n    def __init__(self, each): self.x = torch.cat(each)\n"
        "graphs = [torch.randn(5 + n % 3, 64) for n in range(1600)]\n"
        "batches = iter(DataLoader(graphs, 16, collate_fn=Graphs))\n"
    )
    step = STEP.replace("x, y = batch()", "x = next(batches).x").replace("loss_of(m(x), y)", "m(x).square().mean()")
    first, _ = run(script(before, step), check_gradients=True)
    assert first.workload_fingerprint.batch_size == 16


def test_the_samples_of_a_model_without_ddp_are_counted(run: Run, tmp_path: Path) -> None:
    """Of a step with three batches, by a module that has all elements in another one, which it calls."""
    script = """
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(10, 2)
            def forward(self, x):
                return self.linear(x)

        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(100):
            optimizer.zero_grad()
            for _ in range(3):
                model(torch.randn(4, 10)).sum().backward()
            optimizer.step()
    """
    (tmp_path / "train.py").write_text(dedent(script))
    (alone,) = run(tmp_path / "train.py", "single", "1cpu")
    assert alone.workload_fingerprint.batch_size == 3 * 4
    assert alone.found["model"].startswith("Net,")


TWO_MODELS = """
generator = DDP(nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 64)))
critic = DDP(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)))
adams = [torch.optim.Adam(one.parameters(), lr=1e-4) for one in (generator, critic)]
"""
ADVERSARIAL = """
real, noise = torch.randn(16, 64, generator=g), torch.randn(16, 32, generator=g)
with torch.no_grad():
    fake = generator(noise)
adams[1].zero_grad()
(nn.functional.softplus(-critic(real)).mean() + nn.functional.softplus(critic(fake)).mean()).backward()
adams[1].step()
if i % 2:
    critic.requires_grad_(False)
    adams[0].zero_grad()
    generator.requires_grad_(True)
    nn.functional.softplus(-critic(generator(noise))).mean(0).backward()
    adams[0].step()
    critic.requires_grad_(True)
    generator.requires_grad_(False)
"""


@pytest.mark.parametrize("config", ["as_written", "bf16", "powersgd_rank1", "no_comm"])
def test_two_models_and_two_optimizers(run: Run, script: Callable[..., Path], config: str) -> None:
    first, _ = run(script(TWO_MODELS, ADVERSARIAL, 200), config, check_gradients=True)
    assert first.workload_fingerprint.batch_size == 16
    assert first.found["model"].count("Sequential") == 2
    assert sum(size for size, _ in first.gradients) == 4 * ((32 + 1) * 96 + (96 + 1 + 64 + 1) * 64 + 64 + 1)
    assert first.found["ddp"].startswith("2 modules of DDP(")
    assert first.gradient_error is not None
    assert (first.wrong, first.gradient_lossless) == (
        None,
        {"as_written": True, "powersgd_rank1": None}.get(config, False),
    )


def test_an_optimizer_for_each_parameter(run: Run, script: Callable[..., Path]) -> None:
    before = "m = DDP(nn.Sequential(*(nn.Linear(64, 64) for _ in range(60))))\n" + (
        "many = [torch.optim.SGD([p], lr=0.01) for p in m.parameters()]"
    )
    first, _ = run(script(before, "m(batch()[0]).sum().backward()\nfor o in many: o.step(); o.zero_grad()"))
    assert first.found["optimizer"] == "SGD"
    assert min(first.phases_s["forward"]) > 0


def test_a_script_imports_from_its_own_pythonpath(run: Run, script: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "of_the_scripts.py").write_text("rate = 0.01\n")
    before = PLAIN.replace("lr=0.01", "lr=of_the_scripts.rate")
    path = script(f"import of_the_scripts\n{before}")
    assert run(path, variables={"PYTHONPATH": str(tmp_path / "lib")})[0].step_s


def test_a_script_that_ends_in_a_later_block_keeps_what_was_measured(run: Run, script: Callable[..., Path]) -> None:
    ends = script(f"import time\n{PLAIN}", f"{STEP}time.sleep(0.05)\n", 29)
    first, _ = run(ends, steps=60, precision_percent=1e-9, check_gradients=True)
    assert 8 <= len(first.step_s) <= 25
    assert first.remarks == ["gradients not compared: the script ended before; give it more batches, or lower --steps"]


@pytest.mark.parametrize("often", [1, 5])
def test_an_optimizer_that_is_made_anew_is_the_same(run: Run, script: Callable[..., Path], often: int) -> None:
    step = f"if i % {often} == 0: o = torch.optim.SGD(m.parameters(), lr=0.01)\n{STEP}"
    assert run(script(step=step), check_gradients=True)[0].gradient_lossless


def test_a_training_without_ddp_may_come_before(run: Run, script: Callable[..., Path]) -> None:
    loop = "for _ in range(80):\n    n(batch()[0]).sum().backward(); p.step()\n"
    alone = f"n = Net(); p = torch.optim.AdamW(n.parameters())\n{loop}"
    first, _ = run(script(alone + PLAIN), check_gradients=True)
    assert first.found["optimizer"] == "SGD"
    assert first.gradient_lossless


SAVING = """
if i % 3 == 0:
    best = copy.deepcopy(m)
    with torch.no_grad(): best(x)
    torch.save(m, path + str(rank))
    loaded = torch.load(path + str(rank), weights_only=False)
"""


@pytest.mark.parametrize("config", ["as_written", "ddp_default", "bf16", "no_comm"])
def test_a_model_that_is_copied_and_saved_has_nothing_of_the_suite(
    run: Run, script: Callable[..., Path], tmp_path: Path, config: str
) -> None:
    before = f"path = {str(tmp_path / 'model')!r}\n{PLAIN}"
    first, _ = run(script(before, STEP + SAVING), config, check_gradients=True)
    assert first.gradient_error is not None
    assert b"fixtures" not in (tmp_path / "model0").read_bytes()


def test_a_model_without_ddp_that_is_saved_has_nothing_of_the_suite(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "import copy, torch\nm = torch.nn.Sequential(torch.nn.Linear(8, 8))\n"
        "o = torch.optim.SGD(m.parameters(), lr=0.1)\nfor _ in range(60):\n    m(torch.randn(4, 8)).sum().backward()\n"
        f"    o.step(); copy.deepcopy(m); torch.save(m, {str(tmp_path / 'model')!r})\n"
    )
    (alone,) = run(path, "single", "1cpu")
    assert min(alone.phases_s["forward"]) > 0
    assert b"fixtures" not in (tmp_path / "model").read_bytes()


BUFFER = PLAIN.replace("Net()", "Net(buffer=250_000)")


def test_without_communication_nothing_is_sent_not_even_buffers(run: Run, script: Callable[..., Path]) -> None:
    sent = {
        config: run(script(BUFFER), config)[0]
        for config in ("as_written", "no_comm", "no_buffer_broadcast-bucket_25mb")
    }
    assert (sent["as_written"].sent_bytes_per_step or 0) > 400_000  # a half of 1 MB, on average
    assert (sent["no_comm"].sent_bytes_per_step or 0) < 20_000
    assert sent["no_comm"].wire_bytes_per_step == 0
    assert (sent["no_buffer_broadcast-bucket_25mb"].sent_bytes_per_step or 0) < 60_000


def test_what_is_sent_before_the_measured_steps_does_not_count(run: Run, script: Callable[..., Path]) -> None:
    """DDP's constructor sends the buffer; a warm-up of two steps has none to time."""
    assert (run(script(BUFFER), "no_comm", warmup=2)[0].sent_bytes_per_step or 0) < 20_000


def test_a_model_without_buffers_has_no_broadcast_to_leave_out(run: Run, script: Callable[..., Path]) -> None:
    with pytest.raises(CannotRun, match="leaves out the broadcast of buffers, and the model has none"):
        run(script(), "no_buffer_broadcast-bucket_25mb")


def test_what_a_script_sends_by_itself_is_named_with_its_bytes(run: Run, script: Callable[..., Path]) -> None:
    step = STEP + "dist.all_reduce(torch.zeros(500_000))\n"
    first, _ = run(script(step=step), "no_comm", check_gradients=True)
    (line,) = first.remarks
    assert line == "the script itself sends in a step, per rank: all_reduce (train.py:39): 2 MB"


def test_what_a_script_sends_beside_ddp_in_a_few_bytes_is_not_said(run: Run, script: Callable[..., Path]) -> None:
    first, _ = run(script(step=STEP + "dist.all_reduce(loss.detach())\n"), "no_comm", check_gradients=True)
    assert first.remarks == []


AUGMENTED = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    augment = nn.Sequential(nn.Dropout(0.1), nn.Dropout(0.1))
    def __len__(self): return 400
    def __getitem__(self, i):
        for _ in range(50): self.augment(torch.ones(4))
        return torch.randn(8)
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    for x in DataLoader(Data(), batch_size=4, num_workers=2):
        model(x).sum().backward()
        optimizer.step()
"""


STARVED = """
import time, torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self): return 4000
    def __getitem__(self, i):
        time.sleep(0.02)
        return torch.randn(8)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(Data(), batch_size=4, num_workers=4):
    model(x).sum().backward()
    optimizer.step()
"""


def test_steps_of_a_starved_loader_last_as_long_as_on_average(run: Run, tmp_path: Path) -> None:
    """Four workers deliver four batches in 80 ms: three of four steps wait for none."""
    path = tmp_path / "train.py"
    path.write_text(STARVED)
    for _ in range(4):  # on a busy machine the workers take longer
        step_s = median(run(path, steps=60)[0].step_s)
        assert step_s > 0.014
        if step_s < 0.026:
            break
    assert step_s < 0.026


def test_modules_that_a_loaders_worker_calls_are_not_the_model(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(AUGMENTED)
    (alone,) = run(path, "single", "1cpu")
    assert alone.found["model"].startswith("Linear")
    assert alone.workload_fingerprint.batch_size == 4


def test_gradients_of_two_dtypes_are_not_in_one_sum(run: Run, script: Callable[..., Path]) -> None:
    before = (
        PLAIN.replace("m =", "n = Net(); n.body.bfloat16()\nm =").replace("Net()", "n").replace("n = n", "n = Net()")
    )
    step = STEP.replace("m(x)", "m(x.bfloat16())")
    forward = "Net.forward = lambda self, x: self.head(self.body(x).float())\n"
    first, _ = run(script(forward + before, step), "bf16", check_gradients=True)
    assert first.gradient_lossless is False
    assert 1e-3 < (first.gradient_error or 0) < 5e-3


SPARSE = """
table = nn.EmbeddingBag(500, 64, sparse=True, mode="mean")
m = DDP(nn.Sequential(table, nn.Linear(64, 64)))
o = torch.optim.SGD(m.parameters(), lr=0.01)
"""


def test_sparse_gradients_are_compared_and_powersgd_cannot_take_them(run: Run, script: Callable[..., Path]) -> None:
    step = STEP.replace("x, y = batch()", "x, y = torch.randint(500, (32, 8), generator=g), batch()[1]")
    assert run(script(SPARSE, step), check_gradients=True)[0].gradient_lossless
    with pytest.raises(CannotRun, match=r"powersgd_rank1 cannot take sparse gradients"):
        run(script(SPARSE, step), "powersgd_rank1")


def test_a_copy_that_trains_too_answers_nothing(run: Run, script: Callable[..., Path]) -> None:
    """It has the rank's channel, and would answer in the rank's place."""
    first, _ = run(script(f"{PLAIN}\nif os.fork() == 0: m = m.module"))
    assert first.step_s


# All stages of a launch.
ALL = {"check_gradients": True, "profile": 2, "watch_s": 0.1, "turns_s": 0.1}


def test_each_resumption_leaves_the_state_of_the_training_as_it_was(run: Run, script: Callable[..., Path]) -> None:
    state = """
def state():
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.are_deterministic_algorithms_enabled()
    return *modes, torch.is_autocast_enabled("cpu"), torch.get_num_threads(), torch.get_rng_state().sum().item()
"""
    compared = STEP.replace("o.step()", "before = state(); o.step(); assert state() == before, (before, state())")
    results = run(script(PLAIN + state, compared, steps=300), **ALL)
    assert all(result.host_time and result.breakdown and result.block_s for result in results)
    assert not any("raised" in remark for result in results for remark in result.remarks)


def test_an_error_of_the_flow_is_the_answer_of_the_rank_although_the_script_catches_it(
    run: Run, script: Callable[..., Path]
) -> None:
    breaks = f"{PLAIN}\nfrom fixtures.ranks.script import flow; flow.Profiling = None"
    results = run(script(breaks, f"try:\n{indent(STEP, '    ')}\nexcept Exception:\n    pass"), profile=2)
    assert all(any("raised after its measured steps" in one for one in result.remarks) for result in results)
