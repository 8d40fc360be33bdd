"""The ledger of collectives and buckets, and the work of a step in counts."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.matrix.recorded import json_of
from fixtures.report.profiles import ledger_lines
from fixtures.trace.breakdown import Breakdown, Collective, StepBreakdown, break_down, over_ranks
from fixtures.trace.profile import Bucket, Counts, Ledger, Work, ledger, parts_ms, work_changes, work_of
from tests.builders import known
from tests.h200 import POWERSGD, on_ranks, step
from tests.recordings import AUTOGRAD, GEMM, NCCL, NCCL_STREAM, Recording, timelines


def buckets_in_backward() -> Recording:
    """A step on the GPU from 1000 us: forward of 100 us, then backward of two layers.

    Each layer takes 200 us and a copy of 10 us into its bucket. The first all-reduce runs during the second layer, the
    second one after it. The host launches everything before.
    """
    recording = Recording()
    for number in range(2):
        host, device = 400 * number, 1000 + 1000 * number
        recording.range(f"Batch {number}", host, host + 380)
        recording.run(GEMM, device, device + 100, at=host + 10)
        recording.range("backward", host + 100, host + 300)
        for layer, sent in enumerate(((315, 450), (525, 725))):
            begin, at = device + 100 + 210 * layer, host + 110 + 50 * layer
            recording.run(GEMM, begin, begin + 200, at=at, thread=AUTOGRAD)
            recording.run("Memcpy DtoD (Device -> Device)", begin + 200, begin + 210, at=at + 10, thread=AUTOGRAD)
            start, end = device + sent[0], device + sent[1]
            recording.run(NCCL, start, end, at=at + 20, thread=AUTOGRAD, stream=NCCL_STREAM)
            # Decompression by a hook: launched before the next layer, finished after its all-reduce.
            recording.run("decompress", end, end + 5, at=at + 25, thread=AUTOGRAD, stream=9)
    return recording


def breakdown(recording: Recording, path: Path) -> Breakdown:
    (timeline,) = timelines(recording.chrome(path))
    return over_ranks([break_down(timeline)])


@pytest.fixture
def found(tmp_path: Path) -> Ledger:
    return known(ledger(breakdown(buckets_in_backward(), tmp_path / "rank0.json")))


def test_a_collective_is_timed_from_the_start_of_backward_and_its_exposed_time_adds_up_to_the_breakdown(
    found: Ledger, tmp_path: Path
) -> None:
    """A bucket is ready when the work launched just before its all-reduce ends: its copy, not the decompression."""
    whole = parts_ms(breakdown(buckets_in_backward(), tmp_path / "again.json")).exposed_communication
    assert sum(entry.exposed_ms for entry in found.collectives) == pytest.approx(whole)
    assert [(e.ready_ms, e.start_ms, e.duration_ms, e.exposed_ms) for e in found.collectives] == [
        pytest.approx((0.210, 0.215, 0.135, 0)),
        pytest.approx((0.420, 0.425, 0.200, 0.200)),
    ]


def all_reduce(ns: int, start_ns: int, elements: int) -> Collective:
    return Collective(
        what="all_reduce",
        ns=ns,
        start_ns=start_ns,
        ready_ns=start_ns - 10_000,
        exposed_ns=12_000,
        elements=elements,
        dtype="float32",
    )


# Two of the 38 collectives of ddp_default, on two ranks; the first rank joins the second collective late.
DDP_DEFAULT = on_ranks(
    *(
        (
            replace(
                step(84.76, 0.61, 1.76, 2.87),
                collectives=(all_reduce(small_ns, 40_000, 1_025_000), all_reduce(large_ns, 1_340_000, 8_395_776)),
            ),
        )
        for small_ns, large_ns in ((55_000, 222_000), (188_000, 326_000))
    )
)
HEAD = Bucket.of([("heads.head.bias", 4_000, 1_000), ("heads.head.weight", 4_096_000, 1_024_000)])
LAYER = Bucket.of(
    [
        ("encoder.layers.encoder_layer_23.mlp.3.weight", 16_777_216, 4_194_304),
        ("encoder.layers.encoder_layer_23.mlp.0.bias", 16_384, 4_096),
        ("encoder.layers.encoder_layer_23.mlp.0.weight", 16_789_504, 4_197_376),
    ]
)


def of_ddp_default(*buckets: Bucket) -> Ledger:
    return known(ledger(DDP_DEFAULT, buckets))


def test_the_shortest_duration_over_the_ranks_is_the_transfer() -> None:
    first, second = of_ddp_default().collectives
    assert (first.transfer_ms, second.transfer_ms) == (0.055, 0.222)
    assert (first.duration_ms, second.duration_ms) == pytest.approx((0.1215, 0.274))


def test_a_collective_with_the_elements_of_its_bucket_matches_it() -> None:
    found = of_ddp_default(HEAD, LAYER)
    assert found.mismatch is None
    (row,) = [line for line in ledger_lines(found, verbose=True) if "encoder_layer_23" in line]
    assert row.split()[:4] == ["2", "all_reduce", "8395776", "float32"]
    assert "33.6" in row
    assert "16.8  encoder.layers.encoder_layer_23.mlp.0.weight" in row
    _, second = json_of(of_ddp_default(HEAD, LAYER))["buckets"]
    assert second["parameters"] == list(LAYER.parameters)
    assert second["largest_parameter_bytes"] == 16_789_504


def test_a_collective_with_other_elements_than_its_bucket_does_not_match() -> None:
    found = of_ddp_default(LAYER, HEAD)
    assert found.mismatch == "collective 1 carries 1025000 elements, bucket 1 has 8395776"
    assert "largest parameter" not in "\n".join(ledger_lines(found, verbose=True))
    assert ledger_lines(found)[-1] == f"collectives do not match the buckets: {found.mismatch}"
    assert found.mismatch is not None


def test_a_ledger_without_buckets_or_with_too_few_says_why() -> None:
    assert of_ddp_default().buckets == ()
    assert "it reports their parameters only after it has rebuilt them" in str(of_ddp_default().mismatch)
    (rank,) = on_ranks((step(80, 5, 0, 5),)).ranks
    gathered = Collective(what="all_gather", ns=1000, start_ns=0, ready_ns=None, exposed_ns=0)
    sharded = ledger(on_ranks((replace(rank.steps[0], collectives=(gathered,)),)))
    assert [found and found.mismatch for found in (sharded, ledger(POWERSGD, [LAYER]))] == [
        "a sharded model has no buckets",
        "3 collectives a step for 1 bucket",
    ]


def test_steps_that_differ_have_no_ledger() -> None:
    (rank, _) = DDP_DEFAULT.ranks
    shorter = replace(rank.steps[0], collectives=rank.steps[0].collectives[:1])
    assert ledger(on_ranks((rank.steps[0], shorter))) is None
    assert ledger(on_ranks((step(81.08, 0, 1.93, 3.13),))) is None


def test_a_trace_of_nccl_has_elements_and_dtype_of_each_collective(tmp_path: Path) -> None:
    file = buckets_in_backward().chrome(tmp_path / "rank0.json.gz")
    trace = json.loads(gzip.decompress(file.read_bytes()))
    for event in trace["traceEvents"]:
        if event["name"] == NCCL:  # as torch 2.11 with NCCL 2.28 writes them
            event["args"] |= {"Collective name": "allreduce", "In msg nelems": 375784, "dtype": "BFloat16"}
    file.write_bytes(gzip.compress(json.dumps(trace).encode()))
    (timeline,) = timelines(file)
    found = known(ledger(over_ranks([break_down(timeline)])))
    assert [(entry.what, entry.elements, entry.dtype) for entry in found.collectives] == [
        ("all_reduce", 375784, "bfloat16")
    ] * 2


# The work of a step in counts, and how the work of two steps differs


def doing(waits: int = 0, launches: int = 3, copies: int = 1, **kernels: int) -> StepBreakdown:
    """A step with this work."""
    names = {name: (1000, number) for name, number in kernels.items()}
    return replace(
        *(step(10, 1, 0, 0),),
        kernels=names | {"Memcpy DtoD": (9, copies)},
        copies_by_size={"DtoD of 8 bytes": copies},
        launches=launches,
        waits=waits,
    )


def test_a_number_that_differs_between_steps_or_ranks_is_unknown() -> None:
    work = work_of(on_ranks((doing(add=2), doing(add=2, waits=1)), (doing(add=2), doing(add=2, mul=1))))
    assert work.kernels == {"add": 2, "mul": None}
    assert work.copies == {"DtoD of 8 bytes": 1}
    assert work.calls == {"launch": 3, "wait": None}


def test_the_collectives_of_rank_0_have_their_sizes() -> None:
    issued = {"all_reduce of 9 float32": 2}
    assert work_of(on_ranks((doing(),)), issued).collectives == issued


def test_many_names_are_added_up_and_compared_by_the_names_of_both() -> None:
    many = {f"kernel_{number:03}_{'x' * 80}": 300 - number for number in range(200)}
    before, now = (work_of(on_ranks((doing(**kernels),))) for kernels in (many, many | {"new": 301}))
    assert len(str(json_of(before))) < 10_000
    assert [(one.what, one.more) for one in work_changes(before, now).changed["kernels"]] == [("others", 301)]
    assert not work_changes(before, before)


def of(kernels: Counts, *, wait: int = 0, launch: int = 9, gpu: bool = True) -> Work:
    calls = {"launch": launch, "wait": wait} if gpu else {}
    return Work(kernels=kernels, collectives={}, copies={}, calls=calls)


GEMMS = {"sgemm_128x64_tn": 4, "add": 2}


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        (of(GEMMS), of({**GEMMS, "add": 3}, launch=10), ["+1 x add"]),
        (of(GEMMS), of(GEMMS, wait=1), ["+1 x wait"]),
        (of(GEMMS), of(GEMMS, launch=1), ["-8 x launch"]),
        (of({**GEMMS, "mul": None}), of({**GEMMS, "mul": 1}), []),
        (of(GEMMS), of({"sgemm_128x64_tn": 6, "add": 2}), ["+2 x sgemm_128x64_tn"]),
        # Another tile of one product, with the sum of its parts.
        (of(GEMMS), of({"sgemm_128x64_tn": 3, "nvjet_64x8": 1, "splitKreduce": 1, "add": 2}, launch=10), []),
        (of(GEMMS), of({"sgemm_128x64_tn": 3, "nvjet_64x8": 2, "add": 2}), ["+2 x nvjet_64x8", "-1 x sgemm_128x64_tn"]),
        # cuDNN has algorithms of one kernel and of three.
        (of({"fprop_a": 1}), of({"winograd_b": 3, "nchwToNhwcKernel": 2}), []),
        (of({"mm": 1, "conv2d": 1}, gpu=False), of({"mm": 1, "conv1d": 1}, gpu=False), ["-1 x conv2d", "+1 x conv1d"]),
    ],
)
def test_work_that_changed_is_named_and_a_librarys_choice_is_not(before: Work, now: Work, lines: list[str]) -> None:
    assert work_changes(before, now).lines() == lines


def test_other_kernels_for_the_same_work_are_a_remark() -> None:
    changes = work_changes(of(GEMMS), of({"nvjet_64x8": 4, "add": 2}))
    assert not changes
    assert changes.same == ("other kernels for the same matrix products: -4 x sgemm_128x64_tn, +4 x nvjet_64x8",)
