"""The user's files that a process has loaded, with the hash of what it loaded."""

import importlib.util
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from fixtures.launch import own_sources
from fixtures.launch.own_sources import content_hash, note_loaded


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(SourceFileLoader, "get_code", SourceFileLoader.get_code)
    monkeypatch.setattr(own_sources, "LOADED", {})
    note_loaded()
    return own_sources.LOADED


def test_a_module_of_the_user_is_noted_as_it_was_loaded(
    loaded: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "a_module_of_the_user.py"
    file.write_text("x = 1\n")
    assert importlib.import_module("a_module_of_the_user").x == 1
    file.write_text("x = 2\n")
    assert loaded == {str(file): sha256(b"x = 1\n").hexdigest()}


def test_the_suite_and_installed_packages_are_not_noted(loaded: dict[str, str]) -> None:
    for module in ("fixtures.stats.stopping_rule", "tabulate", "colorsys"):
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.loader.get_code(module) is not None  # type: ignore[union-attr]
    assert loaded == {}


def test_a_file_that_is_gone_has_no_hash(tmp_path: Path) -> None:
    assert content_hash(tmp_path / "gone.py") == ""
