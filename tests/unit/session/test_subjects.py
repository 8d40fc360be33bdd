"""The arguments of measure, the user's code in pytest's process, and the lines of messages about launches."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from fixtures import Config, Hook, Workload
from fixtures.launch import reaper
from fixtures.launch.faults import RankFault
from fixtures.matrix.configs import CONFIGS, find_config
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import worlds_of
from fixtures.session.collected import pytest_make_parametrize_id
from fixtures.session.launches import lines_of, unfit
from fixtures.session.own_code import ends_what_it_starts, load_hooks, load_workloads, place_of_function, reference_of
from fixtures.session.references import CellName, missing_references
from fixtures.session.run_state import Run
from fixtures.session.subjects import config_named, workload_named, world_named
from tests.builders import SETTINGS

HERE = sys.modules[__name__]
mine = replace(WORKLOADS["vit_tiny"], name="mine")
transfer = replace(WORKLOADS["vit_tiny"], name="all_reduce")
small = Config(name="small", bucket_cap_mb=1)


@pytest.fixture
def run() -> Run:
    return Run(settings=SETTINGS)


def test_a_workload_and_a_config_are_named_by_their_module_and_found_there_by_ranks(run: Run) -> None:
    assert workload_named(mine, run, HERE) == (f"{__name__}:mine", mine)
    assert workload_named(f"{__name__}:mine", run, HERE) == (f"{__name__}:mine", mine)
    assert workload_named("vit_tiny", run, HERE) == ("vit_tiny", WORKLOADS["vit_tiny"])
    config = config_named(small, HERE)
    assert config == small
    assert find_config(config.reference) == small
    assert config_named("bf16", HERE) == config_named(CONFIGS["bf16"], HERE) == CONFIGS["bf16"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (replace(mine, batch_size=3), "workload 'mine' is in no module: ranks are other processes"),
        ("nix", "no workload named 'nix': there are vit_l_32, .* name your own as PKG.MODULE:ATTR"),
        (3, "takes a Workload or the name of one, got a int"),
        (replace(mine, name="vit_tiny"), "is in no module"),
    ],
)
def test_a_workload_that_ranks_cannot_find_fails_the_test(run: Run, given: Workload | str, says: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=says):
        workload_named(given, run, HERE)


def test_a_name_is_that_of_one_workload_or_config_and_of_no_bare_transfer(run: Run) -> None:
    run.own_workloads["other:mine"] = replace(mine, batch_size=3)
    with pytest.raises(pytest.fail.Exception, match="its name 'mine' is also the name of other:mine"):
        workload_named(mine, run, HERE)
    with pytest.raises(pytest.fail.Exception, match="its name 'all_reduce' is the suite's own"):
        workload_named(transfer, run, HERE)
    with pytest.raises(pytest.fail.Exception, match="its name 'ddp' is the suite's own"):
        config_named(replace(small, name="ddp"), HERE)


def test_a_config_or_a_world_of_another_type_fails_the_test_in_one_line() -> None:
    for given, kind in ((Hook(name="own", build=None), "Hook"), (lambda state, bucket: None, "function")):
        with pytest.raises(pytest.fail.Exception, match=f'config="my_project.hooks:hook", got a {kind}$'):
            config_named(given, HERE)  # type: ignore[arg-type]
    with pytest.raises(pytest.fail.Exception, match="takes a world by its name, such as '2cpu', got a int"):
        world_named(8, SETTINGS)  # type: ignore[arg-type]


def test_a_module_that_is_not_on_sys_path_is_reported() -> None:
    lost = ModuleType("lost")
    lost.__dict__["mine"] = value = object()
    with pytest.raises(pytest.fail.Exception, match="it is lost:mine, and ranks find no lost on sys"):
        reference_of(value, "it", lost)


def test_a_world_of_another_machine_skips_the_test() -> None:
    assert world_named(None, SETTINGS) == world_named("8gpu", SETTINGS)
    with pytest.raises(pytest.skip.Exception, match=r"this machine has no world 2cpu: it has 1gpu, .* \(8 GPUs\)"):
        world_named("2cpu", SETTINGS)
    with pytest.raises(pytest.fail.Exception, match="no world named '8'"):
        world_named("8", SETTINGS)


def test_a_value_has_its_name_in_the_id_of_a_test() -> None:
    hook = Hook(name="own", build=None)
    assert [pytest_make_parametrize_id(value) for value in (mine, small, hook, 3)] == ["mine", "small", "own", None]


# The user's workloads in pytest's own process: values without code, which know where their functions are
# defined


MINE = "tests.workloads_for_tests:steady"


def test_a_mistake_in_a_function_of_the_user_names_its_file_and_line_and_only_ranks_call_it() -> None:
    workload = load_workloads([MINE], ["fp32"])[MINE]
    message = "raised TypeError: workload 'steady': sample must return a tuple of tensors"
    said = str(unfit(workload, RankFault(rank=0, kind="exception", step=-1, phase="get batch", message=message)))
    assert said.startswith("sample must return a tuple of tensors (tests/workloads_for_tests.py, line ")
    with pytest.raises(RuntimeError, match="the user's code runs in ranks only"):
        workload.sample()


def test_a_partial_function_has_the_place_of_its_function() -> None:
    assert Path(__file__).name in place_of_function(partial(test_a_partial_function_has_the_place_of_its_function))
    assert place_of_function(len) == ""


DAEMON = """
import os, pathlib, subprocess
command = ["sh", "-c", "sleep 600 </dev/null >/dev/null 2>&1 & echo $!"]
pid = subprocess.run(command, env={{}}, stdout=subprocess.PIPE, start_new_session=True).stdout
pathlib.Path({file!r}).write_bytes(pid)
"""


@pytest.mark.parametrize(
    ("load", "ends", "says"),
    [
        (
            lambda name: load_workloads([name], ["fp32"]),
            "os._exit(0)",
            "its process exited with code 0 while importing",
        ),
        (lambda name: load_workloads([name], ["fp32"]), "os.abort()", "its process died of SIGABRT while importing"),
        (lambda name: load_hooks([name]), "hook = 7", "is a int, not a Hook"),
    ],
)
def test_an_import_that_ends_its_process_is_reported_and_what_it_started_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: Callable[[str], object], ends: str, says: str
) -> None:
    (tmp_path / "starts_a_daemon.py").write_text(f"{DAEMON.format(file=str(tmp_path / 'pid'))}{ends}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(pytest.UsageError, match=says):
        load("starts_a_daemon:hook")
    assert reaper.state_of(int((tmp_path / "pid").read_text())) in (None, "Z")


def test_a_process_that_an_import_in_this_process_starts_ends_with_it() -> None:
    with subprocess.Popen(["sleep", "600"]) as of_pytest:
        with ends_what_it_starts():
            child = subprocess.Popen(["sleep", "600"], env={}, start_new_session=True)
        assert child.poll() is not None
        assert of_pytest.poll() is None
        of_pytest.kill()


# The lines of messages about launches


FRAME = f'    raise ValueError("{90 * "x"}")'


def test_a_long_sentence_becomes_lines_of_100_characters() -> None:
    sentence = f"training mine changes its process for later tests: {'; '.join(20 * ['umask: 18 to 0'])}"
    lines = lines_of(sentence)
    assert max(map(len, lines)) <= 100
    assert " ".join(line.strip() for line in lines) == sentence


def test_lines_of_code_stay_as_they_are() -> None:
    assert lines_of(f"rank 0 raised:\n{FRAME}\n\nat step 0") == ["rank 0 raised:", FRAME, "", "at step 0"]


@pytest.mark.parametrize(
    ("configs", "world", "references"),
    [
        ("powersgd_rank1", "4gpu", "ddp 4gpu, no_comm 4gpu, single 1gpu"),
        ("powersgd_rank1 ddp no_comm-bucket_25mb", "4gpu", "single 1gpu"),
        ("graph-bucket_25mb", "4gpu", "ddp 4gpu, graph-no_comm-bucket_25mb 4gpu, single 1gpu"),
        ("feed_uint8", "4gpu", "feed_resident 4gpu, ddp 4gpu, no_comm 4gpu, single 1gpu"),
        (
            "graph-feed_uint8-bucket_25mb",
            "4gpu",
            "graph-feed_resident-bucket_25mb 4gpu, ddp 4gpu, graph-no_comm-bucket_25mb 4gpu, single 1gpu",
        ),
        (
            "graph-outputs_async-bucket_25mb",
            "4gpu",
            "graph-bucket_25mb 4gpu, ddp 4gpu, graph-no_comm-bucket_25mb 4gpu, single 1gpu",
        ),
        ("ddp", "1gpu", "single 1gpu"),
        ("as_written-ctas_8", "4gpu", "as_written 4gpu, ddp 4gpu, no_comm 4gpu, single 1gpu"),
        *((config, world, "") for config, world in (("single", "1gpu"), ("zero1", "4gpu"), ("adamw_fused", "4gpu"))),
    ],
)
def test_a_config_is_compared_with_what_was_not_selected(configs: str, world: str, references: str) -> None:
    cells = [
        CellName(workload="vit_l_32", world=world, interconnect="native", config=config) for config in configs.split()
    ]
    assert ", ".join(f"{cell.config} {cell.world}" for cell in missing_references(cells, worlds_of(4))) == references
