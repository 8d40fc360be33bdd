"""``wire_bytes_per_step`` equals the kernel's count, on two live ranks over gloo."""

import pytest

from fixtures.launch.rank_sets import RankSet
from tests.ranks.asking import called, trained

MB = 2**20
GRADIENTS = 8 * MB


def wire(ranks: RankSet, config: str, *, buffer_bytes: int = 0) -> dict[str, float]:
    function = "rank_wire:bytes_of_a_step"
    answer: dict[str, float] = called(ranks, function, config=config, world="2cpu", buffer_bytes=buffer_bytes)[0]
    return answer


@pytest.mark.parametrize(
    ("config", "buffer_mb", "expected"),
    [
        ("ddp", 0, 2 * GRADIENTS),
        ("ddp", 4, 2 * GRADIENTS + 4 * MB),  # buffers are sent once a step
        ("bf16", 0, GRADIENTS),
        ("fp16", 0, GRADIENTS),
        ("bucket_10mb", 0, 2 * GRADIENTS),
        ("fsdp2_one", 0, 3 * GRADIENTS),
    ],
)
def test_what_is_predicted_crosses_the_wire(ranks: RankSet, config: str, buffer_mb: int, expected: int) -> None:
    answer = wire(ranks, config, buffer_bytes=buffer_mb * MB)
    assert answer["predicted"] == expected
    assert answer["counted"] == pytest.approx(answer["predicted"], rel=0.03)


def test_no_comm_sends_nothing(ranks: RankSet) -> None:
    answer = wire(ranks, "no_comm")
    assert answer["predicted"] == 0
    assert answer["counted"] < GRADIENTS / 100


@pytest.mark.parametrize(("config", "bytes_an_element"), [("powersgd_rank1", 4), ("bf16_powersgd_rank1", 2)])
def test_powersgd_sends_two_vectors_a_matrix(ranks: RankSet, config: str, bytes_an_element: int) -> None:
    answer = wire(ranks, config)
    assert answer["predicted"] == 2 * 2 * (1024 + 1024) * bytes_an_element
    assert answer["predicted"] <= answer["counted"] < GRADIENTS / 100  # packet headers are a large part here


@pytest.mark.parametrize("config", ["accumulate_2", "local_sgd_8"])
def test_fewer_exchanges_send_what_is_predicted(ranks: RankSet, config: str) -> None:
    """By the collectives that a step issues, in the mean over the steps between two averages of the weights."""
    result = trained(ranks, config, steps=8, warmup=5, profile=4)[0]
    plain = 2 * sum(size for size, _ in result.gradients)
    assert result.wire_bytes_per_step == (plain if config == "accumulate_2" else plain // 8)
    assert result.issued_bytes_per_step == pytest.approx(result.wire_bytes_per_step, rel=1e-3)


def test_the_kernel_counts_one_average_of_the_weights_in_eight_steps(ranks: RankSet) -> None:
    """Wherever the window begins: here it has nine steps, with two averages."""
    results = trained(ranks, "local_sgd_8", steps=8)
    counted = sum(result.sent_bytes_per_step or 0.0 for result in results)
    assert counted == pytest.approx(results[0].wire_bytes_per_step, rel=0.03)
