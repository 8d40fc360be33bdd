"""A run's folder: a run names a folder that cannot be used."""

import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.launch import session
from fixtures.launch.faults import RankFailure
from fixtures.launch.session import BadTemporaryFolder, Session


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """TMPDIR."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_that_cannot_be_used_is_reported(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(session, "_NEEDED_BYTES", 10**18)
    with pytest.raises(BadTemporaryFolder, match=r"cannot be used: [\d.]+ MB are free, a run needs 1000000000000 MB; "):
        Session()
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/\udcff")
    with pytest.raises(BadTemporaryFolder, match=r"^the temporary folder /tmp/\\udcff cannot be used: its name is not"):
        Session()


def test_a_folder_that_is_removed_meanwhile_is_the_reason(folder: Path) -> None:
    with closing(Session()) as present:
        assert present.problem() is None
        present.folder.rename(folder / "elsewhere")
        reason = present.problem()
    assert reason == f"{present.folder} was removed while the run used it: keep TMPDIR as it is until the run ends"
    assert str(RankFailure([], "starting the ranks", reason)) == f"starting the ranks: {reason}"
