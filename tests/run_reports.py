"""Reports of records, for tests of the Markdown and of the page: a real record of four H200s, with more put into it."""

import copy
from typing import Any

from fixtures.records.files import checked
from fixtures.report.rows import Report
from tests.command_line import ROOT
from tests.saved_records import Record, infos, read

BASELINES = ROOT / "baselines/4x-nvidia-h200-nv18"
DDP = "perf/test_throughput.py::test_throughput[vit_l_32-4gpu-ddp]"
# As a name, a reason, a host.
HOSTILE = (
    """</script><script>window.hurt = 1</script><img src=x onerror="window.hurt = 1">|`[a](javascript:hurt)`\n'"@all"""
)


def h200() -> Record:
    """A whole night, the last of four."""
    return read(BASELINES / "0004_vit.json")


def undecided(record: Record, reason: str = "undecided", **values: object) -> Record:
    """The record with this reason why nothing is advised."""
    for best in record["best"]:
        best |= {"use": None, "lines": None, "reason": reason, **values}
    return record


def report_of(record: Record) -> Report:
    return Report(record=checked(record))


def info_of(record: Record, name: str) -> Record:
    """``extra_info`` of a test, to be changed."""
    return infos(record)[name]


def profiled(record: Record) -> Record:
    """Every test with a breakdown, naive DDP with its collectives one by one."""
    for benchmark in record["benchmarks"]:
        info = benchmark["extra_info"]
        compute_ms, exposed_ms = 82.0, 1e3 / info["steps_per_s"] - 82
        parts = {"compute": compute_ms, "exposed_communication": exposed_ms, "exposed_copy": 0.5, "idle": 1.0}
        info["breakdown_ms"] = parts
        info["communication_ms"] = exposed_ms + 5
        bucket = {"bytes": 600, "parameters": ["a"], "largest_parameter": "a", "largest_parameter_bytes": 600}
        sent = {"what": "all_reduce", "duration_ms": 9, "transfer_ms": 4, "exposed_ms": 2}
        collectives = [{**sent, "ready_ms": at, "start_ms": at + 1} for at in (10, 25)]
        info["ledger"] = {"buckets": [bucket] * 2, "collectives": collectives}
    return record


def with_transfers(record: Record) -> Record:
    """Bare all-reduces of three sizes as well."""
    for size in (1, 4, 16):
        record["benchmarks"].append(_transfer(record["instance"], size))
    return record


def _transfer(instance: str, megabytes: int) -> Record:
    return {
        "name": f"test_all_reduce[4gpu-all_reduce_{megabytes}mb]",
        "fullname": f"perf/test_collectives.py::test_all_reduce[4gpu-all_reduce_{megabytes}mb]",
        "extra_info": {
            "workload": "all_reduce",
            "config": f"all_reduce_{megabytes}mb",
            "world": "4gpu",
            "world_size": 4,
            "interconnect": "native",
            "launch_medians_s": [1e-4 * megabytes],
            "message_bytes": megabytes * 10**6,
            "bus_gb_per_s": 15.0,
            "instance": instance,
            "verdict": {"word": "no baseline"},
        },
    }


def with_reference(record: Record) -> Record:
    """Of its tests those of ddp and bf16, and one GPU without DDP as a reference."""
    kept = [one for one in record["benchmarks"] if one["extra_info"]["config"] in ("ddp", "bf16")]
    reference = {
        "test": "perf/test_scaling.py::test_scaling[vit_l_32-1gpu-single]",
        "workload": "vit_l_32",
        "world": "1gpu",
        "world_size": 1,
        "interconnect": "native",
        "config": "single",
        "launch_medians_s": [0.08, 0.08],
        "samples_per_s": 400.0,
    }
    return record | {"benchmarks": kept, "references": [reference]}


def slower(
    record: Record, test: str = DDP, *, reason: str = "slower by 5.1 %", cause: str = "NCCL 2.28 -> 2.29"
) -> Record:
    """One test of it is slower."""
    for benchmark in record["benchmarks"]:
        if benchmark["fullname"] == test:
            verdict = {"word": "slower", "change_percent": 5.1, "threshold_percent": 1.3, "reason": reason}
            benchmark["extra_info"] |= {"verdict": verdict, "cause": cause}
    record["failed"] = {test: reason}
    return record


def hostile(record: Record) -> Record:
    """Text that would do harm wherever it is not escaped."""
    record["environment"]["host"] = HOSTILE
    record["environment"]["variables"][HOSTILE] = HOSTILE
    record["best"][0]["lines"] = [HOSTILE]
    for benchmark in record["benchmarks"]:
        benchmark["extra_info"]["workload"] += HOSTILE
        benchmark["extra_info"]["config"] += HOSTILE
        benchmark["fullname"] += HOSTILE
    for best in record["best"]:
        best["workload"] += HOSTILE
        best["config"] += HOSTILE
    return slower(record, record["benchmarks"][0]["fullname"], reason=HOSTILE, cause=HOSTILE)


def large(tests: int, steps: int) -> Record:
    """So many tests of so many steps, in ten worlds."""
    record = h200()
    # Any: a test of the record.
    ones: list[dict[str, Any]] = record["benchmarks"]
    record["benchmarks"] = [copy.deepcopy(ones[number % len(ones)]) for number in range(tests)]
    for number, benchmark in enumerate(record["benchmarks"]):
        info = benchmark["extra_info"]
        info["config"] += f"_{number}"
        info["world"] = f"{number % 10}gpu"
        benchmark["fullname"] += f"_{number}"
        info["launch_medians_s"] = [info["launch_medians_s"][0] + number * 1e-9]
        info["launch_steps"] = [steps]
        benchmark["stats"]["data"] = [info["launch_medians_s"][0] * (1 + step / 1e3) for step in range(steps)]
    return profiled(record)
