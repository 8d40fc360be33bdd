"""Does my own model learn as well with a lossy config?   pytest perf --script train.py -k bf16 --train 300"""

import pytest

from fixtures.extras.loss.plugin import LOSSY_BY_DEFAULT, LOSSY_ON_REQUEST, Train, lossless, one_rank

pytestmark = [pytest.mark.only_with("train"), pytest.mark.unless(reason=one_rank), pytest.mark.unless(reason=lossless)]


@pytest.mark.cells(LOSSY_BY_DEFAULT, "largest", own_hooks=True)
def test_loss(train: Train, workload: str, world: str, config: str) -> None:
    assert train(workload, world, config).word != "higher"


@pytest.mark.cells(LOSSY_ON_REQUEST, "largest", default=False, instead_of=("test_loss", *LOSSY_BY_DEFAULT))
def test_loss_on_request(train: Train, workload: str, world: str, config: str) -> None:
    assert train(workload, world, config).word != "higher"
