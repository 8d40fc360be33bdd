"""Chakra execution traces: the bytes are those of a protobuf runtime, and the graph is that of the step."""

from itertools import pairwise
from pathlib import Path

from fixtures.records.chakra import Node, encoded, nodes_of, write_traces
from fixtures.records.prediction import best_of, measured_parts, read_measured
from tests.command_line import ROOT

# Written by protobuf 7.36 with classes from et_def.proto of Chakra 0.0.4, each message after its length.
BY_PROTOBUF = (
    "070a05302e302e341f1207666f7277617264180438aaec01520e0a0969735f6370755f6f70d80100250801120a6261636b77"
    "617264203018042a01003801520e0a0969735f6370755f6f70d80100460802120c616c6c5f726564756365203018072a0101"
    "520e0a0969735f6370755f6f70d80100520d0a09636f6d6d5f74797065480052100a09636f6d6d5f73697a654880e0951d27"
    "08ac0212096f7074696d697a657218042a02010238d507520e0a0969735f6370755f6f70d80100"
)
NODES = [
    Node(id=0, name="forward", microseconds=30250),
    Node(id=1, name="backward 0", after=(0,)),
    Node(id=2, name="all_reduce 0", after=(1,), bytes=61173760),
    Node(id=300, name="optimizer", after=(1, 2), microseconds=981),
]
MEASURED = best_of(measured_parts(read_measured(ROOT / "baselines/8x-nvidia-h200-nv18/0002_vit.json")))


def test_the_bytes_are_those_of_protobuf() -> None:
    assert encoded(NODES).hex() == BY_PROTOBUF


def test_compute_adds_up_to_the_step_without_communication() -> None:
    nodes = list(nodes_of(MEASURED))
    compute_s = sum(node.microseconds for node in nodes) / 1e6
    rest_s = max(0.0, MEASURED.parts.rest_s)
    assert abs(compute_s - rest_s - MEASURED.parts.compute_s) < 1e-5
    sent = [node.bytes for node in nodes if node.bytes is not None]
    assert sent == [round(bucket.bytes) for bucket in MEASURED.parts.buckets]


def test_each_node_waits_for_nodes_before_it_and_all_reduces_for_each_other() -> None:
    nodes = list(nodes_of(MEASURED))
    ids = [node.id for node in nodes]
    assert all(after in ids[:place] for place, node in enumerate(nodes) for after in node.after)
    reduces = [node for node in nodes if node.bytes is not None]
    assert all(before.id in node.after for before, node in pairwise(reduces))
    assert {nodes[-2].id, reduces[-1].id} == set(nodes[-1].after)


def test_every_rank_has_a_file(tmp_path: Path) -> None:
    files = write_traces(tmp_path / "traces", MEASURED, 3)
    assert [file.name.split(".")[-2] for file in files] == ["0", "1", "2"]
    assert len({file.read_bytes() for file in files}) == 1
