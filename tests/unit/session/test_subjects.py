"""The arguments of ``measure``: values and names, and errors in them."""

import sys
from dataclasses import replace
from types import ModuleType

import pytest

from fixtures import Config, Hook, Workload
from fixtures.matrix.configs import CONFIGS, find_config
from fixtures.matrix.workloads import WORKLOADS
from fixtures.session.collected import pytest_make_parametrize_id
from fixtures.session.own_code import reference_of
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
