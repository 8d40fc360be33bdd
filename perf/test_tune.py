"""Which config trains fastest on this machine, of all that DDP and NCCL can be set to?   pytest perf --tune"""

import pytest

from fixtures.extras.tune.plugin import Tune


@pytest.mark.tunes
def test_tune(tune: Tune, workload: str, world: str) -> None:
    best = tune(workload, world)
    assert best.record.gradients_checked or best.record.decision != "faster"
