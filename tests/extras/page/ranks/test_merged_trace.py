"""The merged trace of two live ranks."""

import gzip
import json
from pathlib import Path

import pytest

from fixtures.extras.page.page_report import merge_step
from fixtures.launch.rank_sets import RankSets
from tests.ranks.test_profiled_ranks import profile


@pytest.fixture(scope="module")
def traces(two_ranks: RankSets, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("traces")
    profile(two_ranks, "bucket_10mb", folder)
    return sorted(folder.iterdir())


def test_the_merged_trace_keeps_what_perfetto_draws(traces: list[Path]) -> None:
    """Perfetto drops a slice that overlaps another one of its thread without lying inside it, and a flow of one end."""
    _, data = merge_step(traces)
    events = json.loads(gzip.decompress(data))["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert sorted(names.values()) == ["rank 0", "rank 1"]
    threads: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in events:
        if event["ph"] == "X":
            begin_ns, duration_ns = round(1e3 * event["ts"]), round(1e3 * event["dur"])
            threads.setdefault((event["pid"], event["tid"]), []).append((begin_ns, begin_ns + duration_ns))
    assert {pid for pid, _ in threads} == names.keys()
    for slices in threads.values():
        around: list[int] = []
        for begin_ns, end_ns in sorted(slices, key=lambda one: (one[0], -one[1])):
            while around and around[-1] <= begin_ns:
                around.pop()
            assert not around or end_ns <= around[-1] + 1  # of rounding
            around.append(end_ns)
    ends = {phase: {event["id"] for event in events if event["ph"] == phase} for phase in "sf"}
    assert ends["s"] == ends["f"] != set()
