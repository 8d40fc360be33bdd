"""Validation of ``python -m fixtures predict`` on the CPU: ranks behind shaped links, two predict four and four two.

python -m studies.prediction_links --rounds 2 100mbit 200mbit       # some minutes; needs what --link needs

Two predict four in two ways: by the bare all-reduces of two, as in one node, and as four nodes of one rank that are
joined by a network of the link's measured rate and latency, for which no all-reduce is used (``--network``).

Four ranks do not have a core each here, so the computation sleeps: what is compared is the model of buckets, links and
collectives. Each case is predicted from a record as the command reads it, with the links of two bare all-reduces; no
number of the predicted size is used. Other work only adds to a step, so a launch counts with its shortest one.
"""

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from fixtures.extras.predict.prediction import (
    ASSUMED,
    Cluster,
    Measured,
    all_reduce_s,
    fit_rest,
    measured_parts,
    predict,
)
from fixtures.extras.predict.prediction import Link as NetworkLink
from fixtures.extras.slow_link.options import Link, parse_rate
from fixtures.extras.slow_link.starter import BehindLink, MeasuredLink, measure_link
from fixtures.launch.protocol import TrainRequest, TransferRequest
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.transfers import TRANSFERS as ALL_TRANSFERS
from fixtures.matrix.workloads import Workload
from fixtures.matrix.worlds import INTERCONNECTS, World
from fixtures.records.files import checked
from fixtures.records.schema import SCHEMA

LAYERS, WIDTH, SLEEP_S = 8, 512, 0.03  # 8.4 MB; 240 ms of backward, as long as their transfer at 280 Mbit/s
WARMUP, STEPS = 2, 5
WORLDS = {size: World(backend="gloo", size=size) for size in (2, 4)}
BUCKETS = ("bucket_2mb", "bucket_3mb", "bucket_5mb", "bucket_2000mb")
CONFIGS = (*BUCKETS, *(f"bf16-{buckets}" for buckets in BUCKETS), *(f"no_comm-{buckets}" for buckets in BUCKETS))
TRANSFERS = ("all_reduce_64kb", "all_reduce_16mb")


class _Asleep(torch.autograd.Function):
    """A layer's computation in the backward pass, which needs no core."""

    @staticmethod
    def forward(_context: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_context: Any, *gradients: Tensor) -> Tensor:
        time.sleep(SLEEP_S)
        return gradients[0]


class _Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(_Asleep.apply(x))
        return x


def _sample() -> tuple[Tensor, ...]:
    return (torch.randn(WIDTH),)


def _loss(model: nn.Module, x: Tensor) -> Tensor:
    loss: Tensor = model(x.requires_grad_()).square().mean()
    return loss


def _sgd(parameters: Iterable[nn.Parameter]) -> Optimizer:
    return torch.optim.SGD(parameters, lr=0.01)


asleep = Workload(name="asleep", batch_size=1, model=_Layers, sample=_sample, loss=_loss, optimizer=_sgd)


def records_of(measured: MeasuredLink, rounds: int) -> dict[int, dict[str, Any]]:
    """The record of each size, as a run would write it; a launch of a record is a round. Any: JSON."""
    link = measured.link
    steps: dict[tuple[int, str], list[list[float]]] = {}
    last: dict[tuple[int, str], Any] = {}
    transfers: dict[tuple[int, str], list[float]] = {}
    sets = RankSets(
        imports=["studies.prediction_links"],
        launches=1,
        size=4,
        on_gpu=False,
        rank_timeout_s=300,
        on_message=print,
        starter=BehindLink(link),
    )
    try:
        (ranks,) = sets.of(INTERCONNECTS["native"])
        for _ in range(rounds):
            for size, world in WORLDS.items():
                for name in TRANSFERS:
                    found = ranks.ask(world, TransferRequest(transfer=name, steps=5, warmup=2), doing=name)
                    times = [max(step) for step in zip(*found, strict=True)]
                    transfers.setdefault((size, name), []).append(min(times))
                for config in CONFIGS:
                    request = TrainRequest(
                        workload="studies.prediction_links:asleep",
                        config=config,
                        world=world.name,
                        steps=STEPS,
                        warmup=WARMUP,
                    )
                    results = ranks.ask(world, request, doing=config)
                    steps.setdefault((size, config), []).append(
                        [max(step) for step in zip(*(one.step_s for one in results), strict=True)]
                    )
                    last[size, config] = results[0]
    finally:
        sets.close()
    return {
        size: {
            "schema": SCHEMA,
            "instance": f"4x-cpu-link_{link.name}",
            "link": {
                "bits_per_s": link.bits_per_s,
                "delay_s": link.delay_s,
                "data_bits_per_s": measured.data_bits_per_s,
                "round_trip_s": measured.round_trip_s,
            },
            "benchmarks": [
                {
                    "fullname": f"{WORLDS[size].name}-{config}",
                    "extra_info": {
                        "workload": "asleep",
                        "config": config,
                        "world": WORLDS[size].name,
                        "world_size": size,
                        "interconnect": "native",
                        "instance": f"4x-cpu-link_{link.name}",
                        "launch_medians_s": [min(launch) for launch in steps[size, config]],
                        "steps_per_s": 1 / min(map(min, steps[size, config])),
                        "launch_steps": [len(launch) for launch in steps[size, config]],
                        "phases_ms": {
                            phase: 1e3 * median(times) for phase, times in last[size, config].phases_s.items()
                        },
                        "bucket_bytes": last[size, config].bucket_bytes,
                        "wire_dtype": last[size, config].wire_dtype,
                    },
                    "stats": {"data": [step for launch in steps[size, config] for step in launch]},
                }
                for config in CONFIGS
            ]
            + [
                {
                    "fullname": f"{WORLDS[size].name}-{name}",
                    "extra_info": {
                        "workload": "all_reduce",
                        "world": WORLDS[size].name,
                        "world_size": size,
                        "interconnect": "native",
                        "instance": f"4x-cpu-link_{link.name}",
                        "launch_medians_s": transfers[size, name],
                        "steps_per_s": 1 / min(transfers[size, name]),
                        "message_bytes": ALL_TRANSFERS[name].message_bytes(size),
                        "all_reduce_s": min(transfers[size, name]),
                    },
                }
                for name in TRANSFERS
            ],
        }
        for size in WORLDS
    }


def _as_nodes(one: Measured, link: dict[str, float]) -> Cluster:
    """Nodes of one rank, joined by a network of the link's rate and latency."""
    network = NetworkLink(latency_s=link["round_trip_s"] / 2, bytes_per_s=link["data_bits_per_s"] / 8)
    return replace(one.cluster, gpus_per_node=1, start_s=0.0, network=network)


def lines(link: Link, records: dict[int, dict[str, Any]]) -> Iterator[str]:
    """A row for each config and direction, and the all-reduces themselves."""
    measured: dict[int, list[Measured]] = {size: measured_parts(checked(record)) for size, record in records.items()}
    for how, of, to in (("2 to 4", 2, 4), ("4 to 2", 4, 2), ("2 to 4 nodes", 2, 4)):
        by_config = {one.config: one for one in measured[to]}
        for one in measured[of]:
            actual_s = by_config[one.config].step_s
            cluster, parts = replace(one.cluster, gpus_per_node=max(of, to)), one.parts
            if how.endswith("nodes"):
                cluster = _as_nodes(one, records[of]["link"])
                parts = fit_rest(parts, one.step_s, cluster)
            found = predict(parts, to, cluster, "ring", ASSUMED)
            inside = "yes" if found.low_s <= actual_s <= found.high_s else "no"
            yield (
                f"| {link.name} | {how} | `{one.config}` | {1e3 * one.step_s:.0f} | {1e3 * actual_s:.0f} | "
                f"{1e3 * found.step_s:.0f} | {100 * (found.step_s / actual_s - 1):+.1f} | "
                f"{1e3 * found.low_s:.0f} to {1e3 * found.high_s:.0f}, {inside} |"
            )
    bare = records[4]["benchmarks"][-1]["extra_info"]
    links = replace(measured[2][0].cluster, gpus_per_node=4)
    model_s = all_reduce_s(bare["message_bytes"], 4, links, "ring")
    yield f"{link.name}: bare all_reduce_16mb on 4: {1e3 * bare['all_reduce_s']:.0f} ms, predicted {1e3 * model_s:.0f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and predict behind each link."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("links", nargs="+", type=parse_rate, metavar="RATE")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--records", metavar="FILE", help="write the records there, as JSON")
    options = parser.parse_args(arguments)
    every = {}
    rows: list[str] = []
    for bits_per_s in options.links:
        link = Link(bits_per_s=bits_per_s)
        measured = measure_link(link)
        print(measured.words, flush=True)
        every[link.name] = records_of(measured, options.rounds)
        if options.records:
            with open(options.records, "w") as file:  # noqa: PTH123
                json.dump(every, file)
        rows += lines(link, every[link.name])
        print(*rows, sep="\n", flush=True)
    for how in ("2 to 4", "4 to 2", "2 to 4 nodes"):
        of = [row.split("|") for row in rows if f"| {how} |" in row]
        errors = [abs(float(row[7])) for row in of]
        within = sum(error <= 5 for error in errors)
        inside = sum("yes" in row[8] for row in of)
        print(f"{how}: {len(of)} cases, {within} within 5 %, {inside} in the 90 % interval; worst {max(errors):.1f} %")


if __name__ == "__main__":
    main()
