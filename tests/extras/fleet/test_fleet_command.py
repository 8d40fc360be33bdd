"""The fleet command over records in files: its input, the named units, and its exit codes."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import ROOT, refused
from tests.command_line import command_here as command
from tests.nightly_records import DDP, Record, benchmark, night, write
from tests.saved_records import read

SLOW = (7, 3)


def record(host: int, *, gpus: int = 8, slow: int | None = None, name: str | None = None) -> Record:
    """One host with canaries by rank; GPU ``slow`` of it takes 2 % longer for a matrix product."""
    random = np.random.default_rng(host)

    def times_s(step_s: float, noise: float) -> list[list[float]]:
        by_rank = step_s * np.exp(random.normal(0, noise, (3, gpus)))
        if slow is not None:
            by_rank[:, slow] *= 1.02
        return [[float(time) for time in launch] for launch in by_rank]

    def times(step_s: float, noise: float) -> Record:
        before, after = times_s(step_s, noise), times_s(step_s, noise)
        slowest = {"before_s": [max(launch) for launch in before], "after_s": [max(launch) for launch in after]}
        return {**slowest, "before_by_rank_s": before, "after_by_rank_s": after}

    uuids = [f"GPU-{host:04}{gpu:04}-0000" for gpu in range(gpus)]
    canaries = {"matrix_product_4096": times(2.68e-3, 0.001)}
    return {
        **night(host, benchmark(DDP, 0.1), host=name or f"host-{host}", gpu_uuids=uuids),
        "canaries": {"native": {"world": f"{gpus}gpu", "canaries": canaries}},
    }


@pytest.fixture(scope="module")
def sixteen_hosts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    for host in range(16):
        write(folder, host, record(host, slow=SLOW[1] if host == SLOW[0] else None))
    return folder


def test_the_slow_gpu_is_named_with_its_host(sixteen_hosts: Path) -> None:
    outcome = command("fleet", sixteen_hosts)
    assert (outcome.exit_code, outcome.errors) == (1, "")
    assert outcome.output.startswith("8x-nvidia-h200-nv18, 8gpu, native: 16 hosts, 128 GPUs\n")
    (row,) = (line for line in outcome.output.splitlines() if "slower" in line)
    assert row.startswith("host-7 GPU 3 (GPU-00070003)  matrix_product_4096  2.")
    result = json.loads(command("fleet", "--json", sixteen_hosts).output)
    assert len(result["units"]) == 16 + 128
    assert [unit["unit"] for unit in result["units"] if unit["slow"]] == ["host-7 GPU 3 (GPU-00070003)"]
    assert result["gpus"] == {"8x-nvidia-h200-nv18, 8gpu, native": 128}


def test_without_the_slow_gpu_none_is(sixteen_hosts: Path) -> None:
    files = [sixteen_hosts / f"{host * 37 % 101:03}.json" for host in range(16) if host != SLOW[0]]
    outcome = command("fleet", *files)
    assert (outcome.exit_code, outcome.errors) == (0, "")
    assert "\nnone is slow\n" in outcome.output


def test_a_single_host_is_not_called_sound_and_a_record_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    outcome = command("fleet", ROOT / "baselines/8x-nvidia-h200-nv18/0001_vit.json")
    assert outcome.exit_code == 0, outcome.errors
    assert "1 host, 8 GPUs: hosts not compared, 3 are needed\n\nnothing could be compared\n" in outcome.output
    for folder in ("nights", "baselines"):
        write(tmp_path / folder, 1, record(1))
    assert "1 host, 8 GPUs: hosts not compared, 3 are needed" in command("fleet", tmp_path).output


def test_the_shipped_records_name_what_the_study_knows() -> None:
    """docs/studies/results.md: through host memory the second machine of eight GPUs carried half as much.

    Of the machines of two H100s the first has a slower host, and the second a slower pair.
    """
    outcome = command("fleet", "--json", ROOT / "baselines")
    slow = {unit["canary"]: unit for unit in json.loads(outcome.output)["units"] if unit["slow"]}
    for canary, kind, record_file in (
        ("host_to_device_copy_64mb", "8x-nvidia-h200-nv18-shm, 8gpu, shm", "0002_vit.json"),
        ("kernel_launches_1000", "2x-nvidia-h100-80gb-hbm3-nv18, 2gpu, native", "0001_h100.json"),
        ("all_reduce_64mb", "2x-nvidia-h100-80gb-hbm3-nv18, 2gpu, native", "0002_h100.json"),
    ):
        unit = slow.pop(canary)
        assert unit["kind"] == kind
        machine = read(ROOT / "baselines" / kind.partition(",")[0] / record_file)["environment"]
        assert unit["unit"].startswith(f"vm ({min(machine['gpu_uuids'])[:12]})")
    assert not slow


def test_damaged_files_are_named_and_left_out(tmp_path: Path) -> None:
    for host in range(4):
        write(tmp_path, host, record(host, name="vm"))
    torn = write(tmp_path, 10, '{"benchmarks": [')
    without = write(tmp_path, 11, night(11, benchmark(DDP, 0.1)))
    wrong = record(12)
    wrong["canaries"]["native"]["canaries"]["matrix_product_4096"]["before_by_rank_s"] = [[1.0] * 7] * 3
    ragged = write(tmp_path, 12, wrong)
    outcome = command("fleet", tmp_path)
    assert outcome.exit_code == 0
    assert outcome.output.startswith("8x-nvidia-h200-nv18, 8gpu, native: 4 hosts, 32 GPUs\n")
    errors = sorted(outcome.errors.splitlines())
    assert any(line.startswith(f"left out: {torn}: cannot be read: ") for line in errors)
    assert f"left out: {without}: has no canaries" in errors
    assert any(line.startswith(f"left out: {ragged}: canary matrix_product_4096: ") for line in errors)
    assert len(errors) == 3


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("nowhere",), "there is no nowhere"),
        (("{empty}",), "no records with canaries found"),
        ((".", "--false-names", "0"), "--false-names must be over 0 and at most 50, got 0"),
        ((".", "--min-slowdown", "nan"), "--min-slowdown must be between 0 and 1000, got nan"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: tuple[str, ...], error: str) -> None:
    said = refused("fleet", *(argument.format(empty=tmp_path) for argument in arguments))
    assert said.splitlines()[-1].endswith(error)
