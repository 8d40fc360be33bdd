"""A revision of a project whose tests name the code themselves."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.extras.upgrades.other_build import (
    OwnCode,
    Revision,
    _moved,
    checked_out,
    find_revision,
)
from fixtures.launch.other_side import BadInterpreter
from tests.own_repository import git


@pytest.fixture
def revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Revision:
    """A revision of a repository with one module that is committed and one that is not."""
    (tmp_path / "committed_module.py").touch()
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        git(tmp_path, *command)
    (tmp_path / "new_module.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return find_revision("HEAD", OwnCode(), tmp_path)


def test_it_is_found_without_code_on_the_command_line(revision: Revision, tmp_path: Path) -> None:
    assert revision.repository == tmp_path
    revision.check_module("committed_module")


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("new_module", r"^new_module is not in HEAD \([0-9a-f]{10}\) of "),
        ("pytest", "^pytest is .*__init__.py, which is not in the repository of HEAD"),
    ],
)
def test_a_module_that_it_does_not_have_is_reported(revision: Revision, module: str, says: str) -> None:
    with pytest.raises(BadInterpreter, match=says):
        revision.check_module(module)


def test_a_virtual_environment_in_the_repository_is_that_of_both_sides(
    revision: Revision, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    packages = str(tmp_path / ".venv/lib/site-packages")
    assert _moved(packages, tmp_path, Path("/worktree")) == packages
    assert _moved(str(tmp_path / "src"), tmp_path, Path("/worktree")) == "/worktree/src"


def test_why_git_does_not_write_the_files_is_reported(revision: Revision, tmp_path: Path) -> None:
    says = rf"git cannot write the files of HEAD \(0123456789\) of {tmp_path.name}: fatal: Not a valid .+"
    with pytest.raises(BadInterpreter, match=says), checked_out(replace(revision, commit="0123456789")):
        pass
