"""The message of a failed launch."""

from pathlib import Path

import pytest

from fixtures.launch.faults import RankFailure, RankFault, last_words
from fixtures.launch.processes import end_of


def fault(rank: int, message: str, detail: str = "") -> RankFault:
    return RankFault(rank=rank, kind="exception", step=-1, phase="starting", message=message, detail=detail)


@pytest.mark.parametrize("text", ["no data", "no data:\ntried a\ntried b\n", "at (a, line 1) [rank0]: \\d+"])
def test_an_errors_text_is_said_once(text: str) -> None:
    detail = f"Traceback\n  File a\nmy.package.Missing: {text}\nran in /tmp\n"
    failure = RankFailure([fault(0, f"raised Missing: {text}", detail)], "as_written")
    assert str(failure).count(text.split("\n")[-1] or "tried b") == 1
    assert str(failure).endswith("Traceback\n  File a\nran in /tmp")


def test_ranks_that_differ_by_their_numbers_fail_in_the_same_way() -> None:
    failure = RankFailure([fault(rank, f"raised Missing: on rank {rank}") for rank in (0, 1)], "as_written")
    assert str(failure).endswith("also rank 1, in the same way")


def test_the_log_of_a_process_that_cpp_ended_begins_with_its_exception(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    frames = [f"frame #{n}: c10::something" for n in range(40)]
    log.write_text("\n".join(["epoch 1", "terminate called after throwing an instance", "  what():  no NaN", *frames]))
    kept = end_of(log).splitlines()
    assert kept[:2] == ["terminate called after throwing an instance", "  what():  no NaN"]
    assert last_words(end_of(log)) == ": no NaN"
    log.write_text("\n".join(frames))
    assert end_of(log).splitlines()[-1] == frames[-1]
