"""The candidates of a search, the battery of a hook, frameworks, and the lines of a search."""

import ast
import inspect
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Literal

import pytest

from fixtures.extras.tune.candidates import DEFAULT, NAIVE, OF_SCRIPT, Allowed, Candidate, Space, limit_of, refined
from fixtures.extras.tune.plugin import Battery, tuning_lines
from fixtures.extras.tune.tuned import FRAMEWORKS, Tuned, TuningRecord, patches
from fixtures.extras.tune.tuning import Cell
from fixtures.matrix.config import Config
from fixtures.matrix.configs import CONFIGS, find_config
from fixtures.matrix.hooks import find_hook
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from tests.builders import effect_of
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
    assert [stage.__name__ for stage in space(allowed=allowed).stages()].count("larger_batch") == 5
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


# Gradient checks that exclude a candidate of ``--tune``


CELL = Cell(
    reference="vit_tiny",
    workload=WORKLOADS["vit_tiny"],
    world=parse_world("2cpu"),
    interconnect=INTERCONNECTS["native"],
)


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        ("powersgd_rank1", "the loss of a small problem is 20 % higher, over 1 %"),
        ("tests.hooks_for_tests:learns_nothing", "the loss of a small problem is 20 % higher, over 1 %"),
        ("tests.hooks_for_tests:states_its_loss", None),
    ],
)
def test_a_lossy_hook_may_cost_what_its_user_states(hook: str, why: str | None) -> None:
    ranks: Any = None
    battery = Battery(train_small_problem=lambda ranks, hook, world: effect_of(hook, excess_percent=20.0))
    assert battery._harm(CELL, replace(CONFIGS["bf16"], name=hook, hook=hook), ranks) == why


# The lines to paste into scripts of frameworks


VIT = WORKLOADS["vit_tiny"]
PATCHED = (
    *("ddp_default", "ddp", "bucket_40mb", "no_static_graph-bucket_40mb", "bf16-bucket_25mb", "fp16-bucket_25mb"),
    *("powersgd_rank1-bucket_2000mb", "bf16_powersgd_rank1-bucket_2000mb", "fp8_all_to_all-bucket_25mb"),
    *("ctas_8-bucket_10mb", "first_bucket_1mb-bucket_25mb", "first_bucket_1mb-bucket_40mb", "graph-bucket_25mb"),
    *("builtin_allreduce-bucket_25mb", "batched_copy-bucket_40mb", "last_bucket_1mb-bucket_25mb"),
)
# By framework, the arguments that its stated version takes.
KNOWN = {
    "transformers": {
        *("output_dir", "ddp_bucket_cap_mb", "ddp_find_unused_parameters", "ddp_static_graph", "ddp_broadcast_buffers"),
        *("bf16", "tf32"),
    },
    "accelerate": {
        *("bucket_cap_mb", "find_unused_parameters", "static_graph", "gradient_as_bucket_view", "broadcast_buffers"),
        *("comm_hook", "comm_wrapper", "comm_state_option"),
    },
    # The others are passed on to DistributedDataParallel.
    "lightning": {
        *("ddp_comm_state", "ddp_comm_hook", "ddp_comm_wrapper", "bucket_cap_mb", "static_graph"),
        *("gradient_as_bucket_view", "find_unused_parameters", "bucket_cap_mb_list", "batched_grad_copy"),
    },
}


def lines(framework: str, config: str, precision: str = "fp32") -> tuple[str, ...]:
    workload = VIT.in_precision("autocast") if precision == "autocast" else VIT
    return FRAMEWORKS[framework].lines(find_config(config), workload)


def arguments(code: str, call: str) -> set[str]:
    """The names of the arguments of each call of this function."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    named = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id == call]
    return {keyword.arg for node in named for keyword in node.keywords if keyword.arg is not None}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("config", PATCHED)
def test_only_arguments_that_the_stated_version_has_are_given(framework: str, config: str) -> None:
    code = "\n".join(lines(framework, config))
    assert arguments(code, FRAMEWORKS[framework].call) <= KNOWN[framework]
    long = [line for line in code.splitlines() if len(line) > 96 and not line.startswith("# ")]
    assert not [line for line in long if "matrix_approximation_rank" not in line]


@pytest.mark.parametrize(
    ("framework", "config", "missing"),
    [
        ("transformers", "bucket_40mb", "gradient_as_bucket_view"),
        ("transformers", "bf16-bucket_25mb", "gradient_as_bucket_view, the hook bf16"),
        ("accelerate", "first_bucket_1mb-bucket_40mb", "bucket_cap_mb_list"),
        ("accelerate", "fp8_all_to_all-bucket_25mb", "the hook fp8_all_to_all"),
        ("lightning", "fp8_all_to_all-bucket_25mb", "the hook fp8_all_to_all"),
        ("lightning", "graph-bucket_25mb", "a CUDA graph of the whole step"),
    ],
)
def test_what_has_no_argument_is_reported_in_one_line(framework: str, config: str, missing: str) -> None:
    version = FRAMEWORKS[framework].version
    assert f"# no argument of {framework} {version} for {missing}" in lines(framework, config)


def test_a_cap_of_25_that_is_not_passed_on_is_reported() -> None:
    assert any("25 is not passed on" in line for line in lines("accelerate", "bucket_25mb"))
    assert not any("25 is not passed on" in line for line in lines("lightning", "bucket_25mb"))


@pytest.mark.parametrize(
    ("framework", "argument"),
    [("transformers", "bf16=True"), ("accelerate", 'mixed_precision="bf16"'), ("lightning", 'precision="bf16-mixed"')],
)
def test_autocast_is_an_argument_of_each_and_variables_of_nccl_are_set(framework: str, argument: str) -> None:
    assert argument in "\n".join(lines(framework, "bucket_40mb", "autocast"))
    assert lines(framework, "ctas_8-bucket_10mb")[1].startswith('os.environ["NCCL_MAX_CTAS"] = "8"')


# Any: an argument of DDP has any type.
def passed_on(config: Config) -> Mapping[str, Any]:
    """What reaches DDP through Accelerate, which leaves out its own defaults."""
    known = KNOWN["accelerate"]
    return {k: v for k, v in config.ddp_arguments().items() if k in known and (k, v) != ("bucket_cap_mb", 25)}


@pytest.mark.parametrize("config", PATCHED)
def test_with_accelerate_installed_ddp_gets_the_arguments(config: str) -> None:
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    names: dict[str, Any] = {}
    code = [line for line in lines("accelerate", config) if "Accelerator(" not in line and "environ" not in line]
    exec("\n".join(line.replace("import Accelerator, ", "import ") for line in code), names)
    assert isinstance(names["ddp"], accelerate.DistributedDataParallelKwargs)
    given = {k: v for k, v in names["ddp"].to_kwargs().items() if not k.startswith("comm_")}
    assert given == passed_on(find_config(config))


@pytest.mark.parametrize("config", PATCHED)
def test_with_lightning_installed_ddp_gets_the_arguments(config: str) -> None:
    pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    names: dict[str, Any] = {}
    code = [line for line in lines("lightning", config) if "Trainer" not in line and "environ" not in line]
    exec("\n".join(code), names)
    assert names["strategy"]._ddp_kwargs == find_config(config).ddp_arguments()


def test_with_transformers_installed_its_arguments_exist() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    assert {*inspect.signature(transformers.TrainingArguments).parameters} >= KNOWN["transformers"]


# The output of a search


BEST, WORKLOAD, WORLD = Candidate(config=CONFIGS["bucket_10mb"]), WORKLOADS["vit_tiny"], parse_world("2cpu")
FOUND = Tuned(
    workload=WORKLOAD,
    world=WORLD,
    best=BEST,
    default=Candidate(config=CONFIGS["ddp_default"]),
    record=TuningRecord(
        workload="vit_tiny",
        world="2cpu",
        interconnect="native",
        config="bucket_10mb",
        decision="faster",
        interrupted=False,
        tied=[],
        left_out=[],
        step_s=0.1,
        samples_per_s=80,
        gradients_checked=True,
        launches=9,
        took_s=60,
        limit_s=60,
        patches=patches(BEST, WORKLOAD, WORLD),
        tried=[],
    ),
)


def test_what_the_training_cannot_have_is_not_pasted() -> None:
    assert any("static_graph=True" in line for line in tuning_lines(FOUND))
    excluded = frozenset({"static_graph"})
    lines = tuning_lines(replace(FOUND, excluded=excluded).noted(patches=patches(BEST, WORKLOAD, WORLD, excluded)))
    assert not any("static_graph=True" in line for line in lines)
    assert any("static_graph is left out: this training cannot use it" in line for line in lines)


@pytest.mark.parametrize(("word", "pasted"), [("faster", True), ("unfinished", False)])
def test_what_is_not_decided_is_nothing_to_paste(word: Literal["faster", "unfinished"], pasted: bool) -> None:
    lines = tuning_lines(FOUND.noted(decision=word))
    assert any("bucket_cap_mb=10" in line for line in lines) == pasted
    assert any("nothing is decided, so there is nothing to paste" in line for line in lines) != pasted
