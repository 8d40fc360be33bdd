"""``wire_bytes_per_step`` equals the kernel's count, on two live ranks over gloo."""

import pytest

from fixtures.launch.protocol import TrainRequest
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import World

MB = 2**20
GRADIENTS = 8 * MB
WORLD = World(backend="gloo", size=2)


def wire(two_ranks: RankSets, config: str, *, buffer_bytes: int = 0) -> dict[str, float]:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    arguments = {"config": config, "world": WORLD.name, "buffer_bytes": buffer_bytes}
    answer: dict[str, float] = ranks.run(WORLD, "tests.ranks.rank_wire:bytes_of_a_step", arguments, doing=config)[0]
    return answer


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("ddp", 2 * GRADIENTS),
        ("bf16", GRADIENTS),
        ("bf16_all_to_all-bucket_25mb", GRADIENTS),
        ("fp16", GRADIENTS),
        ("bucket_10mb", 2 * GRADIENTS),
        ("fsdp2_one", 3 * GRADIENTS),
    ],
)
def test_what_is_predicted_crosses_the_wire(two_ranks: RankSets, config: str, expected: int) -> None:
    answer = wire(two_ranks, config)
    assert answer["predicted"] == expected
    assert answer["counted"] == pytest.approx(answer["predicted"], rel=0.03)


@pytest.mark.parametrize("config", ["int8_all_to_all-bucket_25mb", "fp8_all_to_all-bucket_25mb"])
def test_8_bits_send_a_byte_an_element_and_a_scale_a_block(two_ranks: RankSets, config: str) -> None:
    answer = wire(two_ranks, config)
    assert answer["predicted"] == GRADIENTS // 2 * (256 + 4) // 256
    assert answer["counted"] == pytest.approx(answer["predicted"], rel=0.03)


def test_buffers_are_counted_once_a_step(two_ranks: RankSets) -> None:
    answer = wire(two_ranks, "ddp", buffer_bytes=4 * MB)
    assert answer["predicted"] == 2 * GRADIENTS + 4 * MB
    assert answer["counted"] == pytest.approx(answer["predicted"], rel=0.03)


def test_no_comm_sends_nothing(two_ranks: RankSets) -> None:
    answer = wire(two_ranks, "no_comm")
    assert answer["predicted"] == 0
    assert answer["counted"] < GRADIENTS / 100


@pytest.mark.parametrize(("config", "bytes_an_element"), [("powersgd_rank1", 4), ("bf16_powersgd_rank1", 2)])
def test_powersgd_sends_two_vectors_a_matrix(two_ranks: RankSets, config: str, bytes_an_element: int) -> None:
    answer = wire(two_ranks, config)
    assert answer["predicted"] == 2 * 2 * (1024 + 1024) * bytes_an_element
    assert answer["predicted"] <= answer["counted"] < GRADIENTS / 100  # packet headers are a large part here


@pytest.mark.parametrize("config", ["accumulate_2", "local_sgd_8"])
def test_fewer_exchanges_send_what_is_predicted(two_ranks: RankSets, config: str) -> None:
    """By the collectives that a step issues, in the mean over the steps between two averages of the weights."""
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    request = TrainRequest(workload="vit_tiny", config=config, world=WORLD.name, steps=8, warmup=5, profile=4)
    result = ranks.ask(WORLD, request, doing=config)[0]
    plain = 2 * sum(size for size, _ in result.gradients)
    assert result.wire_bytes_per_step == (plain if config == "accumulate_2" else plain // 8)
    assert result.issued_bytes_per_step == pytest.approx(result.wire_bytes_per_step, rel=1e-3)


def test_the_kernel_counts_one_average_of_the_weights_in_eight_steps(two_ranks: RankSets) -> None:
    """Wherever the window begins: here it has nine steps, with two averages."""
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    request = TrainRequest(workload="vit_tiny", config="local_sgd_8", world=WORLD.name, steps=8, warmup=4)
    results = ranks.ask(WORLD, request, doing="local_sgd_8")
    counted = sum(result.sent_bytes_per_step or 0.0 for result in results)
    assert counted == pytest.approx(results[0].wire_bytes_per_step, rel=0.03)
