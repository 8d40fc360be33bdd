"""The code lines under "best" in the table build exactly the measured config."""

import inspect
from typing import Any

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.configs import CONFIGS, COPIES, OUTPUTS
from fixtures.matrix.hooks import HOOKS
from fixtures.matrix.worlds import INTERCONNECTS
from tests.ranks.asking import called

# With variables a config needs NCCL; it wraps like its parent, and tests/unit/matrix has its lines. Configs with an
# optimizer are in test_sharding.py. The lines of local SGD build its hook in another way. Configs of copies are wrapped
# as ddp or graph-bucket_25mb is.
WRAPPED = [
    name
    for name, config in CONFIGS.items()
    if config.ddp
    and not (config.variables or config.local_sgd or HOOKS[config.hook].needs_gpu)
    and config.optimizer is None
    and name not in (*COPIES, *OUTPUTS)
]


@pytest.fixture(scope="module", params=WRAPPED)
def both(request: pytest.FixtureRequest, two_ranks: RankSets) -> tuple[str, list[dict[str, Any]]]:
    """A config's name, and ``measured`` and ``pasted`` of each rank."""
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    if missing := [name for name in CONFIGS[request.param].ddp_arguments() if name not in known]:
        pytest.skip(f"DDP of torch {torch.__version__} has no {missing[0]}")
    return request.param, _built(two_ranks, request.param)


def _built(two_ranks: RankSets, config: str) -> list[dict[str, Any]]:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    return called(ranks, "rank_pasted:measured_and_pasted", config=config, world="2cpu")


def test_pasted_lines_build_what_was_measured(both: tuple[str, list[dict[str, Any]]]) -> None:
    for answer in both[1]:
        assert answer["pasted"]["settings"] == answer["measured"]["settings"]
        assert answer["pasted"]["gradients"] == answer["measured"]["gradients"]  # to the last bit


def test_what_was_built_is_what_the_config_says(both: tuple[str, list[dict[str, Any]]]) -> None:
    config, built = CONFIGS[both[0]], both[1][0]["pasted"]
    hook = HOOKS[config.hook]
    written_in_cpp = config.hook.startswith("builtin_")
    cap_mb = 25 if config.bucket_cap_mb is None else config.bucket_cap_mb  # 25: PyTorch's default
    assert built["settings"] == {
        "hooks": 0 if (hook.build is None or written_in_cpp) and not config.optimizer_in_backward else 1,
        "hook": built["settings"]["hook"],
        "state": built["settings"]["state"],
        "bucket_bytes_cap": cap_mb * 2**20,
        "static_graph": config.static_graph,
        "gradient_as_bucket_view": config.gradient_as_bucket_view,
        "find_unused_parameters": False,
        "first_bucket_bytes": config.ddp_first_bucket_bytes() or 2**20,
        "variables": config.ddp_variables(),
        "builtin": built["settings"]["builtin"] if written_in_cpp else None,
        "flags": [name for name in ("skip_all_reduce_unused_params", "batched_grad_copy") if getattr(config, name)],
        "caps": [mb * 2**20 for mb in config.bucket_cap_mb_list],
    }
    assert bool(built["settings"]["builtin"]) == written_in_cpp
    assert built["compressed"] == ("powersgd" in hook.name)
    assert all(any(values) for values in built["gradients"])


IN_BF16 = "default_hooks.bf16_compress_wrapper.<locals>.bf16_compress_wrapper_hook(powerSGD_hook.powerSGD_hook)"


@pytest.mark.parametrize(
    ("config", "function", "options"),
    [
        ("bf16", "default_hooks.bf16_compress_hook", None),
        ("fp16", "default_hooks.fp16_compress_hook", None),
        ("no_comm", "debugging_hooks.noop_hook", None),
        ("powersgd_rank1", "powerSGD_hook.powerSGD_hook", {"matrix_approximation_rank": 1}),
        ("powersgd_rank4", "powerSGD_hook.powerSGD_hook", {"matrix_approximation_rank": 4}),
        ("powersgd_rank1_same_shape", "powerSGD_hook.powerSGD_hook", {"batch_tensors_with_same_shape": True}),
        ("bf16_powersgd_rank1", IN_BF16, {"matrix_approximation_rank": 1}),
    ],
)
def test_the_hook_is_the_one_that_the_name_says_and_powersgd_starts_at_step_3_and_survives_zero_gradients(
    two_ranks: RankSets, config: str, function: str, options: dict[str, Any] | None
) -> None:
    settings = _built(two_ranks, config)[0]["pasted"]["settings"]
    assert settings["hook"].replace("torch.distributed.algorithms.ddp_comm_hooks.", "") == function
    if options is not None:
        started = {"start_powerSGD_iter": 3, "orthogonalization_epsilon": 1e-8, "matrix_approximation_rank": 1}
        expected = {"batch_tensors_with_same_shape": False, **started, **options}
        assert settings["state"] == {**settings["state"], **expected}
