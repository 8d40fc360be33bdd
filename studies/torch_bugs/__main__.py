"""Does this torch still have the known bugs of docs/reference/torch-bugs.md?

    python -m studies.torch_bugs [NAME ...]

Prints one line a bug. Exit code 1: a bug of this torch does not show, or one that is fixed in it does. To add a bug,
write its script, or its function in ``reproducers.py``, and enter it here and in docs/reference/torch-bugs.md.
"""

import re
import sys
from contextlib import ExitStack, closing
from dataclasses import dataclass

import torch

from fixtures.launch.faults import RankFailure
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.hook import torch_version
from fixtures.matrix.worlds import INTERCONNECTS, Backend, World

RANKS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Bug:
    """fixed_in: the first torch (major, minor) without it. backend: nccl for a bug that does not show over gloo.
    says: a regular expression that the failure of a dead or hanging rank must match; other failures do not count.
    """

    fixed_in: tuple[int, int] | None = None
    backend: Backend = "gloo"
    says: str | None = None


BUGS = {
    "powersgd_nan": Bug(),
    "powersgd_zero_for_ever": Bug(),
    "powersgd_rank_deficient": Bug(),
    "powersgd_bias_drift": Bug(),
    "powersgd_sparse_gradient": Bug(),
    "powersgd_resume": Bug(),
    "bucket_gradients_complex": Bug(),
    "hook_group": Bug(),
    "hook_join_divisor": Bug(),
    "hook_result_offset": Bug(),
    "static_graph_no_last_bucket": Bug(),
    "wrapper_unused": Bug(),
    "delayed_all_reduce": Bug(),
    "python_reducer_race": Bug(),
    "quantised_per_channel_race": Bug(backend="nccl"),
    "mixed_precision_uncalled": Bug(backend="nccl"),
    "mixed_precision_first_step": Bug(backend="nccl"),
    "batched_powersgd": Bug(),
    "powersgd_scalar": Bug(),
    "powersgd_resume_several_buckets": Bug(),
    "python_reducer_hook": Bug(),
    "quantised_per_tensor_gloo": Bug(fixed_in=(2, 15)),
    "quantised_per_channel_gloo": Bug(fixed_in=(2, 15)),
    "static_graph_no_sync": Bug(),
    "static_graph_unused_output": Bug(),
    "unused_sparse": Bug(),
    "zero_sharded_buckets": Bug(backend="nccl"),
    "nested_hook_gloo": Bug(says="has waited|gloo"),
    "buffer_hook_join": Bug(says="distributed collective mismatch|died of SIGABRT"),  # as gloo has received
}


def wrong_results(sets: RankSets, name: str, bug: Bug) -> list[str]:
    """A line for each wrong result on a rank. Raises RankFailure."""
    (ranks,) = sets.of(INTERCONNECTS["native"])
    world = World(backend=bug.backend, size=RANKS)
    try:
        results = ranks.run(world, "studies.torch_bugs.reproducers:shows", {"name": name}, doing=name)
    except RankFailure as failure:
        if bug.says is None or not re.search(bug.says, str(failure)):
            raise
        return [str(failure).splitlines()[0]]
    return [f"rank {rank}: {line}" for rank, lines in enumerate(results) for line in lines]


def main(names: list[str]) -> int:
    if unknown := [name for name in names if name not in BUGS]:
        sys.exit(f"no known bug is named {unknown[0]}: {', '.join(BUGS)}")
    gpus, unexpected = torch.cuda.device_count(), 0
    with ExitStack() as stack:
        sets: dict[Backend, RankSets] = {}
        for name in names or BUGS:
            bug = BUGS[name]
            if bug.backend == "nccl" and gpus < RANKS:
                print(f"{name}: not on this machine, it needs {RANKS} GPUs", flush=True)
                continue
            if bug.backend not in sets:
                on_gpu = bug.backend == "nccl"
                made = RankSets(launches=1, size=RANKS, on_gpu=on_gpu, rank_timeout_s=20, imports=("torch._dynamo",))
                sets[bug.backend] = stack.enter_context(closing(made))
            wrong = wrong_results(sets[bug.backend], name, bug)
            listed = bug.fixed_in is None or torch_version() < bug.fixed_in
            line = f"{name}: shows ({wrong[0][:80]})" if wrong else f"{name}: does not show"
            if bool(wrong) != listed:
                unexpected += 1
                line += f": it is {'listed for' if listed else 'fixed in'} torch {torch.__version__}"
            print(line, flush=True)
    return min(unexpected, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
