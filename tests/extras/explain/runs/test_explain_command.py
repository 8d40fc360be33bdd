"""``python -m fixtures explain FILE...`` as a user runs it."""

import json
from pathlib import Path

import pytest

from tests.command_line import ROOT, Outcome
from tests.forked import command
from tests.recordings import GEMM, NCCL, NCCL_STREAM, Recording, ddp_steps, sqlite
from tests.saved_records import read


def explain(*arguments: str | Path) -> Outcome:
    return command("explain", *arguments)


def test_it_prints_the_parts_of_each_rank_the_collectives_of_a_step_and_json(tmp_path: Path) -> None:
    """Two ranks, the second late. Every kind of file gives the same: tests/unit/trace/test_breakdown.py."""
    ranks = (ddp_steps(0), ddp_steps(1, late_us=150))
    files = [recording.chrome(tmp_path / f"rank{recording.rank}.json.gz") for recording in ranks]
    outcome = explain(*files, "--collectives").exits(0)
    lines = [line.split() for line in outcome.output.splitlines()]
    assert ["0", "2", "1.00", "0.75", "0.18", "0.05", "0.02", "0.40"] in [line[:8] for line in lines]
    assert "late: rank 1 in 2 of 4 collectives" in outcome.output
    # After the start of the backward pass, at 320 us of a step; the second has no compute beside it but 20 us.
    first, second = [line for line in lines if "all_reduce" in line]
    assert (first[0], first[-4:]) == ("1", ["0.10", "0.200", "0.200", "0.000"])
    assert (second[0], second[-4:]) == ("2", ["0.46", "0.125", "0.050", "0.115"])
    assert " all_reduce " not in explain(*files).output
    info = json.loads(explain(*files, "--json").output)
    assert sum(info["breakdown_ms"].values()) == pytest.approx(info["profiled_step_ms"], rel=1e-9)
    assert info["late_ranks"] == {"1": 2}
    assert "late: rank 1 in 2 of 4 collectives" in explain(sqlite(tmp_path / "both.sqlite", ranks)).output


def test_the_limit_is_the_one_that_the_record_of_the_run_has(tmp_path: Path) -> None:
    record = read(ROOT / "baselines/2x-nvidia-h200-nv18/0001_vit.json")
    record["benchmarks"][0]["extra_info"]["step_limit"] = {"by": "own", "percent": 58, "line": "train.py:39 main()"}
    (tmp_path / "run.json").write_text(json.dumps(record))
    (tmp_path / "without.json").write_text(json.dumps(read(ROOT / "baselines/2x-nvidia-h200-nv18/0001_vit.json")))
    trace = ddp_steps(0).chrome(tmp_path / "rank0.json.gz")
    printed = explain(trace, "--record", tmp_path / "run.json").output
    assert "limited by: its own work (58 % of the step): train.py:39 main()" in printed
    assert "limited by" not in explain(trace).output
    assert "without.json has no limit of a step" in explain(trace, "--record", tmp_path / "without.json").output


def test_ranks_are_identified_by_the_names_of_files_where_nsys_does_not(tmp_path: Path) -> None:
    files = [sqlite(tmp_path / f"run-rank{r.rank}.sqlite", [r]) for r in (ddp_steps(1, late_us=150), ddp_steps(0))]
    assert json.loads(explain(*files, "--json").output)["late_ranks"] == {"1": 2}


def test_a_process_without_steps_is_left_out_and_named(tmp_path: Path) -> None:
    other = Recording(rank=5)
    other.range("serving", 0, 10)
    other.run(GEMM, 50, 60, at=5)
    outcome = explain(sqlite(tmp_path / "run.sqlite", [ddp_steps(0), other])).exits(0)
    assert outcome.errors.startswith("left out: run.sqlite, process 4005 has no range named 'Batch *' or ")


def test_several_launches_in_one_file_are_not_taken_for_ranks(tmp_path: Path) -> None:
    first, second = ddp_steps(0), ddp_steps(0)
    second.pid = 4711
    outcome = explain(sqlite(tmp_path / "run.sqlite", [first, second])).exits(2)
    assert "run.sqlite has 2 processes with steps on GPU 0, so it holds several launches" in outcome.errors


def test_ranks_of_two_runs_or_sizes_are_refused(tmp_path: Path) -> None:
    first = ddp_steps(0).chrome(tmp_path / "test-ddp-rank0.json.gz")
    second = ddp_steps(1, late_us=150).chrome(tmp_path / "test-bf16-rank1.json.gz", began_s=1_800_000_007)
    for files in ((first, second), (second, first)):
        outcome = explain(*files)
        assert (outcome.exit_code, outcome.output) == (2, "")
        assert outcome.errors == (
            "error: test-bf16-rank1.json.gz begins 7 s after test-ddp-rank0.json.gz ends: give the ranks of one run "
            "(or synchronise the hosts' clocks)\n"
        )
    outcome = explain(
        *(ddp_steps(rank).chrome(tmp_path / f"rank{rank}.json", world_size=2 * (1 + rank)) for rank in (0, 1))
    )
    assert (outcome.exit_code, outcome.output) == (2, "")
    assert outcome.errors == (
        "error: rank0.json comes from a run of 2 ranks, rank1.json from one of 4: give the ranks of one run\n"
    )


def test_a_folder_is_refused_with_the_files_to_name(tmp_path: Path) -> None:
    for name in ("test-ddp", "test-bf16"):
        for rank in (0, 1):
            ddp_steps(rank).chrome(tmp_path / f"{name}-rank{rank}.json.gz")
    outcome = explain(tmp_path)
    wanted = tmp_path / "test-bf16-rank*.json.gz"
    assert (outcome.exit_code, outcome.output) == (2, "")
    assert outcome.errors == f"error: {tmp_path} is a folder: name the files of one test in it, such as {wanted}\n"
    assert explain(*tmp_path.glob(wanted.name)).exit_code == 0


def late_in_load(rank: int, copy_us: int = 20_020) -> Recording:
    """Steps of torch.profiler with a range of the user's own, in which rank 1 takes 20 ms longer; copy_us: its copy."""
    recording = Recording(rank=rank)
    for step in range(3):
        host, device = 400 * step, 1000 + 22_000 * step
        ready = device + (20_020 if rank == 1 else 20)
        recording.range(f"ProfilerStep#{step}", host, host + 380)
        recording.range("load", host + 10, host + 100)
        recording.run("Memcpy HtoD (Pinned -> Device)", device, min(ready, device + copy_us), at=host + 20)
        recording.range("inside", host + 30, host + 40)
        recording.range("train", host + 110, host + 300)
        recording.run(GEMM, ready, ready + 300, at=host + 120)
        recording.run(NCCL, ready + 300, device + 20_520, at=host + 130, stream=NCCL_STREAM)
    return recording


def test_the_steps_of_torch_profiler_and_the_users_own_ranges_name_the_phase_of_a_late_rank(tmp_path: Path) -> None:
    alone = explain(late_in_load(0).chrome(tmp_path / "rank0.json", world_size=1))
    assert "phases of rank 0 on the device, ms: load 0.02, train 20.50" in alone.output, alone.errors
    outcome = explain(
        *(late_in_load(rank).chrome(tmp_path / f"rank{rank}.json", world_size=3) for rank in range(3))
    ).exits(0)
    assert "phases of rank 1 on the device, ms: load 20.02, train 0.50" in outcome.output
    assert "rank 1 is late by 20.0 ms, in load" in outcome.output
    idle = (late_in_load(rank, 2_000).chrome(tmp_path / f"idle{rank}.json", world_size=3) for rank in range(3))
    assert "late by" not in explain(*idle).exits(0).output


@pytest.mark.parametrize(
    ("ranks", "world_size", "says"),
    [
        ([0], 8, "1 of 8 ranks: a rank late among the other 7 is not seen"),
        ([3, 5], 8, "2 of 8 ranks: a rank late among the other 6 is not seen"),
        ([0, 1], 3, "2 of 3 ranks: whether the other one is late is not seen"),
        ([0, 1], 2, None),
    ],
)
def test_some_of_the_ranks_are_said_to_be_some_and_have_no_transfer_without_waiting(
    tmp_path: Path, ranks: list[int], world_size: int, says: str | None
) -> None:
    files = [late_in_load(rank).chrome(tmp_path / f"rank{rank}.json", world_size=world_size) for rank in ranks]
    outcome = explain(*files, "--collectives")
    assert ("ranks: " not in outcome.output) if says is None else f"\n{says}\n" in outcome.output
    assert (" transfer " in outcome.output) == (says is None)
    assert ("late by" in outcome.output) == ("without waiting" in outcome.output) == (says is None)
    as_json = explain(*files, "--json")
    assert as_json.errors == ("" if says is None else f"{says}\n")
    collectives = json.loads(as_json.output)["ledger"]["collectives"]
    assert all(("transfer_ms" in one) == (says is None) for one in collectives)


def test_the_ranks_that_joined_last_of_some_are_not_said_to_be_late(tmp_path: Path) -> None:
    files = [late_in_load(rank).chrome(tmp_path / f"rank{rank}.json", world_size=128) for rank in (0, 1)]
    output = explain(*files).output
    assert "joined last of these: rank 1 in 2 of 2 collectives; a rank waits at least 10.00 ms a step" in output
    assert "\nlate: " not in output


@pytest.mark.parametrize(("ranks", "says"), [([0], "1 rank of"), ([1, 3], "2 ranks of"), ([0, 1], None)])
def test_ranks_of_a_run_of_unknown_size_may_have_others(tmp_path: Path, ranks: list[int], says: str | None) -> None:
    """nsys records neither the rank nor their number."""
    files = [sqlite(tmp_path / f"rank{rank}.sqlite", [ddp_steps(rank)]) for rank in ranks]
    output = explain(*files, "--collectives").output
    assert ("not seen" in output) == (says is not None) == (" transfer " not in output)
    assert says is None or f"{says} a run of unknown size: a rank late among the others is not seen" in output


def with_operators(number: int, *, running: bool) -> Recording:
    """Steps with so many ranges around operators, with numbers that run on or begin anew in each step."""
    recording = Recording()
    for step in range(3):
        recording.range(f"iteration {step}", 1000 * step, 1000 * step + 990)
        for place in range(number):
            at, seq = 1000 * step + 10 * place, place + (number * step if running else 0)
            recording.range(f"aten::mm, seq = {seq}", at, at + 9)
            recording.run(GEMM, 5000 + at, 5005 + at, at=at + 1)
    return recording


@pytest.mark.parametrize(("number", "running", "listed"), [(30, True, 1), (4, True, 1), (30, False, 1), (4, False, 4)])
def test_phases_with_many_or_running_numbers_are_one(tmp_path: Path, number: int, running: bool, listed: int) -> None:
    file = with_operators(number, running=running).chrome(tmp_path / "rank0.json", world_size=1)
    output = " ".join(explain(file, "--step", "iteration *").output.split())
    assert output.count("aten::mm, seq = ") == listed
    assert (f"aten::mm, seq = * {0.005 * number:.2f}" in output) == (listed == 1)


def test_the_longest_twenty_phases_are_listed(tmp_path: Path) -> None:
    recording = Recording()
    recording.range("Batch 0", 0, 990)
    for place in range(26):
        recording.range(f"layer {chr(97 + place)}", 20 * place, 20 * place + 19)
        recording.run(GEMM, 1000 + 200 * place, 1000 + 200 * place + 10 * place, at=20 * place + 1)
    output = " ".join(explain(recording.chrome(tmp_path / "rank0.json", world_size=1)).output.split())
    assert "on the device, ms: layer g 0.06, layer h 0.07" in output
    assert "layer z 0.25, 6 others 0.15" in output


def test_names_of_ranges_are_options(tmp_path: Path) -> None:
    recording = Recording()
    for step in range(3):
        recording.range(f"train_iter_{step}", 100 * step, 100 * step + 90)
        recording.range("fwd+bwd", 100 * step + 10, 100 * step + 80)
        recording.run(GEMM, 1000 + 200 * step, 1150 + 200 * step, at=100 * step + 20)
    outcome = explain(recording.chrome(tmp_path / "theirs.json"), "--step", "train_iter_*", "--phase", "fwd*")
    assert "phases of rank 0 on the device, ms: fwd+bwd 0.15" in outcome.output
