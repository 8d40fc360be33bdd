"""A user's own hook: what breaks a rule is told so by name, what keeps its promise gets the whole battery and a row."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.judge.again import violations
from fixtures.matrix.hook import Hook
from fixtures.matrix.hooks import find_hook
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.lookup import NotFound
from fixtures.matrix.worlds import World
from fixtures.ranks.failure import RankFailure
from fixtures.ranks.rank_sets import RankSets
from tests.command_line import QUICK, ROOT, pytest_perf, run

WORLD = World(backend="gloo", size=2)
HERE = "tests.hooks_for_tests"
CHECK = {"option": "bucket_1kb", "shapes": [[8, 4], [300]], "kinds": ["normal"], "seed": 0}


def ask(two_ranks: RankSets, function: str, **arguments: object) -> list[dict[str, Any]]:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    return ranks.run(WORLD, f"fixtures.ranks.equivalence.{function}", arguments, doing=str(arguments["hook"]))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("raises", r"hook raises, bucket 0 of 332 elements: it raised ArithmeticError: no such luck"),
        ("raises_later", r"hook raises_later, bucket 0 of 332 elements: .*IndexError"),
        ("wrong_shape", r"hook wrong_shape, bucket 0 of 332 elements: it returns 332 elements of shape \(1, 332\)"),
        ("short_view", r"hook short_view, bucket 0 of 332 elements: it returns 331 elements of shape \(331,\)"),
        ("other_dtype", r"hook other_dtype, .*: it returns torch.float64, the bucket holds torch.float32"),
        ("no_future", r"hook own_no_future, .*: it returns a Tensor, not a Future of a tensor"),
        ("names_it_otherwise", r"hook names_it_otherwise: DDP refuses it with KeyError: 'bucket'; it takes a function"),
        ("annotates_it_otherwise", r"hook annotates_it_otherwise: DDP refuses it with ValueError: .*GradBucket"),
        ("partial_function", r"hook own_partial: DDP refuses it with AttributeError: .*__name__"),
        ("no_pair", r"hook own_no_pair: its build returns a function, not the pair \(state, hook\)"),
    ],
)
def test_a_hook_that_breaks_a_rule_is_told_so_by_name(two_ranks: RankSets, name: str, says: str) -> None:
    with pytest.raises(RankFailure, match=says):
        ask(two_ranks, "check:check", hook=f"{HERE}:{name}", **CHECK)


def test_another_dtype_is_told_of_16_bit_gradients_too(two_ranks: RankSets) -> None:
    arguments = {"hook": f"{HERE}:float32_for_16_bits", "way": "float16", "option": "default"}
    with pytest.raises(RankFailure, match=r"it returns torch.float32, the bucket holds torch.float16"):
        ask(two_ranks, "ways:check", **arguments, kinds=["normal"], seed=0)


def test_a_hook_that_differs_by_rank_is_told_so(two_ranks: RankSets) -> None:
    found = violations(ask(two_ranks, "check:check", hook=f"{HERE}:differs_by_rank", **CHECK))
    assert any("parameter 0 differs from that of rank 1" in line for line in found)


def test_a_bare_function_promises_only_that_ranks_agree(two_ranks: RankSets) -> None:
    assert violations(ask(two_ranks, "check:check", hook=f"{HERE}:averages", **CHECK)) == []


def fed_back(two_ranks: RankSets, name: str, option: str = "bucket_1kb") -> list[str]:
    return violations(ask(two_ranks, "feedback:delivers", hook=f"{HERE}:{name}", option=option))


@pytest.mark.parametrize(
    "name", ["forgets", "now_and_then_forgets", "fades", "loses_a_twentieth", "remembers_a_bucket"]
)
def test_error_feedback_that_loses_something_is_caught(two_ranks: RankSets, name: str) -> None:
    found = fed_back(two_ranks, name)
    assert found
    assert all("what it leaves out does not come later" in line for line in found)


@pytest.mark.parametrize("option", ["default", "bucket_1kb", "bucket_view_kept", "static_graph"])
def test_error_feedback_that_loses_nothing_is_not(two_ranks: RankSets, option: str) -> None:
    assert fed_back(two_ranks, "remembers", option) == []


def test_error_feedback_that_sends_a_hundredth_in_a_step_loses_nothing(two_ranks: RankSets) -> None:
    assert fed_back(two_ranks, "remembers_long") == []


def test_a_hook_that_claims_to_compress_and_does_not_is_caught(two_ranks: RankSets) -> None:
    found = ask(two_ranks, "wire:wire", hook=f"{HERE}:claims_bf16")[0]["violations"]
    assert found == [
        "collectives of 4.194304 MB a step, 2.097152 MB are promised",
        found[1],
        "collectives of float32, of bfloat16 are promised",
    ]
    assert re.fullmatch(r"4\.\d+ MB a step on the wire, 2.097152 MB are promised", found[1])


def test_a_lossless_hook_keeps_its_promises(two_ranks: RankSets) -> None:
    for function, arguments in (("check:check", CHECK), ("wire:wire", {})):
        assert violations(ask(two_ranks, function, hook=f"{HERE}:lossless", **arguments)) == []


def test_a_hook_in_training_is_looked_at_before_it_is_measured(two_ranks: RankSets) -> None:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    arguments = {"config": f"{HERE}:claims_mean", "workload": "vit_tiny", "world": WORLD.name, "steps": 1, "warmup": 4}
    with pytest.raises(RankFailure, match=r"hook own_short, bucket 0 .*: it returns"):
        ranks.run(WORLD, "fixtures.ranks.training:train", {**arguments, "compare": False}, doing="training")


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        ("bf16", "--hook bf16: a hook of your own is PKG.MODULE:ATTR; torch's are always tested"),
        ("tests.hooks_for_tests:nothing", "module 'tests.hooks_for_tests' has no 'nothing'"),
        ("tests.hooks_for_tests:HERE_IS_NOTHING", "has no 'HERE_IS_NOTHING'"),
        (
            "tests.no_such_module:hook",
            "importing it raised ModuleNotFoundError: No module named 'tests.no_such_module'",
        ),
        ("tests.hooks_for_tests:named_like_another", "there is another hook or config named 'bf16'"),
        (
            "tests.hooks_for_tests:low_rank",
            "PowerSGD is held to promise='low_rank': promise 'nothing', with error_feed",
        ),
        ("tests.hooks_for_tests:Memory", "is a type, not a Hook: from fixtures.matrix.hook import Hook"),
    ],
)
def test_a_wrong_hook_says_what_is_wrong(tmp_path: Path, hook: str, says: str) -> None:
    outcome = pytest_perf(tmp_path, "perf", "--collect-only", "-q", f"--hook={hook}")
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert says in outcome.errors


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        ({"promise": "lossless"}, "promise 'lossless' is none of mean, low_rank, full_rank, local, nothing"),
        ({"promise": "mean"}, "promises the mean: it must say in which wire_dtype"),
        ({"wire_dtype": "fp16"}, "wire_dtype 'fp16' is none of None, gradient, float64"),
        ({"arithmetic": "add"}, "arithmetic 'add' is none of multiply, divide, any"),
        ({"roundings": 3}, "roundings 3 is none of 1, 2"),
        ({"channel": 0}, "channel 0 is no number of elements"),
        (
            {"promise": "mean", "wire_dtype": "gradient", "error_feedback": True},
            "promises 'mean' in each step, so error feedback has nothing to deliver later",
        ),
    ],
)
def test_a_claim_that_means_nothing_is_refused(claim: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"hook 'x'.* {says}"):
        Hook(name="x", build=None, **claim)


def test_a_hook_that_is_not_there_is_told() -> None:
    with pytest.raises(NotFound, match="no hook named 'powersdg': there are none, allreduce"):
        find_hook("powersdg")


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The example of docs/hooks.md, run as it says: what was printed, and the record of its row."""
    folder = tmp_path_factory.mktemp("own")
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/hooks.md").read_text(), re.DOTALL)
    (folder / "my_project").mkdir()
    (folder / "my_project/hooks.py").write_text(code)
    some = "bucket_1kb or gradients_wire or group or float"
    outcome = pytest_perf(
        folder,
        *("perf", *QUICK, "--hook=my_project.hooks:hook", f"--benchmark-json={folder / 'run.json'}"),
        *("-k", f"int8_all_to_all and not any_shape and ({some} or not test_gradients)"),
        variables={"PYTHONPATH": str(folder)},
    )
    assert outcome.exit_code == 0, outcome.output
    (benchmark,) = json.loads((folder / "run.json").read_text())["benchmarks"]
    return outcome.output, benchmark


def test_the_hook_in_the_docs_passes_and_is_measured(documented: tuple[str, dict[str, Any]]) -> None:
    output, benchmark = documented
    assert benchmark["name"] == "test_throughput[vit_tiny-2cpu-int8_all_to_all]"
    assert benchmark["extra_info"]["config"] == "int8_all_to_all"
    assert benchmark["extra_info"]["wire_dtype"] == "int8"
    assert benchmark["extra_info"]["lossless"] is False
    assert abs(benchmark["extra_info"]["loss_excess_percent"]) < 5
    assert 0 < benchmark["extra_info"]["gradient_error"] < 0.5
    assert re.search(r"int8_all_to_all +[+-]\d", output), "it has no row in the table of losses"
    assert re.search(r"hook int8_all_to_all +\d+( +\d+)? *\n", output), "its gradients and bytes were not all right"


def test_a_wrong_hook_is_wrong_in_the_tables_and_in_the_record(tmp_path: Path) -> None:
    chosen = "2cpu and own_claims_bf16 and not ways and not any_shape and (default or gradients_wire or throughput)"
    file = tmp_path / "run.json"
    outcome = pytest_perf(
        tmp_path, "perf", *QUICK, "-k", chosen, f"--hook={HERE}:claims_bf16", f"--benchmark-json={file}"
    )
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED
    assert re.search(r"hook own_claims_bf16 +1 +1 *\n", outcome.output)
    assert "wrong: test_gradients_wire[2cpu-own_claims_bf16]: rank 0, collectives of 4.194304 MB" in outcome.output
    assert re.search(r"own_claims_bf16 .* wrong +no baseline", outcome.output)
    (line,) = set(re.findall(r"again: python (.*)", outcome.output))
    assert "collectives of 4.194304 MB a step" in run(sys.executable, *shlex.split(line)).output
    (benchmark,) = json.loads(file.read_text())["benchmarks"]
    assert (benchmark["extra_info"]["fidelity"], benchmark["extra_info"]["lossless"]) == ("wrong", False)
