"""The collectives of a step as the backend notes them: NCCL's words in a trace, and gloo's, live."""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from fixtures.ranks.issued_collectives import IssuedCollective, StepsDiffer, agreed, in_trace, of_steps

OF_4 = partial(IssuedCollective, elements=100, group=4)


def nccl(name: str, dtype: str, elements: int) -> dict[str, Any]:
    """As torch's profiler writes it: torch/csrc/distributed/c10d/ParamCommsUtils.hpp."""
    noted = {"Collective name": name, "dtype": dtype, "In msg nelems": elements, "Group size": 4}
    return {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "args": noted}


@pytest.mark.parametrize(
    ("name", "dtype", "expected", "bytes_of_4_ranks"),
    [
        ("allreduce", "BFloat16", OF_4(kind="allreduce", dtype=torch.bfloat16), 1200),
        ("_allgather_base", "Byte", OF_4(kind="allgather", dtype=torch.uint8), 1200),
        ("all_to_all", "Char", OF_4(kind="alltoall", dtype=torch.int8), 300),
        ("_reduce_scatter_base", "Half", OF_4(kind="reducescatter", dtype=torch.float16), 600),
        ("reduce", "Float", OF_4(kind="reduce", dtype=torch.float32), 1200),
        ("gather", "Float", OF_4(kind="gather", dtype=torch.float32), 1200),
        ("broadcast", "Float", OF_4(kind="broadcast", dtype=torch.float32), 1200),
    ],
)
def test_a_collective_of_nccl_is_read(name: str, dtype: str, expected: IssuedCollective, bytes_of_4_ranks: int) -> None:
    assert in_trace([nccl(name, dtype, 100)]) == [expected]
    assert 4 * expected.share_sent(4) == bytes_of_4_ranks


def test_each_of_several_groups_sends() -> None:
    """FSDP2 in two groups of four: an all-gather within each, an all-reduce of shards between them."""
    gathered = IssuedCollective(kind="allgather", dtype=torch.float32, elements=100, group=4)
    reduced = IssuedCollective(kind="allreduce", dtype=torch.float32, elements=100, group=2)
    assert 8 * gathered.share_sent(8) == 2 * 3 * 1600
    assert 8 * reduced.share_sent(8) == 4 * 2 * 400


def test_a_send_is_counted_where_it_is_sent_and_not_where_it_arrives() -> None:
    sent = IssuedCollective(kind="send", dtype=torch.float32, elements=100, group=2)
    assert in_trace([nccl("send", "Float", 100), nccl("recv", "Float", 100)]) == [replace(sent, group=4)]
    assert sent.share_sent(4) == 400


def test_what_carries_nothing_is_left_out_and_what_nobody_knows_is_an_error() -> None:
    assert in_trace([nccl(name, "Float", 0) for name in ("wait", "barrier", "init")]) == []
    with pytest.raises(ValueError, match="unknown collective 'teleport' with 8 elements"):
        in_trace([nccl("teleport", "Float", 8)])


SMALL, LARGE = (
    IssuedCollective(kind="allreduce", dtype=torch.float32, elements=elements) for elements in (38592, 2671114)
)


@pytest.mark.parametrize(
    ("issued", "steps", "expected"),
    [
        ([SMALL, LARGE, LARGE, SMALL], 2, [SMALL, LARGE]),  # they may change places
        ([SMALL, None, LARGE, None, LARGE, LARGE, SMALL, LARGE, None], 3, [SMALL, LARGE, LARGE]),
        ([], 8, []),
    ],
)
def test_steps_that_agree_complete_each_other(
    issued: list[IssuedCollective | None], steps: int, expected: list[IssuedCollective]
) -> None:
    assert Counter(agreed(issued, steps)) == Counter(expected)


@pytest.mark.parametrize(
    "issued", [[SMALL, LARGE, SMALL], [SMALL, SMALL, SMALL, LARGE], [SMALL, None, None, SMALL], [None, None]]
)
def test_steps_that_differ_and_unknown_sizes_are_refused(issued: list[IssuedCollective | None]) -> None:
    with pytest.raises(StepsDiffer):
        of_steps(issued, 2, alike=True)
    assert of_steps([SMALL, LARGE, None], 2, alike=False) == ([SMALL, LARGE], 2)
