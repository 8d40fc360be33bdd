"""The lines to paste into scripts of frameworks.

Where a framework is installed, its lines are run; the arguments of the stated versions are known without it.
"""

import ast
import inspect
from collections.abc import Mapping
from typing import Any

import pytest

from fixtures.extras.tune.frameworks import FRAMEWORKS
from fixtures.matrix.config import Config
from fixtures.matrix.configs import find_config
from fixtures.matrix.workloads import WORKLOADS

VIT = WORKLOADS["vit_tiny"]
CONFIGS = (
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
@pytest.mark.parametrize("config", CONFIGS)
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


@pytest.mark.parametrize("config", CONFIGS)
def test_with_accelerate_installed_ddp_gets_the_arguments(config: str) -> None:
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    names: dict[str, Any] = {}
    code = [line for line in lines("accelerate", config) if "Accelerator(" not in line and "environ" not in line]
    exec("\n".join(line.replace("import Accelerator, ", "import ") for line in code), names)
    assert isinstance(names["ddp"], accelerate.DistributedDataParallelKwargs)
    given = {k: v for k, v in names["ddp"].to_kwargs().items() if not k.startswith("comm_")}
    assert given == passed_on(find_config(config))


@pytest.mark.parametrize("config", CONFIGS)
def test_with_lightning_installed_ddp_gets_the_arguments(config: str) -> None:
    pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    names: dict[str, Any] = {}
    code = [line for line in lines("lightning", config) if "Trainer" not in line and "environ" not in line]
    exec("\n".join(code), names)
    assert names["strategy"]._ddp_kwargs == find_config(config).ddp_arguments()


def test_with_transformers_installed_its_arguments_exist() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    assert {*inspect.signature(transformers.TrainingArguments).parameters} >= KNOWN["transformers"]
