"""``wire_bytes_per_step`` is what the kernel counts, on two live ranks."""

from collections.abc import Iterator

import pytest

from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import World
from fixtures.ranks.rank_sets import RankSets

MB = 2**20
GRADIENTS = 8 * MB
WORLD = World(backend="gloo", size=2)


@pytest.fixture(scope="module")
def rank_sets() -> Iterator[RankSets]:
    sets = RankSets(launches=1, size=2, on_gpu=False, rank_timeout_s=60, say=lambda text: None)
    yield sets
    sets.close()


def wire(rank_sets: RankSets, config: str, *, buffer_bytes: int = 0) -> dict[str, float]:
    (ranks,) = rank_sets.of(INTERCONNECTS["native"])
    arguments = {"config": config, "world": WORLD.name, "buffer_bytes": buffer_bytes}
    answer: dict[str, float] = ranks.run(WORLD, "tests.rank_wire:bytes_of_a_step", arguments, doing=config)[0]
    return answer


@pytest.mark.parametrize(
    ("config", "expected"),
    [("ddp", 2 * GRADIENTS), ("bf16", GRADIENTS), ("fp16", GRADIENTS), ("bucket_10mb", 2 * GRADIENTS)],
)
def test_what_is_predicted_crosses_the_wire(rank_sets: RankSets, config: str, expected: int) -> None:
    answer = wire(rank_sets, config)
    assert answer["predicted"] == expected
    assert answer["counted"] == pytest.approx(answer["predicted"], rel=0.03)


def test_buffers_are_counted_once_a_step(rank_sets: RankSets) -> None:
    answer = wire(rank_sets, "ddp", buffer_bytes=4 * MB)
    assert answer["predicted"] == 2 * GRADIENTS + 4 * MB
    assert answer["counted"] == pytest.approx(answer["predicted"], rel=0.03)


def test_no_comm_sends_nothing(rank_sets: RankSets) -> None:
    answer = wire(rank_sets, "no_comm")
    assert answer["predicted"] == 0
    assert answer["counted"] < GRADIENTS / 100


@pytest.mark.parametrize(("config", "bytes_an_element"), [("powersgd_rank1", 4), ("bf16_powersgd_rank1", 2)])
def test_powersgd_sends_two_vectors_a_matrix(rank_sets: RankSets, config: str, bytes_an_element: int) -> None:
    answer = wire(rank_sets, config)
    assert answer["predicted"] == 2 * 2 * (1024 + 1024) * bytes_an_element
    assert answer["predicted"] <= answer["counted"] < GRADIENTS / 100  # headers of packets weigh much here
