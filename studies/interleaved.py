"""How much blocks, copies and sets of processes differ when configs take turns, and whether equal ones are told apart.

python -m studies.interleaved --sets 5                                   # some minutes; A/A: four equal configs
python -m studies.interleaved --sets 2 --configs ddp_default bf16 no_comm
python -m studies.interleaved --configs ddp ddp ddp --workload vit_tiny vit_tiny studies.planted:vit_tiny__900us__1

``pair``: standard deviation of the difference of two blocks of a round, in %. ``copy``: that of two equal configs of a
set without what the blocks explain; negative where the blocks explain more than all. With ``--sets N`` each set is also
judged by itself, as the suite does with one launch of each config.
"""

import argparse
import math
import time
from collections.abc import Sequence
from statistics import fmean, median, variance

import torch

from fixtures.launch.protocol import InterleaveRequest
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from fixtures.stats.difference import LEAST_ROUNDS, OF_FASTEST, Replicates, Turns, block_steps

# Of a step of all that take turns, to choose the length of a block.
GUESSED_STEP_S = 0.05


def measure(sets: int, request: InterleaveRequest) -> list[list[list[list[float]]]]:
    """Set -> config -> copy -> round -> seconds per step."""
    found, world = [], parse_world(request.world)
    for number in range(sets):
        ranks = RankSets(launches=1, size=world.size, on_gpu=torch.cuda.is_available(), rank_timeout_s=120)
        try:
            (only,) = ranks.of(INTERCONNECTS["native"])
            began = time.monotonic()
            found.append(only.ask(world, request, doing="taking turns")[0])
            print(f"set {number}: {len(found[-1][0][0])} rounds, {time.monotonic() - began:.1f} s", flush=True)
        finally:
            ranks.close()
    return found


def components(found: Sequence[Sequence[Replicates]]) -> tuple[float, float]:
    """The standard deviations ``pair`` and ``copy`` of configs that are equal."""
    pairs, copies = [], []
    for of_set in found:
        logs = [[100 * math.log(t) for t in copy] for of_config in of_set for copy in of_config]
        number, rounds = len(logs), len(logs[0])
        of_round = [fmean(row) for row in zip(*logs, strict=True)]
        centred = [[x - mean for x, mean in zip(row, of_round, strict=True)] for row in logs]
        means = [fmean(row) for row in centred]
        residual = sum((x - mean) ** 2 for row, mean in zip(centred, means, strict=True) for x in row)
        block = residual / ((rounds - 1) * (number - 1))
        pairs.append(2 * block)
        copies.append(2 * variance(means) - 2 * block / rounds)
    between = fmean(copies)
    return math.sqrt(fmean(pairs)), math.copysign(math.sqrt(abs(between)), between)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--configs", nargs="+", default=["ddp_default"] * 4)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--workload", nargs="+", default=["vit_tiny"], help="one, or one for each config")
    parser.add_argument("--world", default="2cpu")
    given = parser.parse_args()
    if len(given.workload) not in (1, len(given.configs)):
        parser.error(f"{len(given.workload)} workloads for {len(given.configs)} configs: name one, or one for each")
    on_gpu = torch.cuda.is_available()
    request = InterleaveRequest(
        workloads=given.workload * (len(given.configs) // len(given.workload)),
        configs=given.configs,
        world=given.world,
        copies=given.copies,
        warmup=6,
        block=block_steps(GUESSED_STEP_S * len(given.configs) * given.copies, given.seconds, on_gpu=on_gpu),
        rounds=(LEAST_ROUNDS, 60),
        seconds=given.seconds,
    )
    found = measure(given.sets, request)
    named = 0
    for of_set in found:
        order, behind = Turns(block_s=dict(enumerate(of_set)), on_gpu=on_gpu).fastest(range(len(of_set)))
        named += len(order) == 1
        decides = max((d.least_percent(comparisons=OF_FASTEST) for d in behind), default=0)
        print(f"fastest: {', '.join(f'{given.configs[i]} {i}' for i in order)}; decides {decides:.1f} %")
    together = [[copy for of_set in found for copy in of_set[config]] for config in range(len(given.configs))]
    rounds = min(len(copy) for copies in together for copy in copies)
    block_s = {config: [copy[:rounds] for copy in copies] for config, copies in enumerate(together)}
    order, behind = Turns(block_s=block_s, on_gpu=on_gpu).fastest(block_s)
    decides = max((d.least_percent(comparisons=OF_FASTEST) for d in behind), default=0)
    print(f"all sets together: fastest: {', '.join(f'{given.configs[i]} {i}' for i in order)}; decides {decides:.2f} %")
    first, *others = (fmean(math.log(median(copy)) for copy in copies) for copies in together)
    slower = (f"{name} {100 * math.expm1(t - first):+.2f}" for name, t in zip(given.configs[1:], others, strict=True))
    print(f"step against {given.configs[0]}, %: {', '.join(slower)}")
    print(f"{named} of {len(found)} sets name one; pair %.2f %%, copy %.2f %%" % components(found))
