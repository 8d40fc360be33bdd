"""What a comparison of losses says."""

from dataclasses import replace

from tests.builders import BF16_LOSS

SEEDS = "as written differs by 0.6 % between seeds"


def test_a_loss_that_is_not_finite_has_no_change() -> None:
    gone = replace(BF16_LOSS, word="higher", change_percent=None, interval_percent=None, not_finite_from=34)
    assert gone.words == f"loss not finite from step 34 on ({SEEDS})"


def test_it_says_where_the_same_seed_does_not_repeat_and_what_decides_more() -> None:
    open_ = replace(BF16_LOSS, word="open", repeats_percent=0.25)
    assert f"{SEEDS}, by 0.2 % with the same seed" in open_.words
    assert open_.words.endswith(": not decided; more --minutes decide it")
