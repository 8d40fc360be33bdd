"""Frames between pytest and ranks, and what is said of ranks that fail or are silent."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.launch.channel import Channel, Frame, Heartbeat
from fixtures.launch.faults import Kind, RankFailure, RankFault, last_words
from fixtures.launch.processes import diagnose, end_of, waits_for_others

# Other processes of the machine may hold an example up.
at_leisure = settings(deadline=None)

frames = st.lists(
    st.fixed_dictionaries({"sequence": st.integers(), "value": st.none() | st.text() | st.lists(st.floats(-1, 1))}),
    max_size=4,
)


@contextmanager
def pair() -> Iterator[tuple[socket.socket, Channel]]:
    """A rank's end, bare, and pytest's end."""
    theirs, ours = socket.socketpair()
    with theirs, ours:
        yield theirs, Channel(ours)


def wire(frames: list[Frame]) -> bytes:
    """The bytes of these frames as a channel sends them."""
    with pair() as (theirs, ours):
        for frame in frames:
            ours.send(frame)
        ours.close()
        return b"".join(iter(lambda: theirs.recv(2**16), b""))


@at_leisure
@given(frames=frames, data=st.data())
def test_frames_cut_anywhere_arrive_whole_and_in_order(frames: list[Frame], data: st.DataObject) -> None:
    sent, arrived = wire(frames), []
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=6)))
    with pair() as (theirs, ours):
        for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
            theirs.sendall(sent[start:end])
            found, still_open = ours.poll()
            arrived += found
            assert still_open
    assert arrived == frames


@at_leisure
@given(frames=frames)
def test_receive_gives_every_frame_and_then_none(frames: list[Frame]) -> None:
    with pair() as (theirs, ours):
        theirs.sendall(wire(frames))
        theirs.close()
        assert [ours.receive() for _ in frames] == frames
        assert ours.receive() is None


@pytest.mark.timeout(10)
@pytest.mark.parametrize("half", [0, 1, 3, 4, 5, 10])
def test_poll_does_not_wait_for_the_rest_of_a_frame(half: int) -> None:
    with pair() as (theirs, ours):
        theirs.sendall(wire([{"value": "a frame"}])[:half])
        assert ours.poll() == ([], True)


def test_poll_gives_the_last_frames_of_a_closed_channel() -> None:
    with pair() as (theirs, ours):
        theirs.sendall(wire([{"value": 1}, {"value": 2}])[:-1])
        theirs.close()
        assert ours.poll() == ([{"value": 1}], False)


@at_leisure
@given(length=st.integers(2**26 + 1, 2**32 - 1))
def test_an_absurd_length_is_refused(length: int) -> None:
    with pair() as (theirs, ours):
        theirs.sendall(struct.pack("<I", length))
        with pytest.raises(ValueError, match=f"a frame of {length} bytes exceeds the limit of 67108864"):
            ours.poll()


def test_a_frame_that_would_be_refused_is_not_sent() -> None:
    with pair() as (theirs, ours):
        with pytest.raises(ValueError, match="exceeds the limit of 67108864"):
            ours.send({"value": "x" * 2**26})
        ours.send({"value": "short"})
        assert Channel(theirs).receive() == {"value": "short"}


def test_garbage_is_refused() -> None:
    for garbage in (b"", b"{", b"printed by a library", b"\xff\xfe"):
        with pair() as (theirs, ours):
            theirs.sendall(struct.pack("<I", len(garbage)) + garbage)
            with pytest.raises(ValueError, match=r"Expecting|can't decode"):
                ours.poll()


phases = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@at_leisure
@given(beats=st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 2**62), phases), max_size=5))
def test_a_beat_reads_as_it_was_beaten(beats: list[tuple[int, int, str]]) -> None:
    with TemporaryDirectory() as folder:
        in_ranks, in_pytest = (Heartbeat(Path(folder) / "heartbeat", 4) for _ in range(2))
        for rank, step, phase in beats:
            in_ranks.beat(rank, step, phase)
            beat = in_pytest.read(rank)
            assert beat.step == step
            assert beat.phase == phase or (len(phase.encode()) > 160 and beat.phase.endswith("..."))
        last = {rank: step for rank, step, _ in beats}
        assert {rank: in_pytest.read(rank).step for rank in last} == last
        in_ranks.close()
        in_pytest.close()


def test_beats_are_on_one_clock_and_only_go_forward(tmp_path: Path) -> None:
    heartbeat = Heartbeat(tmp_path / "heartbeat", 2)
    assert heartbeat.read(1).when_s == 0
    heartbeat.beat(0, 1, "forward")
    heartbeat.beat(1, 1, "forward")
    assert heartbeat.read(0).phase == "forward"
    assert 0 < heartbeat.read(0).when_s <= heartbeat.read(1).when_s
    heartbeat.beat(0, 1, "my_project.compression.hooks:my_hook under static_graph_bucket_view: error feedback")
    assert heartbeat.read(0).phase.endswith(": error feedback")
    heartbeat.beat(0, 1, 200 * "ü")
    assert heartbeat.read(0).phase == 78 * "ü" + "..."
    assert heartbeat.read(1).phase == "forward"
    heartbeat.close()


def fault(rank: int, kind: Kind, step: int = 3, phase: str = "backward") -> RankFault:
    return RankFault(rank=rank, kind=kind, step=step, phase=phase, message=f"has {kind}", detail=f"stack of {rank}")


@pytest.mark.parametrize(
    ("to_blame", "victim"),
    [
        (fault(1, "died"), fault(0, "comm")),
        (fault(1, "oom"), fault(0, "exception")),
        (fault(1, "exception"), fault(0, "comm", step=0)),
        (fault(1, "stopped"), fault(0, "hang", step=0)),
        (fault(1, "stuck"), fault(0, "hang", step=0)),
        (fault(1, "exception", step=2), fault(0, "exception", step=3)),
        (fault(0, "exception"), fault(1, "exception")),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.step}-{fault.rank}",
)
def test_a_victim_is_named_after_the_rank_to_blame(to_blame: RankFault, victim: RankFault) -> None:
    for order in permutations([to_blame, victim]):
        failure = RankFailure(order, "launch 1 of ddp")
        assert failure.faults == [to_blame, victim]
        assert str(failure).startswith(f"launch 1 of ddp: rank {to_blame.rank} has {to_blame.kind} at step")
        how = ", in the same way" if to_blame.kind == victim.kind else f" has {victim.kind}"
        assert f"also rank {victim.rank}{how}" in str(failure)


@at_leisure
@given(kinds=st.permutations(["died", "oom", "import", "exception", "protocol", "stopped", "stuck", "hang", "comm"]))
def test_the_first_in_the_order_of_blame_comes_first(kinds: list[Kind]) -> None:
    faults = RankFailure([fault(rank, kind) for rank, kind in enumerate(kinds)], "ddp").faults
    assert [fault.kind for fault in faults][:4] == ["died", "oom", "import", "exception"]
    assert faults[-1].kind == "comm"


def test_a_fault_names_its_phase_in_its_first_line_and_outside_the_steps_nothing_else() -> None:
    told = RankFault(rank=1, kind="exception", step=6, phase="backward", message="raised ValueError: bad\nworse")
    assert str(told) == "rank 1 raised ValueError: bad at step 6 (backward)\nworse"
    assert str(fault(1, "died", step=-1, phase="importing torch")) == "rank 1 has died at importing torch"
    assert str(fault(1, "died", step=-1, phase="")) == "rank 1 has died"


def test_two_ranks_in_different_collectives_both_show_their_stacks() -> None:
    assert "stack of 1" in str(RankFailure([fault(0, "hang"), fault(1, "hang")], "ddp"))
    assert "stack of 1" not in str(RankFailure([fault(0, "died"), fault(1, "comm")], "ddp"))


MODEL = 'File "/home/me/training/model.py", line 7 in forward\n  File "/x/torch/nn/module.py", line 9 in _call_impl'
ALL_REDUCE = 'File "/x/torch/distributed/distributed_c10d.py", line 3 in all_reduce\n  File "/home/me/model.py", line 8'
BACKWARD = 'File "/x/torch/autograd/graph.py", line 824 in _engine_run_backward\n  File "/home/me/train.py", line 8'
IMPORTING = (
    "Current thread 0x1 (most recent call first):\n"
    '  File "/site-packages/torch/distributed/tensor/_ops/autogen.py", line 292 in _find_out_variant_overloads\n'
    '  File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed\n'
    '  File "/site-packages/torch/optim/sgd.py", line 66 in __init__\n'
)
QUEUE = 'File "/usr/lib/python3.11/threading.py", line 331 in wait\n  File "/usr/lib/python3.11/queue.py", line 9'


def stack(*threads: str) -> str:
    """As faulthandler writes it: the current thread last."""
    lines = [f"Thread 0x00007f (most recent call first):\n  {thread}\n" for thread in threads[:-1]]
    return "\n".join([*lines, f"Current thread 0x00007e (most recent call first):\n  {threads[-1]}\n"])


@pytest.mark.parametrize(
    ("found", "waits"),
    [
        *((stack(*threads), True) for threads in ([ALL_REDUCE], [BACKWARD], [QUEUE, ALL_REDUCE])),
        *((stack(*threads), False) for threads in ([MODEL], [QUEUE], [MODEL, ALL_REDUCE], [BACKWARD, MODEL])),
        ("", False),
        (IMPORTING, False),  # a part of torch.distributed
        ("\n".join(IMPORTING.splitlines()[:2]), True),
    ],
)
def test_a_stack_inside_torch_waits_for_the_others_and_one_with_code_of_its_own_does_not(
    found: str, waits: bool
) -> None:
    assert waits_for_others(found) == waits


def test_a_rank_in_a_backward_pass_may_wait_for_the_future_of_a_hook() -> None:
    says = [diagnose("S", stack(thread), 6)[1] for thread in (BACKWARD, ALL_REDUCE)]
    assert says[0].endswith("for 6 s: DDP waits for a collective, or for the future that a hook returned")
    assert says[1] == "has waited for a collective for 6 s"


# The message of a failed launch


def raised(rank: int, message: str, detail: str = "") -> RankFault:
    return RankFault(rank=rank, kind="exception", step=-1, phase="starting", message=message, detail=detail)


@pytest.mark.parametrize("text", ["no data", "no data:\ntried a\ntried b\n", "at (a, line 1) [rank0]: \\d+"])
def test_an_errors_text_is_said_once(text: str) -> None:
    detail = f"Traceback\n  File a\nmy.package.Missing: {text}\nran in /tmp\n"
    failure = RankFailure([raised(0, f"raised Missing: {text}", detail)], "as_written")
    assert str(failure).count(text.split("\n")[-1] or "tried b") == 1
    assert str(failure).endswith("Traceback\n  File a\nran in /tmp")


def test_ranks_that_differ_by_their_numbers_fail_in_the_same_way() -> None:
    failure = RankFailure([raised(rank, f"raised Missing: on rank {rank}") for rank in (0, 1)], "as_written")
    assert str(failure).endswith("also rank 1, in the same way")


def test_the_log_of_a_process_that_cpp_ended_begins_with_its_exception(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    frames = [f"frame #{n}: c10::something" for n in range(40)]
    log.write_text("\n".join(["epoch 1", "terminate called after throwing an instance", "  what():  no NaN", *frames]))
    assert end_of(log).splitlines()[:2] == ["terminate called after throwing an instance", "  what():  no NaN"]
    assert last_words(end_of(log)) == ": no NaN"
    log.write_text("\n".join(frames))
    assert end_of(log).splitlines()[-1] == frames[-1]
