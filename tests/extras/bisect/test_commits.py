"""The commits between two revisions, and the releases between two requirements."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from fixtures.extras.bisect import commits
from fixtures.extras.bisect.commits import BadHistory, commits_between, releases_between, releases_of

VERSIONS = ["1.0", "1.2", "1.10", "2.0"]


def git(top: Path, *arguments: str) -> str:
    command = ["git", "-C", str(top), "-c", "user.name=A. Author", "-c", "user.email=a@example.com", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Commits v0 to v4; v3 merges a branch of two commits; other is on a branch of its own."""
    top = tmp_path_factory.mktemp("history")
    git(top, "init", "--quiet", "--initial-branch=main")
    for number in range(3):
        git(top, "commit", "--quiet", "--allow-empty", f"--message=change {number}")
        git(top, "tag", f"v{number}")
    git(top, "switch", "--quiet", "--create=other", "v1")
    for number in range(2):
        git(top, "commit", "--quiet", "--allow-empty", f"--message=beside {number}")
    git(top, "switch", "--quiet", "main")
    git(top, "merge", "--quiet", "--no-ff", "--message=merge of \x1b[31m other", "other")
    git(top, "tag", "v3")
    git(top, "commit", "--quiet", "--allow-empty", "--message=change 4")
    git(top, "tag", "v4")
    return top


def test_commits_are_listed_from_the_good_one_on_and_a_merge_is_one(repository: Path) -> None:
    found = commits_between(repository, "v1", "v4")
    assert [commit.name for commit in found] == [git(repository, "rev-parse", f"v{n}^{{commit}}") for n in range(1, 5)]
    assert found[0].subject == "change 1"
    assert found[0].author.startswith("A. Author, 20")
    assert "\x1b" not in found[2].subject
    assert str(found[3]) == f"{found[3].name[:10]} change 4"


@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [
        ("v9", "v4", "--good v9: no such revision in "),
        ("v1", "--all", "--bad --all: no such revision in "),
        ("v4", "main", "are one commit"),
        ("v4", "v1", "--good v4 is not an ancestor of --bad v1: give an older one, git merge-base v4 v1"),
        ("other", "v2", "--good other is not an ancestor of --bad v2"),
    ],
)
def test_revisions_without_a_history_between_them_are_named(repository: Path, good: str, bad: str, says: str) -> None:
    with pytest.raises(BadHistory) as error:
        commits_between(repository, good, bad)
    assert says in str(error.value)


def test_releases_are_those_that_pip_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder, where alone pip looks."""
    for version in VERSIONS:
        info = f"planted_job-{version}.dist-info"
        with zipfile.ZipFile(tmp_path / f"planted_job-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: planted-job\nVersion: {version}\n")
            tags = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            wheel.writestr(f"{info}/WHEEL", tags)
            wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert releases_of("planted-job") == VERSIONS
    with pytest.raises(BadHistory, match="pip finds no releases of no-such-package"):
        releases_of("no-such-package")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip would list."""
    monkeypatch.setattr(commits, "releases_of", lambda package: VERSIONS)


@pytest.mark.usefixtures("listed")
def test_a_history_of_releases_is_in_the_order_of_pips_list() -> None:
    found = releases_between("planted-job==1.0", "planted-job==1.10")
    assert [release.name for release in found] == ["planted-job==1.0", "planted-job==1.2", "planted-job==1.10"]


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [
        ("planted-job==1.1", "planted-job==2.0", "--good planted-job==1.1: pip finds 1.0, 1.2, 1.10, 2.0"),
        ("planted-job==2.0", "planted-job==1.0", "--bad planted-job==1.0 is not newer than --good planted-job==2.0"),
        ("planted-job==2.0", "planted-job==2.0", "--bad planted-job==2.0 is not newer than --good planted-job==2.0"),
        ("planted-job==1.0", "v3", "give two releases of one package, or two git revisions"),
        ("planted-job>=1.0", "planted-job==2.0", "give two releases of one package, or two git revisions"),
    ],
)
def test_releases_that_are_not_there_are_named(good: str, bad: str, says: str) -> None:
    with pytest.raises(BadHistory, match=says):
        releases_between(good, bad)
