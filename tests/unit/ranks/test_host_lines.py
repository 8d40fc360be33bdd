"""The line of the user's code in which steps spend their time."""

from fixtures.ranks.host_time import Place, Stack, lines_of


def at(line: int) -> Place:
    return at.__code__, line


def stack(*lines: int) -> Stack:
    """A forward pass; the innermost line first."""
    return "forward", tuple(at(line) for line in lines), None, True


def test_longer_steps_are_named_by_the_outermost_line_that_the_others_lack() -> None:
    model, train, evaluate, calls_evaluate = 90, 20, 30, 25
    usual = {stack(model, train): [0.1] * 9}
    longer = {stack(model, train): [0.1] * 3, stack(model, evaluate, calls_evaluate): [0.1] * 9}
    found = {line.partition(" ")[0]: len(times) for (_, line), times in lines_of(longer, usual).items()}
    assert found == {"test_host_lines.py:90": 3, "test_host_lines.py:25": 9}
