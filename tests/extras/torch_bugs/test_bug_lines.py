"""The lines of a run on torch's known bugs, and the reproducer of each."""

import inspect

import pytest

from fixtures.extras.torch_bugs.plugin import bug_lines
from fixtures.extras.torch_bugs.upstream_bugs import UPSTREAM_BUGS
from fixtures.matrix.lookup import load_any

BUG = UPSTREAM_BUGS["powersgd_nan"]


def test_known_bugs_that_are_there_are_counted_and_with_v_have_what_goes_wrong_and_what_to_do_instead() -> None:
    assert bug_lines([(BUG, True)]) == [
        "1 of 1 known DDP bugs are in this build of torch (-v: workarounds; docs/reference/torch-bugs.md)"
    ]
    assert bug_lines([(BUG, False)], verbose=True) == ["0 of 1 known DDP bugs are in this build of torch"]
    heading, *bug = bug_lines([(BUG, True)], verbose=True)
    assert heading == "1 of 1 known DDP bugs are in this build of torch; workarounds:"
    says = f"powersgd_nan (wrong numbers, seen in torch 2.11 to 2.15): {BUG.goes_wrong} -> {BUG.instead}"
    assert " ".join(line.strip() for line in bug) == says


# torch.distributed.optim of torch 2.11 warns about itself when it is imported.
@pytest.mark.filterwarnings("ignore:.torch.jit.* is deprecated:DeprecationWarning")
@pytest.mark.parametrize("bug", UPSTREAM_BUGS)
def test_every_known_bug_has_a_reproducer(bug: str) -> None:
    reproducer = load_any(f"fixtures.extras.torch_bugs.reproducers:{UPSTREAM_BUGS[bug].reproducer}")
    assert list(inspect.signature(reproducer).parameters) == ["ctx", "avoid"]
