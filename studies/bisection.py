"""Share of planted commits that ``python -m fixtures bisect`` finds, in simulated histories.

    python -m studies.bisection N        N histories of each kind, as a table in Markdown

Each has 64 commits, one of which is 5 % slower, or none. Pairs of launches scatter as said, or are drawn from the real
pairs of launches in the records of an instance in ``baselines/``.
"""

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from fixtures.extras.upgrades.bisection import Search

COMMITS, SLOWDOWN = 64, math.log(1.05)
MAX_PAIRS = 12
Draw = Callable[[np.random.Generator], float]
SCATTERS: dict[str, Draw] = {
    "0.1 %, normal": lambda random: random.normal(0, 0.001),
    "1 %, normal": lambda random: random.normal(0, 0.01),
    "2 %, t with 3 degrees": lambda random: 0.02 * random.standard_t(3),
    "3 %, normal": lambda random: random.normal(0, 0.03),
}
INSTANCES = ("2x-nvidia-h200-nv18", "2x-nvidia-h200-nv18-shm", "4x-nvidia-h200-nv18", "8x-nvidia-h200-nv18-shm")


def measured_pairs(instance: str) -> list[float]:
    """ln of the ratio of two launches of one test in one record, over all tests and records of an instance."""
    pairs: list[float] = []
    for record in sorted((Path(__file__).parents[1] / "baselines" / instance).glob("*.json")):
        for benchmark in json.loads(record.read_text())["benchmarks"]:
            medians = benchmark["extra_info"].get("launch_medians_s") or []
            pairs += [math.log(one / other) for one, other in zip(medians[::2], medians[1::2], strict=False)]
    return pairs


def drawn_from(pairs: Sequence[float]) -> Draw:
    """Draws from these pairs."""
    return lambda random: float(random.choice(pairs))


def searched(draw: Draw, seed: int, slow: int) -> tuple[Search, str]:
    """One search. slow: the slow commit, 0 for none."""
    random = np.random.default_rng(seed)

    def pairs_of(older: int, newer: int) -> list[float]:
        return [(SLOWDOWN if older < slow <= newer else 0.0) + draw(random) for _ in range(3)]

    search = Search(commits=COMMITS, max_pairs=MAX_PAIRS)
    return search, search.run(pairs_of)


def row(name: str, draw: Draw, histories: int) -> str:
    """One row of the table."""
    right = wrong = named = 0
    pairs, comparisons = [], 0
    for seed in range(histories):
        slow = 1 + seed * 37 % COMMITS
        search, ended = searched(draw, seed, slow)
        right += ended == "found" and search.best == range(slow, slow + 1)
        wrong += ended == "found" and search.best != range(slow, slow + 1)
        pairs.append(sum(len(one.differences) for one in search.comparisons))
        comparisons = max(comparisons, len(search.comparisons))
        named += searched(draw, seed, 0)[1] == "found"
    undecided = histories - right - wrong
    return f"| {name} | {right} | {wrong} | {undecided} | {comparisons} | {fmean(pairs):.0f} | {named} |"


if __name__ == "__main__":
    histories = int(sys.argv[1])
    print(f"{histories} histories of each kind\n")
    print(
        "| scatter of a pair | right | wrong | undecided | most comparisons | pairs, mean | named without a slow one |"
    )
    print("|---|---|---|---|---|---|---|")
    measured = {f"{name}, measured": drawn_from(measured_pairs(name)) for name in INSTANCES}
    for name, draw in {**SCATTERS, **measured}.items():
        print(row(name, draw, histories), flush=True)
