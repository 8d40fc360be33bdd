"""The candidates of --tune."""

from collections.abc import Collection

import pytest

from fixtures.extras.tune.candidates import DEFAULT, NAIVE, OF_SCRIPT, Allowed, Candidate, Space, limit_of, refined
from fixtures.matrix.configs import find_config
from fixtures.matrix.hooks import find_hook
from fixtures.matrix.worlds import parse_world
from tests.hooks_for_tests import lossless

VIT_L_MB, VIT_TINY_MB = 1167.0, 10.3


def space(
    world: str = "2gpu",
    gradient_mb: float = VIT_L_MB,
    allowed: Collection[Allowed] = (),
    tried: Collection[str] = (),
    own: Collection[str] = (),
) -> Space:
    return Space(
        world=parse_world(world),
        gradient_mb=gradient_mb,
        allowed=allowed,
        own_hooks={name: find_hook(name) for name in own},
        precision="fp32",
        tried=lambda: [named(name) for name in tried],
    )


def named(name: str) -> Candidate:
    return Candidate(config=find_config(name))


def names(candidates: Collection[Candidate]) -> list[str]:
    return [candidate.name for candidate in candidates]


def test_where_nothing_trains_with_static_graph_all_is_tried_without_it() -> None:
    assert space().without_static_graph(named("bucket_25mb")) == []
    again = space(allowed=("lossy", "graph", "autocast")).without_static_graph(OF_SCRIPT)
    assert {"no_static_graph-bucket_50mb", "bf16-no_static_graph-bucket_2000mb"} <= set(names(again))
    assert not any(one.config.static_graph or one.config.graph or one.autocast for one in again)


@pytest.mark.parametrize(
    ("allowed", "name"),
    [
        (("lossy",), "powersgd_rank1-bucket_2000mb"),
        (("autocast",), "autocast-bucket_50mb"),
        (("graph",), "graph-bucket_50mb"),
        (("lossy", "autocast", "graph"), "autocast-graph-bf16-bucket_50mb"),
    ],
)
def test_what_is_allowed_is_tried_too(allowed: Collection[Allowed], name: str) -> None:
    assert name in names(space(allowed=allowed).first(DEFAULT))


def test_bucket_sizes_fit_the_size_of_the_gradients_and_only_lossless_configs_are_tried() -> None:
    assert names(space().first(DEFAULT)) == [f"bucket_{size}mb" for size in (50, 25, 100, 10, 400, 5, 2000)]
    small = space("2cpu", VIT_TINY_MB).first(DEFAULT)
    assert names(small) == [f"bucket_{size}mb" for size in (1, 2, 5, 10, 2000)]


def test_sizes_are_refined_between_those_tried_and_beyond_them() -> None:
    of_ten = space(tried=("bucket_5mb", "bucket_10mb", "bucket_25mb", "bucket_50mb")).sizes(named("bucket_10mb"))
    assert names(of_ten) == ["bucket_7mb", "bucket_16mb"]
    assert refined(5, {5, 10}, {5, 10}, one_bucket_mb=VIT_L_MB) == [2, 7]
    assert refined(2000, {400, 2000}, {400, 2000}, one_bucket_mb=VIT_L_MB) == [683]
    assert refined(10, {8, 10, 12}, {8, 10, 12}, one_bucket_mb=VIT_L_MB) == []
    # With another setting the sizes around the leader are tried anew.
    tried = ("bucket_10mb", "bucket_25mb", "bucket_50mb", "ctas_8-bucket_25mb")
    assert names(space(tried=tried).sizes(named("ctas_8-bucket_25mb"))) == ["ctas_8-bucket_10mb", "ctas_8-bucket_50mb"]


def test_one_setting_of_ddp_or_nccl_is_changed_at_a_time() -> None:
    changed = names(space().settings(named("bucket_25mb")))
    assert {"no_static_graph-bucket_25mb", "batched_copy-bucket_25mb", "last_bucket_1mb-bucket_25mb"} < {*changed}
    assert "no_static_graph-graph-bucket_25mb" not in names(space().settings(named("graph-bucket_25mb")))
    assert "ctas_8-bucket_10mb" in names(space().variables(named("bucket_10mb")))
    assert space("2cpu", VIT_TINY_MB).variables(named("bucket_10mb")) == []


def test_a_lossless_hook_of_the_user_is_a_candidate() -> None:
    own = "tests.hooks_for_tests:lossless"
    found = space(own=(own,)).first(DEFAULT)
    assert [c.config.reference for c in found if c.config.hook == own] == [f"{own}-bucket_50mb", f"{own}-bucket_2000mb"]
    (one, *_) = (c for c in found if c.config.hook == own)
    assert f"{lossless.name}-batched_copy-bucket_50mb" in names(space(own=(own,)).settings(one))
    assert "own_remembers-bucket_50mb" not in names(space(own=("tests.hooks_for_tests:remembers",)).first(DEFAULT))


def test_the_fewest_settings_are_those_of_the_default() -> None:
    order = [DEFAULT, NAIVE, named("no_static_graph-bucket_40mb"), named("bucket_40mb"), named("ctas_8-bucket_40mb")]
    assert [candidate.settings for candidate in order] == [0, 1, 2, 3, 4]


def test_the_limit_is_computed_in_the_same_way() -> None:
    assert limit_of(named("bucket_10mb")).name == "no_comm"
    graph = Candidate(config=find_config("graph-bf16-bucket_10mb"), autocast=True)
    assert limit_of(graph).name == "autocast-graph-no_comm-bucket_25mb"


def test_the_batch_is_doubled_from_the_largest_that_is_fastest() -> None:
    assert space().larger_batch not in space().stages()
    allowed: tuple[Allowed, ...] = ("batch",)
    stages = space(allowed=allowed).stages()
    assert [stage.__name__ for stage in stages].count("larger_batch") == 5
    assert names(space().larger_batch(named("bf16-bucket_10mb"))) == ["batch_x2-bf16-bucket_10mb"]
    assert names(space().larger_batch(DEFAULT)) == ["batch_x2-bucket_25mb"]
    tried = ("bucket_10mb", "batch_x2-bucket_10mb")
    assert names(space(tried=tried).larger_batch(named("batch_x2-bucket_10mb"))) == ["batch_x4-bucket_10mb"]
    assert space(tried=tried).larger_batch(named("bucket_10mb")) == []  # twice was slower, or too large


def test_a_larger_batch_has_its_own_limit_and_counts_as_a_setting() -> None:
    larger = named("graph-batch_x4-bf16-bucket_10mb")
    assert larger.config.batch_factor == 4
    assert larger.settings == named("graph-bf16-bucket_10mb").settings + 1
    assert limit_of(larger).name == "graph-batch_x4-no_comm-bucket_25mb"
    assert limit_of(larger).config.batch_factor == 4
