"""Names of configs that are made of words."""

import pytest

from fixtures.matrix.config import Words, parse
from fixtures.matrix.configs import CONFIGS, find_config
from fixtures.matrix.hooks import HOOKS
from fixtures.matrix.lookup import NotFound


def described() -> list[str]:
    """The names of the table that words describe as well."""
    words = {name: parse(name) for name in CONFIGS}
    return [name for name, said in words.items() if said is not None and (said.hook is None or said.hook in HOOKS)]


def test_the_words_of_a_name_describe_the_config_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    names = described()
    assert {"bucket_10mb", "graph-bf16-bucket_25mb", "ctas_8-bucket_10mb", "first_bucket_1mb-bucket_25mb"} < {*names}
    table = {name: CONFIGS[name] for name in names}
    monkeypatch.setattr("fixtures.matrix.configs.CONFIGS", {n: c for n, c in CONFIGS.items() if n not in table})
    assert {name: find_config(name) for name in names} == table


def test_a_name_is_read_as_it_is_written() -> None:
    read = {name: parse(name) for name in described()}
    assert {name: words and words.to_name() for name, words in read.items()} == {name: name for name in read}
    assert parse("bucket_40mb") == Words(bucket_cap_mb=40)
    assert parse("ddp_default") is None


def test_buckets_may_have_any_whole_number_of_mb() -> None:
    assert [find_config(f"bucket_{size}mb").bucket_cap_mb for size in (1, 7, 37, 3000)] == [1, 7, 37, 3000]
    assert find_config("bf16-bucket_7mb").hook == "bf16"
    assert find_config("graph-bucket_3000mb").graph


def test_several_settings_go_together() -> None:
    config = find_config("bf16-ctas_8-no_static_graph-batched_copy-bucket_40mb")
    assert config.variables == (("NCCL_MAX_CTAS", "8"),)
    assert config.ddp_arguments() == {"bucket_cap_mb": 40, "gradient_as_bucket_view": True, "batched_grad_copy": True}


def test_a_first_bucket_of_its_own_size_comes_in_a_list() -> None:
    """DDP ignores its own setting where it is given a cap."""
    assert find_config("first_bucket_5mb-bucket_40mb").bucket_cap_mb_list == (5, 40)
    with pytest.raises(NotFound, match="bucket_25mb only"):
        find_config("last_bucket_5mb-bucket_40mb")


def test_a_hook_of_the_user_keeps_its_place_in_the_reference() -> None:
    config = find_config("tests.hooks_for_tests:lossless-bucket_40mb")
    assert (config.name, config.reference) == ("own_mean-bucket_40mb", "tests.hooks_for_tests:lossless-bucket_40mb")
    assert find_config(config.reference) == config
    graph = find_config("graph-tests.hooks_for_tests:lossless-bucket_40mb")
    assert graph.reference == "graph-tests.hooks_for_tests:lossless-bucket_40mb"


@pytest.mark.parametrize(
    "name", ["bucket_0mb", "bucket_mb", "bucket_1.5mb", "bucket_-1mb", "powersdg-bucket_25mb", "bf16-bf16-bucket_25mb"]
)
def test_another_name_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(NotFound, match="no config named"):
        find_config(name)
