"""The options of ``--train``, and which tests it collects."""

import pytest

from tests.forked import pytest as forked_pytest

SIGNS = "tests.extras.loss.learnable:half_dropped"


def collected(*arguments: str) -> list[str]:
    return forked_pytest("-p", "no:cacheprovider", "perf", "--collect-only", "-q", *arguments).test_ids


def test_the_loss_is_compared_on_request_after_all_that_is_measured() -> None:
    assert [test for test in collected("-k", "bf16") if "loss" in test] == []
    with_train = collected("-k", "2cpu-bf16", "--train=300")
    assert [test.partition("::")[2] for test in with_train if "loss" in test] == ["test_loss[vit_tiny-2cpu-bf16]"]
    assert "loss" in with_train[-1]


def test_a_script_and_a_hook_of_the_users_have_the_test_too() -> None:
    found = collected("--script=tests/extras/loss/learnable.py", f"--hook={SIGNS}", "--train=300")
    assert [test.rpartition("2cpu-")[2] for test in found if "test_loss" in test] == ["bf16]", "half_dropped]"]


def test_other_hooks_are_compared_where_k_names_them() -> None:
    found = [test for test in collected("-k", "powersgd_rank4", "--train=300") if "test_loss" in test]
    assert [test.partition("::")[2] for test in found] == ["test_loss_on_request[vit_tiny-2cpu-powersgd_rank4]"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--train=19",), "--train must be 20 or more, got 19"),
        (("--train=300", "--quick"), "leave out --quick"),
    ],
)
def test_a_command_line_that_compares_nothing_is_refused(given: tuple[str, ...], said: str) -> None:
    outcome = forked_pytest("perf", *given)
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert said in outcome.errors
