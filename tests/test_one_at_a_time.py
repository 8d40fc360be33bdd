"""Two runs on one machine would measure each other: the second waits, and says so."""

import subprocess
import sys
from threading import Event, Thread

import pytest

from fixtures.ranks.session import sole_use_of_the_machine

# Another run may be measuring on this machine in earnest.
pytestmark = pytest.mark.timeout(600)

HOLDER = """
from fixtures.ranks.session import sole_use_of_the_machine
with sole_use_of_the_machine(lambda: None):
    print("mine", flush=True)
    input()
"""


def silent() -> None:
    pass


def test_a_second_run_waits_for_the_first_and_says_so_once() -> None:
    said: list[str] = []
    waiting, measuring = Event(), Event()

    def say() -> None:
        said.append("waiting")
        waiting.set()

    def second_run() -> None:
        with sole_use_of_the_machine(say):
            measuring.set()

    second = Thread(target=second_run)
    with sole_use_of_the_machine(silent):
        second.start()
        assert waiting.wait(10)
        second.join(1.2)  # two more attempts of the second
        assert not measuring.is_set()
    second.join()
    assert measuring.is_set()
    assert said == ["waiting"]


def test_a_run_that_was_killed_holds_nobody_up() -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"mine\n"
        holder.kill()
    with sole_use_of_the_machine(silent):
        assert holder.returncode == -9
