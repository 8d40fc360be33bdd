"""Scripts that start their ranks themselves, or find their rank elsewhere than in torchrun's variables."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent

import pytest

from fixtures.launch.faults import RankFailure
from fixtures.launch.protocol import CannotRun
from tests.script.conftest import STEPS, Run

# A script whose ranks run main(rank, size, ...); STARTS and JOINS are to fill in.
TRAINING = """
import argparse, os, sys, torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

def main(rank, size, *more):
    JOINS
    assert (dist.get_rank(), dist.get_world_size()) == (rank, size)
    model = DistributedDataParallel(nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()

class Training:
    def begin(self, rank):
        main(rank, 2)

class Rank(mp.Process):
    def __init__(self, rank):
        super().__init__()
        self.rank = rank
    def run(self):
        main(self.rank, 2)

if __name__ == "__main__":
STARTS
"""
# Where nobody listens: the suite's own address takes its place.
OWN_ADDRESS = 'dist.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=rank, world_size=size)'
TAKES_RANK = """
rank, size = {}
main(int(rank), int(size))
"""
STARTS = {
    "spawn": "mp.spawn(main, args=(2,), nprocs=2)",
    "spawn imported by name": "from torch.multiprocessing import spawn as begin\nbegin(main, nprocs=2, args=(2,))",
    "spawn imported from its module": "from torch.multiprocessing.spawn import spawn\nspawn(main, (2,), 2)",
    "start_processes": "mp.start_processes(main, args=(2,), nprocs=2, start_method='fork')",
    "processes in a loop": """
        mp.set_start_method("spawn")
        started = []
        for rank in range(2):
            started.append(mp.Process(target=main, args=(rank, 2, print)))
            started[-1].start()
        for process in started:
            process.join()
        """,
    "processes of another context": """
        started = [mp.get_context("spawn").Process(target=Training().begin, args=(rank,)) for rank in range(2)]
        for process in started: process.start()
        for process in started: process.join()
        """,
    "a class of processes": "for rank in range(2): Rank(rank).start()",
    "spawn by a script that numbers machines in RANK": """
        machine, machines = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        def begin(local): main(machine * 2 + local, machines * 2)
        mp.spawn(begin, nprocs=2)
        """,
    "spawn by a script that prefers Slurm": """
        if "SLURM_JOB_ID" in os.environ:
            sys.exit(os.getenv("SLURM_NODEID"))
        mp.spawn(main, args=(2,), nprocs=2)
        """,
    "elastic_launch": """
        from torch.distributed.launcher.api import LaunchConfig, elastic_launch
        def begin(): main(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
        elastic_launch(LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2), begin)()
        """,
}


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes TRAINING with these lines to start and to join."""

    def write(starts: str, joins: str = OWN_ADDRESS) -> Path:
        script = tmp_path / "train.py"
        script.write_text(TRAINING.replace("STARTS", indent(dedent(starts).strip(), "    ")).replace("JOINS", joins))
        return script

    return write


@pytest.mark.parametrize("how", STARTS)
def test_each_rank_takes_the_place_of_one_that_the_script_starts(
    run: Run, written: Callable[..., Path], how: str
) -> None:
    assert [len(one.step_s) for one in run(written(STARTS[how]))] == [STEPS, STEPS]


def test_a_config_applies_to_ranks_that_the_script_starts(run: Run, written: Callable[..., Path]) -> None:
    first, _ = run(written(STARTS["spawn"]), "bf16", check_gradients=True)
    assert first.wire_dtype == "bfloat16"
    assert first.gradient_error is not None
    assert 0 < first.gradient_error <= 2**-8  # the most that rounding to bfloat16 changes a number


@pytest.mark.parametrize(
    "starts",
    [
        "mp.spawn(main, args=({0},), nprocs={0})",
        "for rank in range({0}): mp.Process(target=main, args=(rank, {0})).start()",
    ],
)
@pytest.mark.parametrize("number", [1, 4])
def test_another_number_of_ranks_is_one_line(run: Run, written: Callable[..., Path], starts: str, number: int) -> None:
    with pytest.raises(RankFailure) as failure:
        run(written(starts.format(number)))
    started = f"{number} rank{'s' if number > 1 else ''}"
    assert str(failure.value) == f"as_written: train.py starts {started} itself, 2cpu has 2: have it start 2"


def test_no_gpus_to_start_a_rank_each_is_the_reason(run: Run, written: Callable[..., Path]) -> None:
    with pytest.raises(RankFailure, match="starts 0 ranks itself, 2cpu has 2: it starts one for each GPU, and here is"):
        run(written("mp.spawn(main, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())"))


@pytest.mark.parametrize("how", ["spawn", "processes in a loop"])
def test_a_script_that_starts_ranks_in_any_case_has_no_single(run: Run, written: Callable[..., Path], how: str) -> None:
    with pytest.raises(CannotRun, match="starts 2 ranks itself when no launcher does"):
        run(written(STARTS[how]), "single", "1cpu")


def test_other_processes_start_as_usual(run: Run, written: Callable[..., Path]) -> None:
    helpers = """
        lines = mp.Queue()
        logger = mp.Process(target=lambda: print(lines.get()))
        logger.start()
        with mp.Manager() as manager, mp.Pool(1) as pool:
            assert manager.dict(one=pool.apply(abs, (-1,)))["one"] == 1
        lines.put("the end")
        logger.join()
        assert logger.exitcode == 0
        mp.spawn(main, args=(2,), nprocs=2)
        """
    assert len(run(written(helpers))) == 2


def test_processes_that_are_not_seen_to_be_ranks_are_named(run: Run, written: Callable[..., Path]) -> None:
    with pytest.raises(RankFailure, match="2 processes that it started ran beside it, because no init_process_group"):
        run(written("for rank in range(2): mp.Process(target=lambda: None).start()"))


# Where a script finds its rank, and what it calls with it.
FOUND = {
    "Slurm": 'os.environ["SLURM_PROCID"], os.environ["SLURM_NTASKS"]',
    "Slurm, with defaults": 'os.environ.get("SLURM_PROCID", 0), os.getenv("SLURM_NTASKS", 1)',
    "Open MPI": 'os.environ["OMPI_COMM_WORLD_RANK"], os.environ["OMPI_COMM_WORLD_SIZE"]',
    "the variables of MPICH": '(os.environ[f"PMI_{name}"] for name in ("RANK", "SIZE"))',
}


@pytest.mark.parametrize("where", FOUND)
def test_a_script_finds_its_rank_in_other_launchers_variables(
    run: Run, written: Callable[..., Path], where: str
) -> None:
    assert len(run(written(TAKES_RANK.format(FOUND[where])))) == 2


def test_a_module_of_the_script_finds_slurms_variables_too(
    run: Run, written: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "ranks.py").write_text(f"import os\nfound = lambda: ({FOUND['Slurm, with defaults']})")
    script = written("main(*map(int, found()))")
    script.write_text("from ranks import found\n" + script.read_text())
    assert len(run(script)) == 2


def test_code_that_only_asks_for_another_launcher_finds_torchruns(run: Run, written: Callable[..., Path]) -> None:
    asks = """
        assert "SLURM_PROCID" not in os.environ
        assert os.environ.get("OMPI_COMM_WORLD_RANK") is None
        main(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
        """
    assert len(run(written(asks))) == 2


def test_a_script_that_needs_slurm_has_no_single(run: Run, written: Callable[..., Path]) -> None:
    with pytest.raises(CannotRun, match="it reads SLURM_PROCID, which a launcher sets"):
        run(written(TAKES_RANK.format(FOUND["Slurm"])), "single", "1cpu")


@pytest.mark.parametrize("option", ["--local_rank", "--local-rank"])
@pytest.mark.parametrize("more", ["type=int, default=-1", "required=True"])
def test_a_parsers_local_rank_is_the_rank(run: Run, written: Callable[..., Path], option: str, more: str) -> None:
    parses = f"""
        parser = argparse.ArgumentParser()
        parser.add_argument("{option}", {more})
        main(int(parser.parse_args().local_rank), 2)
        """
    assert len(run(written(parses))) == 2


def test_without_a_launcher_a_parsers_local_rank_keeps_its_default(run: Run, written: Callable[..., Path]) -> None:
    parses = """
        parser = argparse.ArgumentParser()
        parser.add_argument("--local_rank", default=-1)
        sys.exit(f"local rank {parser.parse_args().local_rank}")
        """
    with pytest.raises(RankFailure, match=r"train\.py ended before its first step: local rank -1"):
        run(written(parses), "single", "1cpu")


def test_a_port_of_the_scripts_own_is_replaced(run: Run, written: Callable[..., Path]) -> None:
    own_port = """os.environ |= {"MASTER_ADDR": "nowhere.invalid", "MASTER_PORT": "1"}
    dist.init_process_group("gloo")"""
    assert len(run(written(TAKES_RANK.format('os.environ["RANK"], 2'), own_port))) == 2
