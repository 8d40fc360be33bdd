"""Records of a nightly run made by hand, in files."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from fixtures.records.schema import SCHEMA

HERE = "8x-nvidia-h200-nv18"
DDP = "perf/test_throughput.py::test_throughput[vit_l_32-8gpu-ddp]"
BF16 = "perf/test_throughput.py::test_throughput[vit_l_32-8gpu-bf16]"
START = datetime(2026, 9, 1, 3, 0, tzinfo=UTC)

# Any: records are JSON.
Record = dict[str, Any]


def benchmark(test: str, step_s: float, **info: object) -> Record:
    known = {"workload": "vit_l_32", "instance": HERE, "interconnect": "native", "launch_medians_s": [step_s] * 3}
    return {"fullname": test, "extra_info": {**known, "steps_per_s": 1 / step_s, "transport": {"P2P": 16}, **info}}


def with_medians(benchmark: Record, *medians_s: float) -> Record:
    """The test with launches of one step each, and all numbers that follow from them."""
    info, steps_per_s = benchmark["extra_info"], 1 / geometric_mean(medians_s)
    spread = 100 * (max(medians_s) - min(medians_s)) * steps_per_s
    measured = {"launch_medians_s": list(medians_s), "launch_steps": [1] * len(medians_s), "steps_per_s": steps_per_s}
    measured |= {"samples_per_s": info["samples_per_step"] * steps_per_s, "spread_percent": spread}
    return {**benchmark, "stats": {"data": list(medians_s)}, "extra_info": {**info, **measured}}


def night(number: int, *benchmarks: Record, **environment: object) -> Record:
    known = {"torch": "2.14.0", "driver": "580.1", "host": "gpu-3", "clocks": [{"sm_mhz": number}], "variables": {}}
    return {
        "schema": SCHEMA,
        "finished": (START + timedelta(days=number)).isoformat(),
        "environment": {**known, **environment},
        "commit_info": {"id": "0123456789abcdef", "dirty": False},
        "benchmarks": list(benchmarks),
    }


def write(folder: Path, number: int, record: object) -> Path:
    folder.mkdir(exist_ok=True)
    # In no order of names: it is the date that counts.
    file = folder / f"{(number * 37) % 101:03}.json"
    file.write_text(record if isinstance(record, str) else json.dumps(record))
    return file
