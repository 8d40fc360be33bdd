"""The user's workloads in pytest's own process: values without code, which know where their functions are defined."""

from functools import partial
from pathlib import Path

import pytest

from fixtures.launch.faults import RankFault
from fixtures.session.own_code import load_workloads, place_of_function
from fixtures.session.own_workload_checks import unfit

MINE = "tests.workloads_for_tests:steady"


def test_a_mistake_in_a_function_of_the_user_names_its_file_and_line_and_only_ranks_call_it() -> None:
    workload = load_workloads([MINE], ["fp32"])[MINE]
    message = "raised TypeError: workload 'steady': sample must return a tuple of tensors"
    fault = RankFault(rank=0, kind="exception", step=-1, phase="get batch", message=message)
    said = str(unfit(workload, fault))
    assert said.startswith("sample must return a tuple of tensors (tests/workloads_for_tests.py, line ")
    with pytest.raises(RuntimeError, match="the user's code runs in ranks only"):
        workload.sample()


def test_a_partial_function_has_the_place_of_its_function() -> None:
    assert Path(__file__).name in place_of_function(partial(test_a_partial_function_has_the_place_of_its_function))
    assert place_of_function(len) == ""
