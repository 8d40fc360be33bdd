"""Step time against bytes on a busy machine: all shares in turn, round after round, so that each meets the same load.

python -m studies.share_curve --link 100mbit --rounds 8       # half a minute a round, with a table after each

The model is two matrices of 8 MB in all, whose step takes a few milliseconds without communication: where the
computation takes as long as the transfer, a busy machine hides the casts in its noise.

``pytest perf -k share`` measures one config after another, which suffices on a quiet machine. Other work only adds to a
step, so the shortest steps of many rounds are the least disturbed.
"""

import argparse
from collections.abc import Iterable, Iterator
from statistics import median

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from fixtures.launch.protocol import TrainRequest
from fixtures.launch.rank_links import measure_link
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.link import Link, parse_rate
from fixtures.matrix.workloads import Workload
from fixtures.matrix.worlds import World


def _products() -> nn.Module:
    return nn.Sequential(nn.Linear(1024, 1024, bias=False), nn.Linear(1024, 1024, bias=False))


def _sample() -> tuple[Tensor, ...]:
    return (torch.randn(1024),)


def _loss(model: nn.Module, x: Tensor) -> Tensor:
    squares: Tensor = model(x).square()
    return squares.mean()


def _sgd(parameters: Iterable[nn.Parameter]) -> Optimizer:
    return torch.optim.SGD(parameters, lr=0.01)


products = Workload(name="products", batch_size=2, model=_products, sample=_sample, loss=_loss, optimizer=_sgd)
WORLD = World(backend="gloo", size=2)
HOOKS = ("share_0", "share_25", "share_50", "share_100", "bf16_share_0", "bf16")
WARMUP, STEPS = 3, 4


def rounds_of(link: Link | None, rounds: int) -> Iterator[dict[str, list[float]]]:
    """After each round: hook -> its steps in seconds so far, each as long as on the slowest rank."""
    interconnect = INTERCONNECTS["native"] if link is None else INTERCONNECTS["native"].behind(link)
    sets = RankSets(
        imports=["studies.share_curve"], launches=1, size=WORLD.size, on_gpu=False, rank_timeout_s=300, on_message=print
    )
    steps: dict[str, list[float]] = {hook: [] for hook in HOOKS}
    try:
        (ranks,) = sets.of(interconnect)
        for number in range(rounds):
            for hook in HOOKS if number % 2 == 0 else reversed(HOOKS):
                config = f"{hook}-bucket_2000mb"
                request = TrainRequest(
                    workload="studies.share_curve:products", config=config, world=WORLD.name, steps=STEPS, warmup=WARMUP
                )
                results = ranks.ask(WORLD, request, doing=config)
                steps[hook] += [max(step) for step in zip(*(result.step_s for result in results), strict=True)]
            yield steps
    finally:
        sets.close()


def lines(steps: dict[str, list[float]]) -> list[str]:
    """The shortest step, the first quartile and the median of each hook, and what each of these predicts of bf16."""
    ways = {
        "shortest": {hook: min(times) for hook, times in steps.items()},
        "quartile": {hook: sorted(times)[len(times) // 4] for hook, times in steps.items()},
        "median": {hook: median(times) for hook, times in steps.items()},
    }
    found = [f"{'ms a step':14}" + "".join(f"{way:>10}" for way in ways)]
    for hook in steps:
        found.append(f"{hook:14}" + "".join(f"{1e3 * of[hook]:10.1f}" for of in ways.values()))
    predicted = {way: of["share_50"] + of["bf16_share_0"] - of["share_0"] for way, of in ways.items()}
    found.append(f"{'predicted bf16':14}" + "".join(f"{1e3 * seconds:10.1f}" for seconds in predicted.values()))
    off = (100 * (seconds / ways[way]["bf16"] - 1) for way, seconds in predicted.items())
    return [*found, f"{'off by %':14}" + "".join(f"{percent:+10.1f}" for percent in off)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--link", help="rate of each rank's link, such as 100mbit; none: loopback as it is")
    parser.add_argument("--rounds", type=int, default=6)
    asked = parser.parse_args()
    link = None if asked.link is None else Link(bits_per_s=parse_rate(asked.link))
    if link is not None:
        print(measure_link(link).words)
    for number, steps in enumerate(rounds_of(link, asked.rounds), 1):
        print(f"after round {number}", *lines(steps), sep="\n", flush=True)


if __name__ == "__main__":
    main()
