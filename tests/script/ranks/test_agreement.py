"""What the ranks of a script find out together: whether they train one model, and what each of them has trained."""

from collections.abc import Callable
from pathlib import Path
from textwrap import indent

import pytest

from fixtures.launch.faults import RankFailure
from tests.script.conftest import PLAIN, STEP, Run

# A rank that has ended waits for the others.
PATIENCE = "from fixtures.ranks.script import watch\nwatch._OTHERS_END_S = 1.0\n"
# Scripts whose ranks drift apart: set-up, step, the parameter and the cause that are named.
DRIFTING = {
    "module inside DDP": (PLAIN, STEP.replace("m(x)", "m.module(x)"), "calls the module inside DDP (Net)"),
    "second module": (
        PLAIN + "c = DDP(Net())\no = torch.optim.SGD([*m.parameters(), *c.parameters()], lr=0.01)",
        STEP.replace("m(x)", "m(x) + c.module(x)"),
        "Net 2: head.weight",
    ),
    "replaced": (
        PLAIN.replace("Net()", "Net(), find_unused_parameters=True").replace(
            "o =", "m.module.head.weight = nn.Parameter(m.module.head.weight.detach().clone())\no ="
        ),
        STEP,
        "head.weight by",
    ),
    "initialised last": (
        "torch.manual_seed(rank)\n"
        + PLAIN.replace("o =", "m.apply(lambda one: getattr(one, 'reset_parameters', int)())\no ="),
        STEP,
        "given different values on the ranks after DDP was constructed",
    ),
    "never made equal": (
        "torch.manual_seed(rank)\n" + PLAIN.replace("Net()", "Net(), init_sync=False"),
        STEP,
        "DDP did not make the ranks equal (init_sync=False)",
    ),
    "loaded on one rank": (
        PLAIN + "if rank == 0: m.load_state_dict({name: one + 1 for name, one in m.state_dict().items()})",
        STEP,
        "initialise and load before DDP is constructed",
    ),
    "always under no_sync": (
        PLAIN,
        STEP.replace("loss = ", "with m.no_sync(): loss = ").replace("loss.b", "with m.no_sync(): loss.b"),
        "each forward pass is under no_sync",
    ),
    "excluded": (
        PLAIN.replace("m = DDP(Net())", "n = Net(); n._ddp_params_and_buffers_to_ignore = ['head.bias']; m = DDP(n)"),
        STEP,
        "head.bias by",
    ),
    "unfrozen": (
        PLAIN.replace(
            "m = DDP(Net())",
            "n = Net(); n.head.requires_grad_(False); m = DDP(n); n.head.requires_grad_(True)",
        ),
        STEP,
        "required no gradient when DDP was constructed",
    ),
    "unfrozen later": (
        PLAIN.replace("m = DDP(Net())", "n = Net(); n.head.requires_grad_(False); m = DDP(n)"),
        STEP + "n.head.requires_grad_(True)\n",
        "required no gradient when DDP was constructed",
    ),
    "dtype changed": (
        PLAIN + "m.bfloat16()",
        STEP.replace("m(x)", "m(x.bfloat16())"),
        "its dtype changed from float32 to bfloat16 after DDP was constructed",
    ),
    "changed on each rank": (PLAIN, STEP + "m.module.head.bias.data.add_(0.01 * rank)\n", "head.bias by"),
}


@pytest.mark.parametrize("what", DRIFTING)
def test_ranks_that_drift_apart_are_wrong_with_the_cause(run: Run, script: Callable[..., Path], what: str) -> None:
    before, step, says = DRIFTING[what]
    first, _ = run(script(before, step), check_gradients=True)
    assert first.wrong is not None
    assert says in first.wrong
    assert " % of the distance moved" in first.wrong


ADAM = PLAIN.replace("SGD", "AdamW")
CLIPPED = STEP.replace("o.step()", "nn.utils.clip_grad_norm_(m.parameters(), 0.1)\no.step()")
# Sound scripts whose parameters are at rest at different times.
SOUND = {
    "plain": (PLAIN, STEP),
    "adam, clipped": (ADAM, CLIPPED),
    "bfloat16": (
        PLAIN.replace("Net()", "Net().bfloat16()"),
        CLIPPED.replace("batch()", "batch()\nx = x.bfloat16()"),
    ),
    "buffers": (PLAIN.replace("Net()", "Net(norm=True)"), STEP),
    "ZeRO-1": (
        PLAIN.replace(
            "torch.optim.SGD(m.parameters(), lr=0.01)", "Z(m.parameters(), optimizer_class=torch.optim.SGD, lr=0.1)"
        ).replace("m = ", "from torch.distributed.optim import ZeroRedundancyOptimizer as Z\nm = "),
        STEP,
    ),
    "hook": (PLAIN + "m.register_comm_hook(None, fp16_compress_hook)", STEP),
    "unused": (PLAIN.replace("Net()", "Net(), find_unused_parameters=True"), STEP),
}


@pytest.mark.parametrize("what", SOUND)
@pytest.mark.parametrize("config", ["as_written", "bf16"])
def test_sound_scripts_agree_in_silence(run: Run, script: Callable[..., Path], what: str, config: str) -> None:
    first, _ = run(script(*SOUND[what]), config, check_gradients=True)
    assert first.wrong is None
    assert first.remarks == []
    assert first.gradient_error is not None
    assert first.gradient_lossless is (what == "bfloat16" or (config == "as_written" and what != "hook"))


# Scripts that are measured, and the remark on each.
REMARKS = {
    "bypassed twin": (PLAIN + "DDP(nn.Linear(2, 2))", STEP, "of Linear 2 is never called"),
    "hidden": (
        PLAIN + "f = torch.compile(lambda x: m(x), backend='eager')",
        STEP.replace("m(x)", "f(x)"),
        "the forward pass of DDP is hidden in compiled code",
    ),
    "hook never called": (
        PLAIN + "m.register_comm_hook(None, fp16_compress_hook)",
        STEP.replace("loss = ", "with m.no_sync(): loss = "),
        "the hook fp16_compress_hook is registered and never called",
    ),
    "no_sync around backward": (
        PLAIN,
        STEP.replace("loss.backward()", "loss.backward()").replace(
            "x, y", "with m.no_sync() if i < 0 else contextlib.nullcontext(): x, y"
        )
        + "loss = loss_of(m(x), y)\nwith m.no_sync(): loss.backward()\n",
        "put the forward pass inside no_sync() too",
    ),
    "same samples": (PLAIN.replace("m =", "g.manual_seed(0)\nm ="), STEP, "all ranks train the same samples"),
    "skipped batch": (
        PLAIN,
        STEP.replace("loss =", "if rank == 1 and i == 9: continue\nloss ="),
        "rank 1 ran 1 backward pass less",
    ),
    "local buffers": (
        PLAIN.replace("Net()", "Net(norm=True), broadcast_buffers=False"),
        STEP,
        "2 buffers that DDP does not broadcast differ between ranks",
    ),
    "outside": (
        PLAIN + "e = nn.Linear(64, 64); o = torch.optim.SGD([*m.parameters(), *e.parameters()], lr=0.01)",
        STEP.replace("m(x)", "m(e(x))"),
        "2 parameters outside of DDP differ between ranks",
    ),
}


@pytest.mark.parametrize("what", REMARKS)
def test_what_is_unusual_is_one_line(run: Run, script: Callable[..., Path], what: str) -> None:
    before, step, says = REMARKS[what]
    first, _ = run(script(before, step), check_gradients=True)
    (line,) = first.remarks
    assert says in line
    assert (first.gradient_lossless is None) == (what in ("outside", "hook never called", "hidden"))


def test_ranks_that_differ_on_purpose_are_one_line(run: Run, script: Callable[..., Path]) -> None:
    first, _ = run(script(step=STEP.replace("m(x)", "m.module(x)")), check_gradients=True, ranks_differ=True)
    assert first.wrong is None
    assert first.remarks[0].startswith("the ranks train different models: after")


def test_a_parameter_that_was_replaced_explains_the_error_of_ddp(run: Run, script: Callable[..., Path]) -> None:
    before = DRIFTING["replaced"][0].replace(", find_unused_parameters=True", "")
    with pytest.raises(RankFailure, match=r"train.py: head.weight was replaced after DDP was constructed") as failure:
        run(script(before), check_gradients=True)
    assert len(str(failure.value).splitlines()) == 1
    first, _ = run(script(before), "bf16", check_gradients=True)
    assert "head.weight by" in (first.wrong or "")


@pytest.mark.parametrize(
    ("place", "line", "says"),
    [
        (
            "loss =",
            "if rank == 1 and i == 5: x[0] = float('nan')",
            "the loss of rank 1 was the first that was not finite, in backward pass 6",
        ),
        (
            "x, y",
            "if rank == 1 and i == 6: break",
            "rank 1 of train.py ended after 6 optimizer steps, rank 0 had not",
        ),
    ],
    ids=["not finite", "uneven batches"],
)
def test_the_rank_that_was_the_first_is_named(
    run: Run, script: Callable[..., Path], place: str, line: str, says: str
) -> None:
    with pytest.raises(RankFailure, match=says):
        run(script(PATIENCE + PLAIN, STEP.replace(place, f"{line}\n{place}")), check_gradients=True)


def test_a_rank_that_evaluates_has_skipped_no_batch(run: Run, script: Callable[..., Path]) -> None:
    """With a data set of the class that the ranks train on."""
    before = PLAIN + (
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "valid, batches = (DataLoader(TensorDataset(torch.randn(n, 64)), 32) for n in (256, 6400))\n"
        "def evaluate():\n    with torch.no_grad():\n        for (x,) in valid: m.module(x)\n"
        "if rank == 0: evaluate()\n"
        "following = iter(batches)\n"
    )
    step = "if rank == 0 and i % 2: evaluate()\n" + STEP.replace(
        "x, y = batch()", "x, y = next(following)[0], batch()[1]"
    )
    first, _ = run(script(before, step), check_gradients=True)
    assert not [line for line in first.remarks if "less than others" in line]


def test_a_rank_without_batches_under_join_is_named(run: Run, script: Callable[..., Path]) -> None:
    step = f"with Join([m]):\n  for i in range(4 if rank else 50):\n{indent(STEP, '    ')}"
    before = PATIENCE + PLAIN + "from torch.distributed.algorithms.join import Join\n"
    with pytest.raises(RankFailure, match=r"rank 1 of train.py had no more batches under its Join 1 after 4 optimizer"):
        run(script(before, step), check_gradients=True)
    step = step.replace("4 if rank else 50", "5")
    first, _ = run(script(before, step), check_gradients=True)
    assert first.gradient_lossless


TWO_BATCHES = """
o.zero_grad()
for part in range(2):
    loss_of(m(batch()[0]), batch()[1]).backward()
o.step()
"""
TWO_MODULES = """
m, other = DDP(Net()), DDP(nn.Linear(10, 64))
o, p = (torch.optim.SGD(x.parameters(), lr=0.01) for x in (m, other))
"""
THROUGH_ANOTHER = "p.zero_grad(); m(other(torch.randn(8, 10))).sum().backward(); p.step()"


@pytest.mark.parametrize(
    ("before", "step", "said"),
    [
        pytest.param(PLAIN, TWO_BATCHES, "2 batches a step", id="accumulation"),
        pytest.param(
            PLAIN, TWO_BATCHES.replace("zero_grad()", "zero_grad(set_to_none=False)"), "2 batches a step", id="zeros"
        ),
        pytest.param(
            PLAIN,
            TWO_BATCHES.replace("    loss", "    with m.no_sync() if not part else contextlib.nullcontext(): loss"),
            "",
            id="no_sync",
        ),
        pytest.param(PLAIN, TWO_BATCHES.replace("    loss", "    o.zero_grad(); loss"), "", id="only_the_last_counts"),
        pytest.param(
            PLAIN,
            TWO_BATCHES.replace("    loss", "    o.zero_grad(set_to_none=False); loss"),
            "",
            id="only_the_last_counts_zeros",
        ),
        pytest.param(PLAIN, TWO_BATCHES.replace("backward()", "backward(); o.step()"), "", id="an_update_each"),
        pytest.param(PLAIN, TWO_BATCHES.replace("range(2)", "range(1 + (i == 0))"), "", id="in_the_first_step"),
        pytest.param(
            PLAIN,
            "o.zero_grad(); (loss_of(m(batch()[0]), batch()[1]) + m(batch()[0]).sum()).backward(); o.step()",
            "",
            id="one_backward_pass",
        ),
        pytest.param(PLAIN.replace("DDP(Net())", "DDP(Net(), static_graph=True)"), TWO_BATCHES, "", id="static_graph"),
        pytest.param(
            PLAIN.replace("DDP(Net())", "DDP(Net(), find_unused_parameters=True)"),
            TWO_BATCHES,
            "2 batches a step",
            id="unused",
        ),
        pytest.param(
            "Net.forward = lambda self, x: self.head(self.body(x)) if len(x) > 8 else self.body(x)[:, :10]"
            + PLAIN.replace("DDP(Net())", "DDP(Net(), find_unused_parameters=True)"),
            TWO_BATCHES.replace("batch()", "batch(32 - 24 * part)"),
            "",
            id="batches_that_use_different_parameters",
        ),
        pytest.param(
            PLAIN, TWO_BATCHES.replace("range(2)", "range(1 + (i > 0))"), "2 batches a step", id="after_the_first_step"
        ),
        pytest.param(TWO_MODULES, THROUGH_ANOTHER + STEP, "", id="through_another"),
        pytest.param(TWO_MODULES, TWO_BATCHES + THROUGH_ANOTHER, "3 batches a step of Net 1", id="two_and_another"),
    ],
)
def test_batches_that_are_all_reduced_one_by_one_are_said_where_one_all_reduce_would_do(
    run: Run, script: Callable[..., Path], before: str, step: str, said: str
) -> None:
    for result in run(script(before, step), check_gradients=True):
        assert [line for line in result.remarks if "batches a step" in line][:1] == [
            f"each of {said} is all-reduced, where one all-reduce is enough: put the forward and backward passes of "
            "all batches but the last inside no_sync()"
        ] * bool(said)
        assert result.all_reduced_batches == (int(said[0]) if said else None)


Write = Callable[..., Path]
CLIPS = "clip = nn.utils.clip_grad_norm_\nscaler = torch.amp.GradScaler('cpu')\nfree = nn.Parameter(torch.ones(64))\n"
SHARDED = """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
m = FSDP(Net(), device_id=torch.device("cpu"))
o = torch.optim.SGD(m.parameters(), lr=0.01)
"""
SCALED = STEP.replace("loss.backward()", "scaler.scale(loss).backward()")
SCALED = SCALED.replace("o.step()", "scaler.step(o)\nscaler.update()")
KEPT = """
was = [p.grad.clone() for p in m.parameters()]
clip(m.parameters(), 0.01)
for p, gradient in zip(m.parameters(), was):
    p.grad = gradient
"""
COPIES = """
copies = [nn.Parameter(p.detach().clone()) for p in m.parameters()]
for p, one in zip(m.parameters(), copies):
    one.grad = p.grad.clone()
clip(copies, 0.01)
"""


def with_clip(line: str, step: str = STEP) -> str:
    place = "scaler.step(o)" if "scaler" in step else "o.step()"
    return step.replace(place, f"{line}\n{place}")


def wrong_of(run: Run, path: Path) -> str | None:
    return run(path, check_gradients=True, steps=8)[0].wrong


@pytest.mark.parametrize(
    ("before", "step", "says"),
    [
        (PLAIN, with_clip(KEPT), "these gradients were not clipped"),
        (PLAIN, with_clip(COPIES), "of parameters that no optimizer updates"),
        (PLAIN, with_clip("clip(m.parameters(), 0.01)", SCALED), "it clipped gradients that were still scaled"),
        (SHARDED, with_clip("clip(m.parameters(), 0.01)"), "it must be the norm of the gradients of all ranks"),
    ],
    ids=["computed, not applied", "of a copy", "before unscaling", "of each rank"],
)
def test_clipping_without_effect_is_wrong(run: Run, script: Write, before: str, step: str, says: str) -> None:
    assert says in (wrong_of(run, script(before=before + CLIPS, step=step)) or "")


@pytest.mark.parametrize(
    ("before", "step"),
    [
        (PLAIN, with_clip("clip(m.parameters(), 0.01)")),
        (PLAIN, with_clip("clip(m.parameters(), 1e9)")),
        (PLAIN, with_clip("clip(m.parameters(), 0.01, norm_type=float('inf'))")),
        (PLAIN, with_clip("clip(m.parameters(), 0.01, 1.0)")),
        (PLAIN, with_clip("for p in m.parameters():\n    clip(p, 0.01)")),
        (PLAIN, with_clip("clip(m.parameters(), 5.0)\nclip(m.parameters(), 0.01)")),
        (PLAIN, with_clip("scaler.unscale_(o)\nclip(m.parameters(), 0.01)", SCALED)),
        (PLAIN, with_clip("clip([free], 1.0)")),
        (SHARDED, with_clip("m.clip_grad_norm_(0.01)")),
    ],
    ids=["clips", "does not need to", "inf", "1", "each", "twice", "unscaled", "without gradients", "of a module"],
)
def test_clipping_that_works_is_silent(run: Run, script: Write, before: str, step: str) -> None:
    assert wrong_of(run, script(before=before + CLIPS, step=step)) is None
