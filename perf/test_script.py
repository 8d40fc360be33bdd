"""What does data transfer cost my training script, as it is?   pytest perf --script "train.py --width 768" """

import pytest

from fixtures.matrix.configs import AS_WRITTEN, SINGLE
from fixtures.session.measure import Measure
from fixtures.session.script_tests import BY_DEFAULT, ON_REQUEST, VARIABLES, repeats, sends_nothing

pytestmark = pytest.mark.scripts


@pytest.mark.unless(reason=sends_nothing)
@pytest.mark.cells(BY_DEFAULT, "largest", own_hooks=True)
def test_script(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)


@pytest.mark.cells((SINGLE,), "every", several_ranks=(AS_WRITTEN,))
def test_script_scaling(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)


@pytest.mark.unless(reason=repeats)
@pytest.mark.cells(ON_REQUEST, "every", default=False, instead_of=("test_script", AS_WRITTEN, *BY_DEFAULT))
def test_script_settings(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)


@pytest.mark.cells(VARIABLES, "largest", default=False, instead_of=("test_script", AS_WRITTEN))
def test_script_variables(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
