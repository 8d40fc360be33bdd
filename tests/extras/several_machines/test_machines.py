"""Machines of a run: the comparison between them, and the end of requests to one."""

import socket
from collections.abc import Callable, Iterator
from threading import Thread

import pytest

from fixtures.extras.several_machines.connection import Listener, connect, interface_variables
from fixtures.extras.several_machines.machines import LostMachine, Machine, differences
from fixtures.launch.channel import Channel, Frame

OURS = {
    "host": "a",
    "namespace": "1",
    "torch": "2.15.0",
    "NCCL": "2.28.9",
    "Python": "3.12.3",
    "ddp-perf": "0123",
    "my_project.training": "4567",
    "devices": "8 x NVIDIA H200",
}


@pytest.fixture
def far() -> Iterator[tuple[Machine, Channel]]:
    """A machine, and the end of its follower."""
    ours, theirs = socket.socketpair()
    machine, channel = Machine(1, {"host": "b", "namespace": "2"}, ours), Channel(theirs)
    yield machine, channel
    machine.end(0)
    channel.close()


def answering(channel: Channel, answer: Callable[[Frame], Frame | None]) -> None:
    """A follower that answers one request, or closes its connection."""

    def serve() -> None:
        request = channel.receive()
        assert request is not None
        if (frame := answer(request)) is None:
            channel.close()
        else:
            channel.send({"number": request["number"], **frame})

    Thread(target=serve, daemon=True).start()


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("torch", "2.14.0", "b has torch 2.14.0, a has 2.15.0: install one version on all"),
        ("NCCL", "2.27.5", "b has NCCL 2.27.5, a has 2.28.9: install one version on all"),
        ("devices", "4 x NVIDIA H200", "b has devices 4 x NVIDIA H200, a has 8 x NVIDIA H200: a run measures machines"),
        ("ddp-perf", "89ab", "b has different code of ddp-perf than a: check out one revision on all"),
        ("my_project.training", "missing", "b has different code of my_project.training than a: copy it"),
    ],
)
def test_what_differs_between_machines_is_named(name: str, value: str, line: str) -> None:
    (found,) = differences(OURS, {**OURS, "host": "b", "namespace": "2", name: value}, "a", "b")
    assert found.startswith(line)
    assert differences(OURS, {**OURS, "host": "b", "namespace": "2"}, "a", "b") == []


def test_a_machine_answers_requests_and_the_answer_to_an_interrupted_one_is_left_out(
    far: tuple[Machine, Channel],
) -> None:
    machine, channel = far
    channel.send({"number": 0, "value": "late"})
    answering(channel, lambda request: {"value": request["arguments"]["rank"] + 1})
    assert machine.ask("exit_fault", rank=2) == 3
    assert machine.lost is None


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, r"^b \(machine 1\) was lost: its connection was closed"),
        ({"gone": "ended: Interrupted SIGTERM"}, r"^b \(machine 1\) ended: Interrupted SIG"),
        ({"error": "no space left"}, r"^on b \(machine 1\): no space left$"),
    ],
)
def test_a_machine_that_leaves_is_lost_and_what_it_cannot_do_has_its_name(
    answer: Frame | None, says: str, far: tuple[Machine, Channel]
) -> None:
    machine, channel = far
    answering(channel, lambda request: answer)
    leaves = answer is None or "gone" in answer
    with pytest.raises(LostMachine if leaves else OSError, match=says):
        machine.ask("silence_s")
    assert machine.is_lost() == leaves


def test_a_machine_that_does_not_answer_in_time_is_lost(far: tuple[Machine, Channel]) -> None:
    machine, _ = far
    with pytest.raises(LostMachine, match=r"did not answer for 0.01 s"):
        machine.ask("silence_s", timeout_s=0.01)


def test_a_connection_without_the_token_is_dropped() -> None:
    listener = Listener("127.0.0.1")
    ends = [connect("127.0.0.1", listener.port, {"token": token}, 5) for token in ("guess", listener.token)]
    assert listener.accept(5) is None
    accepted = listener.accept(5)
    assert accepted is not None
    for end in (*ends, accepted[0]):
        end.close()
    listener.close()


@pytest.mark.parametrize(("named", "taken"), [("", "lo"), ("eth7", "eth7")])
def test_gloo_takes_the_interface_of_the_address_unless_the_variable_names_one(
    named: str, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", named)
    assert interface_variables("127.0.0.1") == {"GLOO_SOCKET_IFNAME": taken}
