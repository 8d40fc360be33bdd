"""``pytest perf --script`` from its command line to its record, with real ranks."""

import json
import re
from pathlib import Path

import pytest

from tests.command_line import Outcome
from tests.forked import live_perf, perf
from tests.script.conftest import SCRIPTS

PLAIN = f"--script={SCRIPTS / 'plain.py'} --width 64 --epochs 9"


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("storage")


@pytest.fixture(scope="module")
def recorded(storage: Path) -> Outcome:
    length = ("--launches=1", "--steps=8", "--warmup=6", "--explain=all", "--benchmark-save=x")
    quiet = ("-p", "tests.quiet_machine")
    return live_perf(storage, "perf", PLAIN, *quiet, *length, f"--benchmark-json={storage.with_suffix('.json')}")


def test_the_default_configs_are_measured_and_profiled(recorded: Outcome, storage: Path) -> None:
    assert recorded.exit_code == 0, recorded.output
    record = json.loads(storage.with_suffix(".json").read_text())
    tests = {one["extra_info"]["config"]: one["extra_info"] for one in record["benchmarks"]}
    assert tests.keys() == {"single", "as_written", "ddp_default", "bucket_10mb", "bf16", "no_comm"}
    assert all(one["breakdown_ms"]["compute"] > 0 for one in tests.values())
    assert tests["as_written"]["ranges_ms"].keys() >= {"get batch", "forward", "backward", "optimizer step"}
    assert "phases of as_written" in recorded.output
    assert list(record["scripts"].values()) == ["tests/script/scripts/plain.py --width 64 --epochs 9"]
    assert tests["as_written"]["samples_per_step"] == 2 * 16
    assert tests["as_written"]["gradient_error"] == 0
    assert [name for name, one in tests.items() if "step_limit" in one] == ["as_written"]
    assert "limited by: " in recorded.output
    assert tests["bf16"]["gradient_error"] == pytest.approx(2.5e-3, rel=0.6)


def test_the_run_says_what_the_script_trains(recorded: Outcome) -> None:
    assert re.search(r"trains Sequential, [1-9]\d*\.\d k parameters, [1-9]\d*\.\d kB of gradients", recorded.output)
    assert "DDP(bucket_cap_mb=1), hook none, AdamW" in " ".join(recorded.output.split())
    assert "each launch runs it from its start for at most 253 steps" in recorded.output


def test_what_limits_a_script_that_forbids_profilers_comes_from_its_host(storage: Path, tmp_path: Path) -> None:
    script, forbids = tmp_path / "train.py", "            assert not torch.autograd.profiler._is_profiler_enabled\n"
    loss = "            loss = nn.functional.cross_entropy("
    script.write_text((SCRIPTS / "plain.py").read_text().replace(loss, f"{forbids}            time.sleep(0.1)\n{loss}"))
    found = live_perf(storage, "perf", f"--script={script}", "-k", "2cpu and as_written", "--quick")
    assert "1 passed" in found.output
    assert "limited by: its own work (" in found.output


def test_in_a_comparison_the_launches_of_both_sides_are_counted(storage: Path) -> None:
    length = ("--launches=1", "--minutes=0.001", "--steps=4", "--warmup=4")
    words = ("-k", "2cpu and as_written", "--against-env=OWN=1", "--script-env=OWN_TOKEN=s3cr3t")
    compared = live_perf(storage, "perf", PLAIN, *words, *length)
    assert "--script-env=OWN_TOKEN=***" in compared.output.replace("'", "").replace(chr(34), "")
    assert "s3cr3t" not in compared.output
    assert re.search(
        r"a launch takes \d+\.\d s, at least 2 take \d+ s, and 1 start of ranks \d+ s\b(?! each)", compared.unwrapped
    )


def test_a_quick_answer_takes_one_start_and_misses_no_test_without_a_script(recorded: Outcome, storage: Path) -> None:
    """A script that trains long enough for the turns; another one is started for each config."""
    file = next(storage.rglob("*.json"))
    record = json.loads(file.read_text())
    first, test = record["benchmarks"][0], "test_collectives[2cpu-all_reduce_1mb]"
    transfer = first["extra_info"] | {"workload": "all_reduce"}
    other = first | {"name": test, "fullname": f"perf/test_collectives.py::{test}", "extra_info": transfer}
    file.write_text(json.dumps(record | {"benchmarks": [*record["benchmarks"], other]}))
    found = live_perf(storage, "perf", f"--script={SCRIPTS / 'plain.py'}", "--quick").exits(0)
    assert "all_reduce_1mb" not in found.output
    assert "no_comm] skipped: measured in turns with as_written, see its row as_written-no_comm" in found.unwrapped
    assert "1 passed, 2 skipped" in found.output
    assert re.search(r"^as_written-bf16 .* not compared .* reference$", found.output, re.MULTILINE)
    assert re.search(r"^as_written-no_comm .* limit .* reference$", found.output, re.MULTILINE)
    assert "one launch does not tell" not in found.output


def test_quick_measures_three_configs_once(storage: Path) -> None:
    quick = ("perf", PLAIN, "--quick", "--collect-only")
    listed = perf(storage, *quick, "-q")
    assert sorted(test.rpartition("-")[2].rstrip("]") for test in listed.test_ids) == ["as_written", "bf16", "no_comm"]
    assert "1 launch of 6 warm-up and up to 60 measured steps" in perf(storage, *quick).output


def test_other_configs_are_on_request_and_others_do_not_apply(storage: Path) -> None:
    listed = perf(storage, "perf/test_script.py", PLAIN, "--collect-only", "-q")
    configs = {test.rpartition("cpu-")[2].rstrip("]") for test in listed.test_ids}
    assert {"powersgd_rank1", "bucket_25mb", "static_graph", "as_written"} <= configs
    assert not any(config.startswith(("graph-", "compile-", "feed_", "fsdp", "accumulate")) for config in configs)


def test_a_name_that_only_a_workload_measures_by_default_is_a_request(storage: Path) -> None:
    def cells(words: str) -> list[str]:
        listed = perf(storage, "perf", PLAIN, "-k", words, "--collect-only", "-q")
        return [test.partition("-")[2].rstrip("]") for test in listed.test_ids]

    assert cells("as_written") == ["2cpu-as_written"]
    assert sorted(cells("test_script and (bucket or bf16)")) == ["2cpu-bf16", "2cpu-bucket_10mb"]
    requested = cells("2cpu and (as_written or powersgd_rank1)")
    assert "2cpu-powersgd_rank1" in requested
    assert requested.count("2cpu-as_written") == 1


def test_what_no_config_can_change_is_found_out_once(storage: Path, tmp_path: Path) -> None:
    script, starts = tmp_path / "train.py", tmp_path / "starts"
    script.write_text(f"print('started', file=open({str(starts)!r}, 'a'))")
    outcome = live_perf(storage, "perf", f"--script={script}", "-k", "ddp_default or no_comm", "--launches=1")
    assert outcome.output.count("\nlaunch 1 of ddp_default on 2cpu: train.py ended without a step") == 1
    assert "1 failed" in outcome.output
    assert "no_comm] skipped: not started: it would fail as ddp_default did on 2cpu" in outcome.unwrapped
    assert len(starts.read_text().splitlines()) == 2  # ranks


def test_a_failure_before_the_first_step_as_written_ends_the_script(storage: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("raise RuntimeError('no data')")
    outcome = live_perf(storage, "perf", f"--script={script}", "--quick").exits(1)
    assert outcome.output.count("\nlaunch 1 of as_written on 2cpu: rank 0 raised RuntimeError: no data") == 1
    assert "1 failed" in outcome.output
    assert outcome.unwrapped.count("skipped: not started: it would fail as as_written did on 2cpu") == 2
