"""Scripts that start ranks as processes or with ``elastic_launch``, or find their rank in variables of Slurm or MPI."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.launch.faults import RankFailure
from fixtures.launch.protocol import CannotRun
from tests.script.conftest import STEPS, TAKES_RANK, Run

STARTS = {
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


@pytest.mark.parametrize("how", STARTS)
def test_each_rank_takes_the_place_of_one_that_the_script_starts(
    run: Run, written: Callable[..., Path], how: str
) -> None:
    assert [len(one.step_s) for one in run(written(STARTS[how]))] == [STEPS, STEPS]


@pytest.mark.parametrize("number", [1, 4])
def test_another_number_of_ranks_is_one_line(run: Run, written: Callable[..., Path], number: int) -> None:
    with pytest.raises(RankFailure) as failure:
        run(written(f"for rank in range({number}): mp.Process(target=main, args=(rank, {number})).start()"))
    started = f"{number} rank{'s' if number > 1 else ''}"
    assert str(failure.value) == f"as_written: train.py starts {started} itself, 2cpu has 2: have it start 2"


@pytest.mark.parametrize(
    "starts",
    [
        """
        lines = mp.Queue()
        logger = mp.Process(target=lambda: print(lines.get()))
        logger.start()
        with mp.Manager() as manager, mp.Pool(1) as pool:
            assert manager.dict(one=pool.apply(abs, (-1,)))["one"] == 1
        lines.put("the end")
        logger.join()
        assert logger.exitcode == 0
        mp.spawn(main, args=(2,), nprocs=2)
        """,
        """
        assert "SLURM_PROCID" not in os.environ
        assert os.environ.get("OMPI_COMM_WORLD_RANK") is None
        main(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
        """,
    ],
    ids=["helpers", "asks for another launcher"],
)
def test_other_processes_start_as_usual_and_who_only_asks_for_another_launcher_finds_torchruns(
    run: Run, written: Callable[..., Path], starts: str
) -> None:
    assert len(run(written(starts))) == 2


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


@pytest.mark.parametrize(
    ("starts", "asked", "error", "says"),
    [
        (
            "for rank in range(2): mp.Process(target=lambda: None).start()",
            (),
            RankFailure,
            "2 processes that it started ran beside it, because no init_process_group",
        ),
        (
            TAKES_RANK.format(FOUND["Slurm"]),
            ("single", "1cpu"),
            CannotRun,
            "it reads SLURM_PROCID, which a launcher sets",
        ),
    ],
    ids=["no ranks", "needs Slurm"],
)
def test_processes_that_are_not_seen_to_be_ranks_and_a_script_that_needs_slurm_are_named(
    run: Run, written: Callable[..., Path], starts: str, asked: tuple[str, ...], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        run(written(starts), *asked)
