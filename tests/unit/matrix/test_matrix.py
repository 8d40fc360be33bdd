"""The matrix: lookup by name, messages for wrong names, and the properties of workloads."""

from collections.abc import Iterable
from dataclasses import replace
from math import prod

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.utils.data import default_collate

from fixtures.machine.instance import valid
from fixtures.matrix.config import Config
from fixtures.matrix.configs import (
    BY_DEFAULT,
    CONFIGS,
    COPIES,
    COPIES_COMPARED,
    DDP_PLAIN,
    DDP_SETTINGS,
    EVERY,
    NCCL_AUTOMATIC,
    NCCL_SETTINGS,
    OUTPUTS,
    SHARDING,
    find_config,
)
from fixtures.matrix.hook import Gradient
from fixtures.matrix.hooks import HOOKS, low_rank
from fixtures.matrix.lookup import NotFound, look_up
from fixtures.matrix.workloads import WORKLOADS, Workload
from fixtures.matrix.worlds import INTERCONNECTS, World, parse_world, worlds_of

SHAPES = st.lists(st.integers(1, 300), min_size=1, max_size=4).map(tuple)
GRADIENTS = st.lists(st.tuples(SHAPES, st.sampled_from([2, 4, 8])), max_size=6)


def test_no_two_configs_share_a_name() -> None:
    assert len(EVERY) == len(CONFIGS)


def test_a_name_can_stand_in_a_pytest_id() -> None:
    assert [name for name in (*CONFIGS, *WORKLOADS, *INTERCONNECTS) if not valid(name)] == []


@pytest.mark.parametrize(("kind", "table"), [("config", CONFIGS), ("hook", HOOKS), ("workload", WORKLOADS)])
def test_an_unknown_name_lists_the_known_ones(kind: str, table: dict[str, Workload]) -> None:
    with pytest.raises(NotFound) as raised:
        look_up(kind, table, "powersdg")
    near = {"config": ", did you mean powersgd_rank4?", "hook": ", did you mean powersgd_rank4?", "workload": ""}[kind]
    assert raised.value.args[0] == f"no {kind} named 'powersdg'{near}: there are {', '.join(table)}"


@pytest.mark.parametrize(
    ("gpus", "machines", "names"),
    [
        (0, 1, "1cpu 2cpu"),
        (1, 1, "1gpu"),
        (2, 1, "1gpu 2gpu"),
        (3, 1, "1gpu 2gpu 3gpu"),
        (4, 1, "1gpu 2gpu 4gpu"),
        (6, 1, "1gpu 2gpu 4gpu 6gpu"),
        (8, 1, "1gpu 2gpu 4gpu 8gpu"),
        (0, 2, "1cpu 2cpu 4cpu_2node"),
        (8, 2, "1gpu 2gpu 4gpu 8gpu 16gpu_2node"),
        (1, 3, "1gpu 3gpu_3node"),
    ],
)
def test_worlds_double_up_to_the_whole_machine_and_to_all_machines(gpus: int, machines: int, names: str) -> None:
    worlds = worlds_of(gpus, machines)
    assert " ".join(worlds) == names
    assert [parse_world(name) for name in worlds] == list(worlds.values())


@pytest.mark.parametrize(
    "name", ["", "gpu", "0gpu", "-1gpu", "8tpu", "8", "8gpus", "8 gpu", "2cpu ", "8gpu_1node", "8gpu_3node"]
)
def test_what_is_no_world_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"no world named {name!r}: a world is called 1gpu, 8gpu, 2cpu"):
        parse_world(name)


WRAPPED = "from torch.nn.parallel import DistributedDataParallel"
BOTH = "static_graph=True, gradient_as_bucket_view=True)"


@pytest.mark.parametrize(
    ("config", "lines"),
    [
        ("ddp", (WRAPPED, "model = DistributedDataParallel(model, device_ids=[local_rank], bucket_cap_mb=2000)")),
        (
            "bf16-bucket_25mb",
            (
                WRAPPED,
                f"model = DistributedDataParallel(model, device_ids=[local_rank], bucket_cap_mb=25, {BOTH}",
                "from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook",
                "model.register_comm_hook(None, bf16_compress_hook)",
            ),
        ),
        ("single", ()),
        (
            "ctas_8-bucket_10mb",
            (
                "import os",
                'os.environ["NCCL_MAX_CTAS"] = "8"  # before torch.distributed.init_process_group',
                *CONFIGS["bucket_10mb"].lines(),
            ),
        ),
        (
            "last_bucket_10mb-bucket_25mb",
            (
                "import os",
                'os.environ["DDP_SET_LAST_BUCKET_CAP"] = "1"',
                "from torch import distributed",
                WRAPPED,
                "distributed._DEFAULT_FIRST_BUCKET_BYTES = 10485760",
                f"model = DistributedDataParallel(model, device_ids=[local_rank], {BOTH}",
            ),
        ),
        (
            "adamw_fused",
            (
                WRAPPED,
                "model = DistributedDataParallel(model, device_ids=[local_rank], bucket_cap_mb=25, "
                "gradient_as_bucket_view=True)",
                "from torch.optim import AdamW",
                "optimizer = AdamW(model.parameters(), lr=0.0001, fused=True)",
            ),
        ),
    ],
)
def test_lines_are_what_one_would_paste(config: str, lines: tuple[str, ...]) -> None:
    assert CONFIGS[config].lines() == lines


def test_lines_are_for_the_device_and_the_model() -> None:
    assert CONFIGS["static_graph"].lines(on_gpu=False, find_unused_parameters=True)[1] == (
        "model = DistributedDataParallel(model, bucket_cap_mb=2000, static_graph=True, find_unused_parameters=True)"
    )


ONE, TWO, THREE, FOUR = (f"{size}gpu" for size in (1, 2, 3, 4))
NO_NCCL = "needs NCCL, over which {} sends nothing"
UNDIVIDED = "hsdp shards within two groups of two or more ranks, {} cannot be divided so"


@pytest.mark.parametrize(
    ("config", "world", "reason"),
    [
        ("single", "8gpu", "single trains on one device without DDP, 8gpu has 8"),
        ("feed_prefetch", "2cpu", "feed_prefetch copies between host and device, 2cpu has no GPU"),
        *((name, TWO, None) for name in (*NCCL_SETTINGS, "comm_mem-bucket_25mb")),
        *(
            (name, world, f"{name} {NO_NCCL.format(world)}")
            for name in (*NCCL_SETTINGS, "comm_mem-bucket_25mb")
            for world in (ONE, "2cpu")
        ),
        *((name, FOUR, None) for name in SHARDING),
        *(
            (name, ONE, f"{name} shards over several ranks, 1gpu has 1" if CONFIGS[name].sharding else None)
            for name in SHARDING
        ),
        ("fsdp2", TWO, None),
        *(("hsdp", world, UNDIVIDED.format(world)) for world in (TWO, THREE)),
        *((name, ONE, None) for name in sorted(BY_DEFAULT)),
    ],
)
def test_a_config_says_why_a_world_cannot_measure_it(config: str, world: str, reason: str | None) -> None:
    assert CONFIGS[config].why_not(parse_world(world), warmup=10) == reason


def test_a_hook_must_have_begun_when_measuring_begins() -> None:
    world, config = World(backend="gloo", size=2), CONFIGS["powersgd_rank1"]
    reason = "powersgd_rank1 compresses from step 4 on: it needs --warmup 4 or more, got 3"
    assert [config.why_not(world, warmup=warmup) for warmup in (4, 3)] == [None, reason]


@pytest.mark.parametrize("name", [*COPIES, *COPIES_COMPARED, *OUTPUTS])
def test_the_cost_of_each_copy_is_against_the_config_without_it(name: str) -> None:
    config = CONFIGS[name]
    unnamed = {replace(other, name=""): other.name for other in reversed(CONFIGS.values())}
    if config.copies_back != "nothing":
        assert config.without_copies is not None
        expected = "graph-bucket_25mb" if config.graph else "ddp"  # which is feed_pinned
        assert unnamed[config.without_copies] == expected
    elif config.without_copies is not None:
        expected = "graph-feed_resident-bucket_25mb" if config.graph else "feed_resident"
        assert unnamed[config.without_copies] == expected
    else:
        assert name in ("feed_resident", "graph-feed_resident-bucket_25mb")


def test_every_setting_of_nccl_differs_from_an_automatic_config_in_its_variables_alone() -> None:
    automatic = [replace(CONFIGS[name], name="") for name in NCCL_AUTOMATIC]
    settings = [CONFIGS[name] for name in NCCL_SETTINGS]
    assert all(config.variables for config in settings)
    assert all(replace(config, name="", variables=()) in automatic for config in settings)
    assert all(replace(s, name="", variables=()) == replace(CONFIGS[s.compared_with], name="") for s in settings)
    assert "NCCL_NVLS_ENABLE" not in {name for config in CONFIGS.values() for name, _ in config.variables}


# What a setting of DDP may change; the cap of first_bucket_... and of others is DDP's default of the same 25 MB.
SETTINGS_OF_DDP = (
    *("first_bucket_mb", "last_bucket_mb", "bucket_cap_mb_list", "skip_all_reduce_unused_params"),
    *("batched_grad_copy", "lazy_bucket_allocation", "broadcast_buffers", "comm_mem", "hook", "optimizer_in_backward"),
)


@pytest.mark.parametrize("name", [*DDP_SETTINGS, "graph-last_bucket_1mb-bucket_25mb"])
def test_a_setting_of_ddp_changes_one_thing_of_the_config_it_is_compared_with(name: str) -> None:
    config = CONFIGS[name]
    plain = CONFIGS[config.compared_with]
    (changed,) = (field for field in SETTINGS_OF_DDP if getattr(config, field) != getattr(plain, field))
    assert replace(config, name="", bucket_cap_mb=25, **{changed: getattr(plain, changed)}) == replace(plain, name="")
    assert plain.name in (*DDP_PLAIN, "graph-bucket_25mb")
    assert not plain.compared_with


@pytest.mark.parametrize(
    ("name", "takes_turns"),
    [
        *[("ddp_default", True), ("ctas_4-bucket_25mb", True), ("graph-bucket_25mb", True)],
        *[("graph-ctas_4-bucket_25mb", False), ("powersgd_rank1", False), ("feed_loader", False)],
    ],
)
def test_a_config_takes_turns_if_it_leaves_process_and_others_as_they_are(name: str, takes_turns: bool) -> None:
    """A graph with settings of NCCL would outlive the communicator that it was captured with."""
    assert find_config(name).takes_turns is takes_turns


def test_the_cap_of_one_bucket_needs_the_default_cap_of_the_others() -> None:
    """With bucket_cap_mb DDP ignores _DEFAULT_FIRST_BUCKET_BYTES."""
    special = [config for config in EVERY if config.ddp_first_bucket_bytes() or config.bucket_cap_mb_list]
    assert len(special) == 6
    assert all(config.bucket_cap_mb is None for config in special)


def test_a_record_names_what_ddp_reads_outside_its_arguments() -> None:
    both = {"static_graph": "True", "gradient_as_bucket_view": "True"}
    comm_mem = CONFIGS["comm_mem-bucket_25mb"].ddp_settings()
    assert comm_mem == {**both, "bucket_cap_mb": "25", "DDP_DISABLE_COMM_MEM": "0"}
    assert CONFIGS["last_bucket_1mb-bucket_25mb"].ddp_settings() == {
        **both,
        "dist._DEFAULT_FIRST_BUCKET_BYTES": "1048576",
        "DDP_SET_LAST_BUCKET_CAP": "1",
    }


def test_lines_of_fsdp2_take_the_place_of_ddp_and_need_an_optimizer() -> None:
    assert CONFIGS["fsdp2"].lines(blocks=("encoder.layers",)) == (
        "from torch.distributed.fsdp import fully_shard",
        'for block in model.get_submodule("encoder.layers").children():',
        "    fully_shard(block)",
        "fully_shard(model)",
        "from torch.optim import AdamW",
        "optimizer = AdamW(model.parameters(), lr=0.0001)",
    )
    assert CONFIGS["hsdp"].lines(blocks=("blocks",))[2:7] == (
        'mesh = init_device_mesh("cuda", (2, get_world_size() // 2), mesh_dim_names=("replicate", "shard"))',
        "from torch.distributed.fsdp import fully_shard",
        'for block in model.get_submodule("blocks").children():',
        "    fully_shard(block, mesh=mesh)",
        "fully_shard(model, mesh=mesh)",
    )
    with pytest.raises(ValueError, match="config 'mine': fsdp2 needs an optimizer"):
        Config(name="mine", sharding="fsdp2")


@example([((4, 4), 4)], 1)  # half exactly, which is not less than half
@given(GRADIENTS, st.integers(1, 8))
def test_powersgd_sends_what_torch_would(gradients: list[tuple[tuple[int, ...], int]], rank: int) -> None:
    expected = 0
    for (n, *rest), size in gradients:
        m = prod(rest)
        compressed, whole_, factors = powerSGD_hook._should_compress(n, m, min(n, m, rank), 2)
        expected += size * (factors if compressed else whole_)
    assert low_rank(rank)(gradients) == expected


@pytest.mark.parametrize(
    ("hook", "gradients", "expected"),
    [
        ("bf16", [((10, 3), 4), ((), 8)], 248),
        ("fp16", [((10, 3), 4), ((), 8)], 248),
    ],
)
def test_a_hook_sends_the_bytes_of_its_dtype(hook: str, gradients: list[Gradient], expected: int) -> None:
    assert HOOKS[hook].bytes_sent(gradients, 3) == expected


@pytest.mark.parametrize(
    ("name", "parameters", "shapes"),
    [
        ("vit_l_32", 306_535_400, [(2, 3, 224, 224), (2,)]),
        ("resnet50", 25_557_032, [(2, 3, 224, 224), (2,)]),
        ("gpt2_124m", 124_439_808, [(2, 512), (2, 512)]),
        ("gpt2_124m_lora", 124_439_808 + 12 * 16 * (3072 + 1536 + 2 * 3840), [(2, 512), (2, 512)]),
        ("resnet50_queue", 25_557_032 - (1000 - 128) * 2049, [(2, 3, 224, 224), (2, 3, 224, 224)]),
        ("fcn_resnet50", 32_957_013, [(2, 3, 256, 256), (2, 256, 256)]),
        ("vit_tiny", 2_709_706, [(2, 3, 16, 16), (2,)]),
    ],
)
def test_a_model_has_its_known_number_of_parameters_its_batch_and_a_loss(
    name: str, parameters: int, shapes: list[tuple[int, ...]]
) -> None:
    workload = WORKLOADS[name]
    with torch.device("meta"):
        model = workload.model()
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    batch: Iterable[torch.Tensor] = default_collate([workload.sample() for _ in range(2)])
    assert [tuple(tensor.shape) for tensor in batch] == shapes
    assert workload.loss(model, *(tensor.to("meta") for tensor in batch)).shape == ()


def test_gpt2_shares_one_parameter_between_embedding_and_output_and_its_labels_follow_by_one() -> None:
    with torch.device("meta"):
        model = WORKLOADS["gpt2_124m"].model()
    assert [tuple(p.shape) for p in model.parameters() if 50257 in p.shape] == [(50257, 768)]
    assert model(torch.zeros(2, 16, dtype=torch.long, device="meta")).shape == (2, 16, 50257)
    ids, following = WORKLOADS["gpt2_124m"].sample()
    assert torch.equal(ids[1:], following[:-1])


def test_powersgd_says_why_it_cannot_work_on_a_model() -> None:
    why_not = HOOKS["powersgd_rank4"].why_not
    assert why_not([((64, 64), 4), ((64,), 4)]) is None
    assert "without dimensions" in (why_not([((64, 64), 4), ((), 4)]) or "")
    assert "compresses nothing" in (why_not([((4, 8), 4), ((64,), 4)]) or "")


def test_caps_over_the_size_of_a_model_are_one_config() -> None:
    ten, twenty_five, fifty = (CONFIGS[f"bucket_{size}mb"] for size in (10, 25, 50))
    assert twenty_five.on_model(10_800_000) == fifty.on_model(10_800_000) != ten.on_model(10_800_000)
    assert twenty_five.on_model(25 << 20) == fifty.on_model(25 << 20)
    assert twenty_five.on_model((25 << 20) + 1) != fifty.on_model((25 << 20) + 1)
    assert twenty_five.on_model(0) != fifty.on_model(0)  # unknown
    assert CONFIGS["ddp_default"].on_model(10_800_000) == replace(CONFIGS["ddp_default"], name="")  # two buckets
