"""What each step of a script keeps, and what only looks like it."""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.ranks.kept import _Known, _objects
from fixtures.stats.kept_by_steps import DESCRIPTORS, OBJECTS, THREADS, Kept
from tests.script.conftest import PLAIN, STEP, Run

Write = Callable[..., Path]
KEEPS = f"import threading, time, functools, gc\nfrom torch.utils.data import DataLoader, Dataset\n{PLAIN}\nkept = []\n"


def kept_by(run: Run, path: Path) -> list[Kept]:
    found = [one.kept for one in run(path, watch_s=0.5, steps=20, kept=None)]
    assert None not in found
    return found[0] or []


@pytest.mark.parametrize(
    ("of", "number", "type_", "step"),
    [
        (OBJECTS, 1, "list", "kept.append([0] * 1000)"),
        (OBJECTS, 1, "list", "if rank == 0: kept.append([0] * 1000)"),
        (OBJECTS, 3, "torch.Tensor", "kept.append([torch.ones(8), torch.ones(8)])"),
        (OBJECTS, 1, "torch.Tensor", "kept.append(loss)"),
        (THREADS, 1, None, "threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()"),
        (DESCRIPTORS, 1, None, "kept.append(os.open(os.devnull, os.O_RDONLY))"),
    ],
)
def test_what_each_step_keeps_is_found_with_its_number(
    run: Run, script: Write, of: str, number: int, type_: str | None, step: str
) -> None:
    found = {kept.of: kept for kept in kept_by(run, script(before=KEEPS, step=f"{STEP}{step}\n", steps=400))}
    assert found[of].number == number
    if of == OBJECTS:
        assert (found[of].type, found[of].held_by) == (type_, "train.kept")


CACHES = """
class Caches(Dataset):
    def __init__(self): self.known = {}
    def __len__(self): return 100_000
    def __getitem__(self, i):
        if i not in self.known:
            self.known[i] = torch.ones(64), 1
        return self.known[i]
batches = iter(DataLoader(Caches(), 32))
"""
REMEMBERS = """
@functools.lru_cache(maxsize=100_000)
def table(n): return [n, {n: n}]
"""


@pytest.mark.parametrize(
    ("before", "step"),
    [
        ("", ""),
        ("", "kept.append(loss.item())"),
        ("", "if i % 5 == 0: kept.append({'loss': loss.item()})"),
        (CACHES, "next(batches)"),
        (REMEMBERS, "table(i)"),
        ("gc.disable()", "a = []; a.append(a)\nif i % 7 == 0: gc.collect()"),
        ("batches = iter(DataLoader([torch.ones(64)] * 100_000, 32, num_workers=1))", "next(batches)"),
        # Compiled anew for each of eight shapes, then no more.
        ("wave = torch.compile(torch.sin, backend='eager', dynamic=False)", "wave(torch.ones(8 + i // 20))"),
        # The flight recorder, on by default over gloo too, notes each of the last 2,000.
        ("", "for _ in range(8): dist.all_reduce(torch.ones(8))"),
    ],
    ids=["nothing", "losses", "logs", "data set", "lru_cache", "collects", "workers", "recompiles", "recorder"],
)
def test_what_looks_like_it_is_not_kept(run: Run, script: Write, before: str, step: str) -> None:
    assert kept_by(run, script(before=f"{KEEPS}{before}\n", step=f"{STEP}{step}\n", steps=400)) == []


def test_an_object_with_the_address_of_one_that_is_gone_is_not_kept() -> None:
    other = OrderedDict[str, int]().values()
    gone = _Known((other,))
    setattr(gone, "_id", id(other))  # noqa: B010  # an address that is free is not to be had on purpose
    assert [*_objects({tuple: 1}, {id(other): gone})] == []
