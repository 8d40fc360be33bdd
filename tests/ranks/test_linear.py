"""Ranks in threads compute what processes do, and only a hook that is exact gets the guarantee for linear hooks."""

from collections.abc import Iterator

import pytest

from fixtures.gradients.replay import path
from fixtures.launch.protocol import CannotRun
from fixtures.launch.rank_sets import RankSet, RankSets
from fixtures.matrix.worlds import INTERCONNECTS, World
from tests.ranks.asking import called

HERE, OF_LINEAR = "tests.hooks_for_tests", "tests.ranks.linear_hooks"
EXACT = [
    *("none", "allreduce", "bf16", "fp16_wrapper", f"{HERE}:lossless"),
    *(f"{OF_LINEAR}:{name}" for name in ("in_shares", "by_all_to_all", "through_futures", "from_rank_0")),
]


@pytest.fixture(scope="module")
def four_ranks() -> Iterator[RankSet]:
    sets = RankSets(launches=1, size=4, on_gpu=False, rank_timeout_s=60)
    yield from sets.of(INTERCONNECTS["native"])
    sets.close()


def guaranteed(ranks: RankSet, hook: str) -> bool:
    return ranks.run(World(backend="gloo", size=1), path("linear:check"), {"hook": hook}, doing=hook) == [[]]


@pytest.mark.parametrize("world", ["2cpu", "3cpu", "4cpu"])
@pytest.mark.parametrize("hook", [*EXACT, f"{HERE}:sums", f"{HERE}:drops_every_second"])
def test_ranks_in_threads_compute_what_processes_compute(four_ranks: RankSet, hook: str, world: str) -> None:
    (first, *threads), *others = called(four_ranks, "rank_threads:digests", in_world=world, hook=hook)
    assert [first, *(digest for (digest,) in others)] == threads
    assert len(threads) == int(world[0])


@pytest.mark.parametrize("hook", EXACT)
def test_a_sound_linear_hook_is_guaranteed(ranks: RankSet, hook: str) -> None:
    assert guaranteed(ranks, hook)


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        (f"{HERE}:sums", r"sums: at 2 ranks, step 0, element 0 is (\S+), not \S+"),
        (f"{HERE}:drops_every_second", "drops_every_second: at 2 ranks, step 0, element 1 is 0.0, not "),
        (f"{OF_LINEAR}:right_up_to_8_ranks", "right_up_to_8_ranks: at 64 ranks, step 0"),
        (f"{OF_LINEAR}:wrong_in_small_buckets", "wrong_in_small_buckets: at 2 ranks, step 1"),
        (f"{OF_LINEAR}:forgets_a_share", "forgets_a_share: at 2 ranks"),
        (f"{OF_LINEAR}:ends_its_process", "the process of its ranks exited with code 3"),
        (f"{OF_LINEAR}:shares_what_it_keeps", "at 2 ranks in one process, it raised "),
        (f"{HERE}:remembers", "with error feedback, a step delivers more or less than its mean"),
        ("quantised_per_tensor", "uint8 rounds integers"),
        ("no_comm", "a hook that promises 'local' computes no exact sum"),
    ],
)
def test_any_other_is_not_covered_and_says_why(ranks: RankSet, hook: str, says: str) -> None:
    with pytest.raises(CannotRun, match=f"^not covered: .*(?:{says})"):
        guaranteed(ranks, hook)
