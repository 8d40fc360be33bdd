"""Which hook of the suite pays on this machine?   pytest perf/test_hooks.py"""

import pytest

from fixtures.extras.hooks.hooks import HOOKS
from fixtures.matrix.configs import CONFIGS
from fixtures.session.measure import Measure

OWN = [name for name, config in CONFIGS.items() if config.hook in {hook.name for hook in HOOKS}]
# The same buckets with torch's hooks, and without communication.
COMPARED = (
    *("ddp", "bf16-bucket_25mb", "powersgd_rank1-bucket_25mb", "no_comm-bucket_25mb"),
    *("graph-bf16-bucket_25mb", "graph-no_comm-bucket_25mb"),
)


@pytest.mark.cells((*COMPARED, *OWN), "largest", default=False)
def test_hooks(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
