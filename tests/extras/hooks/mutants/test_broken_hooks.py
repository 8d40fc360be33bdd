"""The gradient checks catch the suite's hooks with planted bugs, and pass the sound ones."""

import pytest

from fixtures.launch.rank_sets import RankSets
from tests.extras.hooks.broken_hooks import CAUGHT_BY, SUMS_IN_BF16
from tests.extras.hooks.sound_hooks import INT8, INT8_FP32_VECTORS
from tests.mutants.test_hooks import EVERY_CASE, against
from tests.mutants.test_scenarios import in_scenario


def test_a_mean_that_is_not_summed_in_float32_is_caught(three_ranks: RankSets) -> None:
    assert any(line for case in EVERY_CASE for line in against(three_ranks, SUMS_IN_BF16, *case))


@pytest.mark.parametrize("hook", CAUGHT_BY)
def test_a_broken_hook_of_the_suite_is_caught(three_ranks: RankSets, hook: str) -> None:
    assert in_scenario(three_ranks, hook, *CAUGHT_BY[hook])


@pytest.mark.parametrize(("scenario", "option"), sorted(set(CAUGHT_BY.values())))
@pytest.mark.parametrize("hook", [INT8.name, INT8_FP32_VECTORS.name])
def test_a_sound_hook_of_the_suite_is_not(three_ranks: RankSets, hook: str, scenario: str, option: str) -> None:
    assert in_scenario(three_ranks, hook, scenario, option) == []
