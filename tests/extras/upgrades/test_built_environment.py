"""Environments with another release of a package, built by pip from a folder of wheels."""

import fcntl
import shutil
import subprocess
import threading
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest
from uv import find_uv_bin

from fixtures.extras.upgrades import built_environment
from fixtures.extras.upgrades.built_environment import NotBuilt, built, is_requirement, requirements_of
from fixtures.launch.other_side import ENVIRONMENTS, environments


@pytest.fixture(params=["pip", "uv"])
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A folder of wheels, which is all that pip finds, or uv."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    if request.param == "uv":
        monkeypatch.setattr(built_environment, "_uv", find_uv_bin)
    monkeypatch.setenv(ENVIRONMENTS, str(tmp_path / "environments"))
    for version in ("1.0", "2.0"):
        wheel(folder, "tinypackage", version)
    return folder


def wheel(folder: Path, name: str, version: str, requires: str = "") -> None:
    info = f"{name}-{version}.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    about += f"Requires-Dist: {requires}\n" if requires else ""
    with ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", f"version = {version!r}\n")
        file.writestr(f"{info}/METADATA", about)
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


def printed(python: Path, code: str) -> str:
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_it_has_the_release_and_behind_it_all_that_is_here(wheels: Path) -> None:
    said: list[str] = []
    python = built(requirements_of("tinypackage==2.0"), said.append)
    assert printed(python, "import tinypackage; print(tinypackage.version)") == "2.0"
    assert printed(python, "import pytest; print(pytest.__version__)") == pytest.__version__
    assert [line.partition(" with ")[2].partition(":")[0] for line in said] == ["tinypackage 2.0"]
    assert built(requirements_of("tinypackage==2.0"), said.append) == python
    assert len(said) == 1


def test_torch_keeps_its_variant_if_the_index_has_it_and_torchvision_comes_with_it(wheels: Path) -> None:
    variant = metadata.version("torch").partition("+")[2]
    same, other = (f"2.13.0{f'+{one}' if one else ''}" for one in (variant, "other"))
    wheel(wheels, "torch", other)
    wheel(wheels, "torchvision", "0.28.0", requires="torch==2.13.0")
    said: list[str] = []
    python = built(["torch==2.13.0"], said.append)
    assert (
        said[0]
        == f"torch {other} is another variant than torch {metadata.version('torch')} here, of which the index has none"
    )
    assert printed(python, "import torch, torchvision; print(torch.version, torchvision.version)") == f"{other} 0.28.0"
    shutil.rmtree(environments())
    wheel(wheels, "torch", same)
    assert printed(built(["torch==2.13.0"], print), "import torch; print(torch.version)") == same


def test_what_a_killed_run_left_is_built_anew(wheels: Path) -> None:
    python = built(["tinypackage==1.0"], print)
    folder = python.parents[1]
    (folder / "complete.json").unlink()
    (folder / "left").touch()
    assert built(["tinypackage==1.0"], print) == python
    assert not (folder / "left").exists()


def test_a_second_run_waits_for_the_one_that_builds(wheels: Path) -> None:
    folder = built(["tinypackage==1.0"], print).parents[1]
    said, waits = list[str](), threading.Event()

    def say(text: str) -> None:
        said.append(text)
        waits.set()

    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=built, args=(["tinypackage==1.0"], say))
        second.start()
        assert waits.wait(60)
    second.join()
    assert said == [f"waiting for another run, which builds {folder} ..."]


def test_a_package_that_must_change_is_named(wheels: Path) -> None:
    wheel(wheels, "needy", "1.0", requires="tinypackage==2.0")
    wheel(wheels, "iniconfig", "0.1")
    wheel(wheels, "needier", "1.0", requires="iniconfig==0.1")
    said: list[str] = []
    python = built(["needier==1.0"], said.append)
    assert said[0].startswith("iniconfig changes too, from ")
    assert printed(python, "import iniconfig; print(iniconfig.version)") == "0.1"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tinypackage==9", " does not install tinypackage==9: "),
        ("tinypackage==1.0 --index-url=https://me:secret@host", "no release of a package"),
        ("tinypackage@https://me:secret@host/t.whl", "no release of a package"),
        ("torch==2.0.1", "torch==2.0.1 is too old: ranks run in torch 2."),
    ],
)
def test_what_cannot_be_built_is_refused_in_one_line(wheels: Path, text: str, says: str) -> None:
    with pytest.raises(NotBuilt) as refused:
        built(requirements_of(text), print)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)
    assert list(environments().glob("*/")) == []


def test_an_environment_that_does_not_fit_is_not_begun(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(built_environment, "_SPARE", 1e12)
    wheel(wheels, "iniconfig", "0.1")  # uv does not say how large a wheel is, so the one here counts
    with pytest.raises(NotBuilt, match=rf"iniconfig==0\.1 needs \d+\.\d GB, .* has \d+\.\d: set {ENVIRONMENTS}"):
        built(["iniconfig==0.1"], print)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("torch==2.13.0", True), ("torch<2.14", True), ("v1.2", False), ("HEAD~1", False), ("torch @ https://x", True)],
)
def test_a_release_is_told_from_a_revision(text: str, is_one: bool) -> None:
    assert is_requirement(text) is is_one
