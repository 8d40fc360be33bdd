"""Where does all of the time of my training go, and what comes seldom?   pytest perf --script train.py --whole"""

import pytest

from fixtures.extras.whole.plugin import Whole
from fixtures.matrix.configs import AS_WRITTEN, SINGLE

pytestmark = [pytest.mark.scripts, pytest.mark.only_with("whole")]


@pytest.mark.cells((SINGLE,), "largest", several_ranks=(AS_WRITTEN,))
def test_whole(whole: Whole, workload: str, world: str, config: str) -> None:
    whole(workload, world, config)
