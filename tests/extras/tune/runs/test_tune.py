"""``pytest perf --tune`` as whole runs: collection, the search, its result on the terminal and in the record."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fixtures.extras import EXTRAS
from tests.command_line import Outcome
from tests.extras.tune.tuned_ranks import INTERRUPTED_AFTER, NOT_FINITE, WRONG, WRONG_HERE
from tests.fake_gpus import machine
from tests.forked import command, perf
from tests.forked import pytest as forked_pytest

STEADY = "tests.workloads_for_tests:steady"
FAST_AND_WRONG = "tests.hooks_for_tests:fast_and_wrong"
WITH_GPUS = ("-p", "tests.fake_gpus", "-p", "tests.extras.tune.tuned_ranks")


def tune(
    folder: Path, *arguments: str, of: str = f"--workload={STEADY}", variables: dict[str, str] | None = None
) -> tuple[Outcome, dict[str, Any]]:
    """On four GPUs; returns the outcome, and what the record has of the only search."""
    file = folder / "run.json"
    outcome = perf(
        folder / "baselines",
        *("perf", "--tune", of, f"--benchmark-json={file}"),
        *WITH_GPUS,
        *arguments,
        variables=machine() | (variables or {}),
    )
    record = json.loads(file.read_text()) if file.exists() else {}
    assert record.get("benchmarks", []) == []
    (tuning,) = record.get("tuning", [{}])
    return outcome, tuning


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tuned")


@pytest.fixture(scope="module")
def tuned(folder: Path) -> tuple[Outcome, dict[str, Any]]:
    return tune(folder)


def collected(*arguments: str) -> list[str]:
    return forked_pytest("-p", "no:cacheprovider", "perf", "--collect-only", "-q", *arguments).test_ids


def test_with_tune_its_tests_are_collected_alone_and_without_it_none_of_them() -> None:
    assert collected("--tune") == ["perf/test_tune.py::test_tune[vit_tiny-2cpu]"]
    two = collected("--tune", "--workload=vit_tiny", f"--workload={STEADY}", "--precision=autocast")
    assert two == [f"perf/test_tune.py::test_tune[{name}_autocast-2cpu]" for name in ("vit_tiny", "steady")]
    assert [test for test in collected() if "tune" in test] == []
    assert forked_pytest("perf/test_tune.py", "--collect-only").exit_code == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_best_config_of_all_stages_is_found_with_gains_in_whose_intervals_the_truth_lies(
    tuned: tuple[Outcome, dict[str, Any]],
) -> None:
    """The truth for ddp_default is 1.01 times 1.0015, in buckets of 25 MB; for the limit it is one bucket without
    communication."""
    outcome, tuning = tuned
    assert outcome.exit_code == 0, outcome.output
    assert re.fullmatch(r"ctas_8-(no_static_graph-)?bucket_(3[0-9]|4[0-9])mb", tuning["config"])
    assert tuning["decision"] == "faster"
    assert tuning["gradients_checked"] is True
    low, high = tuning["over_default"]["interval_percent"]
    assert low - 0.1 < 100 * (1.01 * 1.00154 / 0.98 - 1) < high + 0.1
    assert tuning["over_naive"]["percent"] > tuning["over_default"]["percent"]
    assert 70 < tuning["of_limit"]["percent"] < 90


def test_the_gradients_of_the_best_in_turns_are_compared_on_the_workload(tmp_path: Path) -> None:
    outcome, tuning = tune(tmp_path, variables={WRONG_HERE: "ctas_8-no_static_graph-bucket_35mb"})
    assert outcome.exit_code == 0, outcome.output
    assert (
        "ctas_8-no_static_graph-bucket_35mb is out, its gradients are wrong: it promises the mean" in outcome.unwrapped
    )
    assert re.fullmatch(r"ctas_8-no_static_graph-bucket_(?!35)\d+mb", tuning["config"])
    assert tuning["decision"] == "faster"
    (wrong,) = (one for one in tuning["tried"] if "excluded" in one and "promises the mean" in one["excluded"])
    assert wrong["config"] == "ctas_8-no_static_graph-bucket_35mb"


def test_the_end_says_what_to_paste(tuned: tuple[Outcome, dict[str, Any]]) -> None:
    outcome, tuning = tuned
    assert f"best for steady on 4gpu: {tuning['config']} (" in outcome.output
    for name in ("PyTorch", "Hugging Face", "Accelerate", "Lightning"):
        assert f"\n  {name}:\n" in outcome.output
    assert tuning["patches"].keys() == {"pytorch", "transformers", "accelerate", "lightning"}
    assert 'os.environ["NCCL_MAX_CTAS"] = "8"' in "\n".join(tuning["patches"]["lightning"])


def test_each_better_config_is_reported_and_ranks_that_start(tuned: tuple[Outcome, Any]) -> None:
    assert re.search(r"\d configs: bucket_\d+mb +\d+\.\d\d ms/step \(\+\d+\.\d % over ddp_default\)", tuned[0].output)
    told = [line for line in tuned[0].output.splitlines() if line.startswith("steady 4gpu, ")]
    assert all(
        re.search(r"(configs|launch|launches): \S+ +\d+\.\d\d ms/step( \([+-]\d+\.\d %\))?", line) for line in told
    )
    assert all(len(line) <= 100 for line in told)
    started = re.findall(r"^starting (.+) \.\.\.$", tuned[0].output, re.MULTILINE)
    assert started == ["3 x 4 ranks", "1 x 4 ranks", "1 x 4 ranks with NCCL_MAX_CTAS=8"]


def test_lossy_hooks_and_autocast_are_tried_where_allowed(tmp_path: Path) -> None:
    outcome, tuning = tune(tmp_path, "--allow=lossy,autocast")
    assert outcome.exit_code == 0, outcome.output
    assert tuning["config"].startswith("autocast-bf16-")
    assert tuning["workload"] == "steady_autocast"
    assert re.search(r"the last \d+ candidates and references take turns in the same ranks", outcome.unwrapped)


def test_a_script_is_searched_with_what_it_can_run_against_itself(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("model = DistributedDataParallel(net, device_ids=[rank])\n")
    outcome, tuning = tune(tmp_path, "--allow=lossy", of=f"--script={script}")
    assert outcome.exit_code == 0, outcome.output
    assert re.fullmatch(r"bf16-(ctas_8-)?no_static_graph-bucket_\d+mb", tuning["config"])
    assert (tuning["decision"], tuning["gradients_checked"], tuning["gradient_error"]) == ("faster", True, 2e-3)
    configs = [one["config"] for one in tuning["tried"]]
    assert configs[0] == "as_written"
    assert not any("ddp" in name or "graph-" in name.replace("no_static_graph-", "") for name in configs)
    assert re.search(r"\+\d+\.\d % over as_written \(", outcome.output)
    assert "over_naive" not in tuning
    assert tuning["samples_per_s"] == pytest.approx(4 * 2 / tuning["step_s"])
    assert tuning["patches"].keys() == {"script"}
    assert tuning["limit_s"] == 20 * 60


@pytest.mark.skipif("promote" not in EXTRAS, reason="the extra promote was deleted")
@pytest.mark.usefixtures("tuned")
def test_a_search_is_no_baseline(folder: Path) -> None:
    command("promote", folder / "run.json", "--yes", "--storage", folder / "baselines").exits(1)
    assert not (folder / "baselines").exists()


def test_an_interrupted_search_gives_the_best_known(tmp_path: Path) -> None:
    variables = {WRONG: FAST_AND_WRONG, INTERRUPTED_AFTER: "8"}
    outcome, tuning = tune(tmp_path, f"--hook={FAST_AND_WRONG}", variables=variables)
    assert outcome.exit_code == pytest.ExitCode.INTERRUPTED
    assert f"INTERRUPTED, best known so far for steady on 4gpu: {tuning['config']} (" in outcome.output
    assert (tuning["interrupted"], tuning["decision"]) == (True, "unfinished")
    assert "own_fast" not in tuning["config"]


def test_in_too_short_a_time_the_default_is_measured_and_the_rest_named(tmp_path: Path) -> None:
    outcome, tuning = tune(tmp_path, "--minutes=0.0001")
    assert outcome.exit_code == pytest.ExitCode.OK
    assert (tuning["config"], tuning["decision"]) == ("ddp_default", "unfinished")
    assert "NOT DECIDED within 0.0001 minutes" in outcome.unwrapped
    assert re.search(r"no time to try bucket_\d+mb, bucket_\d+mb, bucket_\d+mb and \d+ more: ", outcome.unwrapped)


def test_a_workload_without_finite_gradients_is_not_tuned(tmp_path: Path) -> None:
    outcome = perf(tmp_path, "perf", "--tune", f"--workload={NOT_FINITE}", *WITH_GPUS, variables=machine()).exits(
        pytest.ExitCode.TESTS_FAILED
    )
    assert "raised FloatingPointError: they are not finite" in outcome.unwrapped
    assert "best" not in outcome.output.partition("= FAILURES =")[2]


def test_on_one_device_there_is_nothing_to_tune(tmp_path: Path) -> None:
    perf(tmp_path, "perf", "--tune", "-rs", *WITH_GPUS, variables=machine() | {"CUDA_VISIBLE_DEVICES": "0"}).exits(0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tune", "--allow=lossless"), "--allow: no 'lossless': there are lossy, autocast, graph, batch"),
        (("--allow=lossy",), "--allow is for the search of --tune: add --tune"),
        (("--tune", "--allow=graph"), "--allow graph: CUDA graphs need a GPU, this machine has none"),
        (("--tune", f"--script={__file__}", "--allow=graph"), "--allow graph: a script decides how it computes"),
        (("--tune", "--benchmark-save=x"), "leave out --benchmark-save"),
        (("--tune", "--explain=all"), "leave out --explain all"),
    ],
)
def test_what_a_search_cannot_do_is_refused(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in perf(tmp_path, "perf", *arguments).exits(pytest.ExitCode.USAGE_ERROR).errors
