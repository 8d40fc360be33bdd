"""The preflight of a workload in live ranks: a mistake is shown by the user's own frames, once for all ranks."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from fixtures.launch.faults import RankFailure
from fixtures.launch.protocol import PreflightRequest, PreflightResult, TrainRequest
from fixtures.launch.rank_sets import RankSet, RankSets
from fixtures.launch.session import environment
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from fixtures.session.launches import Unfit, unfit
from tests import workloads_for_tests

TWO = parse_world("2cpu")


@pytest.fixture(scope="module")
def ranks() -> Iterator[RankSet]:
    with closing(RankSets(launches=1, size=2, on_gpu=False, rank_timeout_s=60)) as sets:
        yield sets.of(INTERCONNECTS["native"])[0]


def checked(ranks: RankSet, workload: str) -> list[PreflightResult]:
    request = PreflightRequest(workload=f"tests.workloads_for_tests:{workload}", world=TWO.name)
    return ranks.ask(TWO, request, doing="preflight")


def mistake_of(ranks: RankSet, workload: str) -> tuple[str, Unfit]:
    """What the ranks report, and what the user is told."""
    with pytest.raises(RankFailure) as failed:
        checked(ranks, workload)
    mistake = unfit(getattr(workloads_for_tests, workload), failed.value.faults[0])
    assert "workloads_for_tests.py, line " in str(mistake)
    return str(failed.value), mistake


def test_parameters_without_a_gradient_are_named(ranks: RankSet) -> None:
    first, second = checked(ranks, "left_out")
    assert (first.parameters, len(first.unused)) == (6, 4)
    assert first.unused != second.unused  # each rank uses an expert of its own


def test_a_wrong_shape_shows_the_users_frames_alone_and_once(ranks: RankSet) -> None:
    text, mistake = mistake_of(ranks, "misshapen")
    assert text.count("Traceback") == 1
    assert text.count("also rank 1, in the same way") == 1
    assert ("workloads_for_tests.py" in text, "fixtures/ranks" in text, "torch/nn" in text) == (True, False, False)
    assert "shapes cannot be multiplied" in str(mistake)
    assert mistake.details.endswith("the batch: float32 (2, 32)")


@pytest.mark.parametrize(
    ("workload", "begins", "says"),
    [
        (
            "constant",
            "sample must draw another sample each time, 8 were equal: ",
            "write sample=lambda: dataset[torch.randint(len(dataset), ()).item()], or Workload(same_sample=True)",
        ),
        ("not_a_number", "loss must be finite, got nan in the first step (", ""),
        ("lazy", "model must initialize its lazy modules: 0.weight has no shape yet, ", "run one forward pass"),
        ("empty", "sample must return a tuple of tensors, got an empty tuple", ""),
    ],
)
def test_a_mistake_in_a_function_is_named_with_the_line_to_write(
    ranks: RankSet, workload: str, begins: str, says: str
) -> None:
    mistake = str(mistake_of(ranks, workload)[1])
    assert mistake.startswith(begins)
    assert says in mistake
    checked(ranks, "steady")  # has equal samples, and says that it means it


@pytest.mark.parametrize("debug", ["OFF", "INFO"])
def test_in_training_parameters_without_a_gradient_are_named_with_what_to_set(debug: str) -> None:
    with (
        environment({"TORCH_DISTRIBUTED_DEBUG": debug}),
        closing(RankSets(launches=1, size=2, on_gpu=False, rank_timeout_s=60)) as sets,
    ):
        (ranks,) = sets.of(INTERCONNECTS["native"])
        workload = "tests.workloads_for_tests:left_out"
        asked = TrainRequest(workload=workload, config="ddp", world="2cpu", steps=2, warmup=1)
        with pytest.raises(RankFailure) as failed:
            ranks.ask(TWO, asked, doing="training")
    first, *_ = str(failed.value).splitlines()
    assert first == (
        "training: rank 0 raised RuntimeError: workload 'left_out': 4 of 6 parameters got no gradient on rank 0 "
        "(experts.1.weight, experts.1.bias, experts.2.weight and 1 more): set Workload(find_unused_parameters=True), "
        "or use them in the loss at step 1 (forward)"
    )
    assert "TORCH_DISTRIBUTED_DEBUG" not in str(failed.value)
