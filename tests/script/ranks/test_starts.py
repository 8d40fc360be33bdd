"""Scripts that start their ranks themselves, or find their rank in an option."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.launch.faults import RankFailure
from fixtures.launch.protocol import CannotRun
from tests.script.conftest import STEPS, TAKES_RANK, Run

STARTS = {
    "spawn": "mp.spawn(main, args=(2,), nprocs=2)",
    "spawn imported by name": "from torch.multiprocessing import spawn as begin\nbegin(main, nprocs=2, args=(2,))",
    "spawn imported from its module": "from torch.multiprocessing.spawn import spawn\nspawn(main, (2,), 2)",
    "start_processes": "mp.start_processes(main, args=(2,), nprocs=2, start_method='fork')",
    "spawn by a script that numbers machines in RANK": """
        machine, machines = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        def begin(local): main(machine * 2 + local, machines * 2)
        mp.spawn(begin, nprocs=2)
        """,
}


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


@pytest.mark.parametrize("number", [1, 4])
def test_another_number_of_ranks_is_one_line(run: Run, written: Callable[..., Path], number: int) -> None:
    with pytest.raises(RankFailure) as failure:
        run(written(f"mp.spawn(main, args=({number},), nprocs={number})"))
    started = f"{number} rank{'s' if number > 1 else ''}"
    assert str(failure.value) == f"as_written: train.py starts {started} itself, 2cpu has 2: have it start 2"


@pytest.mark.parametrize(
    ("starts", "asked", "error", "says"),
    [
        (
            "mp.spawn(main, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())",
            (),
            RankFailure,
            "starts 0 ranks itself, 2cpu has 2: it starts one for each GPU, and here is",
        ),
        (STARTS["spawn"], ("single", "1cpu"), CannotRun, "starts 2 ranks itself when no launcher does"),
        # Without a launcher a parser's local rank keeps its default.
        (
            """
            parser = argparse.ArgumentParser()
            parser.add_argument("--local_rank", default=-1)
            sys.exit(f"local rank {parser.parse_args().local_rank}")
            """,
            ("single", "1cpu"),
            RankFailure,
            r"train\.py ended before its first step: local rank -1",
        ),
    ],
    ids=["no GPUs", "no single", "a parser's default"],
)
def test_why_a_script_that_starts_its_ranks_is_not_measured(
    run: Run, written: Callable[..., Path], starts: str, asked: tuple[str, ...], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        run(written(starts), *asked)


@pytest.mark.parametrize("option", ["--local_rank", "--local-rank"])
@pytest.mark.parametrize("more", ["type=int, default=-1", "required=True"])
def test_a_parsers_local_rank_is_the_rank(run: Run, written: Callable[..., Path], option: str, more: str) -> None:
    parses = f"""
        parser = argparse.ArgumentParser()
        parser.add_argument("{option}", {more})
        main(int(parser.parse_args().local_rank), 2)
        """
    assert len(run(written(parses))) == 2


def test_a_port_of_the_scripts_own_is_replaced(run: Run, written: Callable[..., Path]) -> None:
    own_port = """os.environ |= {"MASTER_ADDR": "nowhere.invalid", "MASTER_PORT": "1"}
    dist.init_process_group("gloo")"""
    assert len(run(written(TAKES_RANK.format('os.environ["RANK"], 2'), own_port))) == 2
