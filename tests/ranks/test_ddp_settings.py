"""Settings of DDP on real ranks: they take effect, they end with their config, and an ignored one is found."""

import inspect
from typing import Any

import pytest
from torch.nn.parallel import DistributedDataParallel

from fixtures.launch.protocol import CannotRun
from fixtures.launch.rank_sets import RankSet
from fixtures.matrix.configs import CONFIGS, DDP_SETTINGS
from tests.ranks.asking import called, trained

MB = 1 << 20
# With vit_tiny, whose gradients have 10.8 MB: bucket_25mb is one bucket.
CAPS = {
    "first_bucket_1mb-bucket_25mb": [1],
    "last_bucket_1mb-bucket_25mb": [1],
    "bucket_list-bucket_25mb": [1, 5],
}
# (config, changed fields, message of the check): DDP is built with the changed fields.
IGNORED = [
    ("first_bucket_1mb-bucket_25mb", {"bucket_cap_mb": 25}, "RuntimeError: DDP ignored the caps of first_bucket_1mb"),
    ("last_bucket_1mb-bucket_25mb", {"bucket_cap_mb": 25}, "RuntimeError: DDP ignored the caps of last_bucket_1mb"),
    ("last_bucket_1mb-bucket_25mb", {"last_bucket_mb": None, "first_bucket_mb": 1}, "RuntimeError: DDP ignored"),
    ("first_bucket_1mb-bucket_25mb", {"first_bucket_mb": None, "last_bucket_mb": 1}, "RuntimeError: DDP ignored"),
    ("bucket_list-bucket_25mb", {"bucket_cap_mb_list": (), "bucket_cap_mb": 25}, "RuntimeError: DDP ignored the caps"),
    ("batched_copy-bucket_25mb", {"batched_grad_copy": False}, "RuntimeError: DDP ignored batched_grad_copy"),
    ("skip_unused-bucket_25mb", {"skip_all_reduce_unused_params": False}, "RuntimeError: DDP ignored skip_all_reduce"),
    ("skip_unused-bucket_25mb", {}, "CannotRun: each of the 1 buckets has a parameter that is used"),
]


def bucket_bytes(ranks: RankSet, config: str) -> list[int]:
    return trained(ranks, config)[0].bucket_bytes


def state(ranks: RankSet) -> tuple[list[int], list[Any]]:
    """Buckets of a config without settings, and what DDP reads from the process."""
    return bucket_bytes(ranks, "bucket_25mb"), called(ranks, "rank_ddp_settings:process_wide")


# Any: fields of a config.
def checked(ranks: RankSet, config: str, built_as: dict[str, Any], **others: Any) -> dict[str, Any]:
    asked = {"config": config, "built_as": built_as, **others}
    answer: dict[str, Any] = called(ranks, "rank_ddp_settings:checked", **asked)[0]
    return answer


def test_a_setting_takes_effect_and_ends_with_its_config(ranks: RankSet) -> None:
    before = state(ranks)
    assert len(before[0]) == 1
    for config, caps in CAPS.items():
        sizes = bucket_bytes(ranks, config)
        small = sizes[: -len(caps) - 1 : -1] if "last" in config else sizes[: len(caps)]
        assert len(sizes) > len(caps)
        assert sum(sizes) == sum(before[0])
        assert all(cap * MB <= size < (cap + 1.2) * MB for cap, size in zip(caps, small, strict=True))
    assert before == state(ranks)


# Why the small ViT cannot have a setting over gloo.
WHY_NOT = (
    "vit_tiny uses all parameters",
    "memory that its backend allocates",
    "broadcast of buffers, and the model has",
)


@pytest.mark.parametrize("config", [name for name in DDP_SETTINGS if name not in CAPS])
def test_another_setting_is_trained_or_says_why_not(ranks: RankSet, config: str) -> None:
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    missing = [name for name in CONFIGS[config].ddp_arguments() if name not in known]
    try:
        assert bucket_bytes(ranks, config)
    except CannotRun as reason:
        says = str(reason)
        assert not missing or f"{config} needs {missing[0]}, which DDP of torch" in says
        assert missing or any(why in says for why in WHY_NOT)
    else:
        assert not missing
        assert config not in ("skip_unused-bucket_25mb", "comm_mem-bucket_25mb", "no_buffer_broadcast-bucket_25mb")


@pytest.mark.parametrize(
    ("config", "others"),
    [
        *((config, {"dtypes": dtypes}) for config in CAPS for dtypes in (1, 2)),
        ("skip_unused-bucket_25mb", {"unused": True}),
    ],
)
def test_a_setting_that_ddp_heeds_passes_its_check(ranks: RankSet, config: str, others: dict[str, Any]) -> None:
    answer = checked(ranks, config, {}, **others)
    assert answer["error"] is None
    assert len(answer["bytes"]) > others.get("dtypes", 1)


@pytest.mark.parametrize(("config", "built_as", "says"), IGNORED)
def test_a_setting_that_ddp_ignores_is_found(ranks: RankSet, config: str, built_as: dict[str, Any], says: str) -> None:
    assert str(checked(ranks, config, built_as)["error"]).startswith(says)
