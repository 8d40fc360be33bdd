"""--link on the real kernel: ranks in namespaces of their own behind shaped interfaces, over gloo."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.extras.slow_link.link_setup import NoLink, _run
from fixtures.extras.slow_link.options import Link
from fixtures.extras.slow_link.starter import BehindLink, measure_link
from fixtures.launch.faults import RankFailure
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.worlds import INTERCONNECTS, World
from tests.machines import ROOT, require_namespaces

RATE = 100 * 10**6
LINK = Link(bits_per_s=RATE)
NATIVE = INTERCONNECTS["native"]
TWO = World(backend="gloo", size=2)
PACKAGE = "fixtures.extras.slow_link"
IMPORTS = f"from {PACKAGE}.starter import measure_link; from {PACKAGE}.link import Link"
MEASURE = f"{IMPORTS}; print(measure_link(Link(bits_per_s={RATE})).words)"
IN_RANKS = "tests.extras.slow_link.ranks.rank_link"


def qdiscs() -> str:
    tc = shutil.which("tc", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert tc is not None
    return subprocess.run([tc, "qdisc", "show"], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def linked() -> Iterator[RankSets]:
    """Three ranks, each behind a link."""
    require_namespaces()
    sets = RankSets(launches=1, size=3, on_gpu=False, rank_timeout_s=60, starter=BehindLink(LINK))
    yield sets
    sets.close()


def seconds(linked: RankSets, world: World, byte_count: int) -> float:
    (ranks,) = linked.of(NATIVE)
    arguments = {"byte_count": byte_count, "repeats": 5}
    return float(max(ranks.run(world, f"{IN_RANKS}:shortest_all_reduce_s", arguments, doing="all-reduce")))


@pytest.mark.parametrize("ranks", [2, 3])
def test_an_all_reduce_takes_as_long_as_the_link_of_one_rank_needs(linked: RankSets, ranks: int) -> None:
    """Each rank sends 2 (n - 1) / n of the bytes while it receives as many: one queue for all would take n times."""
    byte_count = 3 * 2**20
    sent_bits = 8 * byte_count * 2 * (ranks - 1) / ranks
    for _ in range(4):  # a busy machine makes it longer, never shorter
        took_s = seconds(linked, World(backend="gloo", size=ranks), byte_count)
        assert took_s >= sent_bits / RATE
        if took_s < 1.7 * sent_bits / RATE:
            break
    assert took_s < 1.7 * sent_bits / RATE


def test_a_rank_sees_its_own_interface_and_nothing_else_changes(linked: RankSets) -> None:
    here, shaped = socket.if_nameindex(), qdiscs()
    (ranks,) = linked.of(NATIVE)
    assert ranks.run(TWO, f"{IN_RANKS}:interfaces", {}, doing="looking") == [["lo", "eth0"]] * 2
    assert socket.if_nameindex() == here
    assert qdiscs() == shaped


def namespaces_kept_open() -> list[str]:
    links = []
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor of the listing itself
            links.append(str(file.readlink()))
    return [link for link in links if link.startswith(("net:", "user:"))]


def test_the_links_are_gone_with_their_ranks(linked: RankSets) -> None:
    (ranks,) = linked.of(NATIVE)
    assert namespaces_kept_open()
    with pytest.raises(RankFailure):
        ranks.run(TWO, "os:no_such_function", {}, doing="failing")
    assert not ranks.alive
    assert namespaces_kept_open() == []


def done(*command: str) -> subprocess.CompletedProcess[str]:
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=here, capture_output=True, text=True, check=False)


def without_rights(*code: str) -> subprocess.CompletedProcess[str]:
    """Run Python as a user who may not set up networks."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() == 0:
        if setpriv is None:
            pytest.skip("setpriv is missing, which takes root's rights away")
        code = (setpriv, "--bounding-set=-net_admin,-sys_admin,-sys_ptrace", *code)
    return done(*code)


UNPRIVILEGED = """
import json, os, subprocess, sys
from fixtures.launch import reaper
from fixtures.extras.slow_link.starter import Network
from tests.extras.slow_link.ranks.test_link import LINK

INSIDE = '''
import json, socket, sys
from fixtures.extras.slow_link.link_setup import enter
enter(*sys.argv[1:])
print(json.dumps([name for _, name in socket.if_nameindex()]), flush=True)
sys.stdin.read()
'''
network = Network(LINK, 1)
rank = subprocess.Popen(
    [sys.executable, "-c", INSIDE, *network.namespaces(0)],
    env={**os.environ, reaper.MARKER: "of this test"},
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
)
seen = json.loads(rank.stdout.readline())
found = reaper.processes_of("of this test")
left = reaper.end(lambda: reaper.processes_of("of this test"))
print(json.dumps([seen, found == [rank.pid], left, rank.wait(10)]))
"""


def test_a_user_without_rights_gets_a_user_namespace() -> None:
    """Processes in it can be looked at and ended like others: the reaper finds them by their environment."""
    require_namespaces()
    ended = without_rights(sys.executable, "-c", UNPRIVILEGED)
    if ended.returncode and "may not create a network namespace" in ended.stderr:
        pytest.skip(ended.stderr.splitlines()[-1])
    assert ended.stdout, ended.stderr
    assert json.loads(ended.stdout) == [["lo", "eth0"], True, [], -signal.SIGKILL]


def test_a_missing_program_and_what_forbids_namespaces_are_reported() -> None:
    with pytest.raises(NoLink, match=r"no-such-tc does not run \(No such file or directory\): install iproute2"):
        _run("no-such-tc", "qdisc show", ())
    forbid = "echo 0 > /proc/sys/user/max_net_namespaces && exec"
    script = f"{forbid} {sys.executable} -c '{MEASURE}'"
    said = done(str(shutil.which("unshare")), "--user", "--map-root-user", "--net", "sh", "-c", script).stderr
    if "NoLink" not in said:
        pytest.skip(f"no user namespace to forbid it in: {said}")
    assert "may not create a network namespace here" in said
    assert "user.max_net_namespaces is 0" in said


def test_the_delay_is_measured_or_the_kernels_lack_of_netem_is_named() -> None:
    require_namespaces()
    try:
        measured = measure_link(Link(bits_per_s=RATE, delay_s=0.002))
    except NoLink as error:
        missing = str(error)
        assert "this kernel has no netem (CONFIG_NET_SCH_NETEM), which the delay needs" in missing
    else:
        assert measured.round_trip_s >= 0.004
