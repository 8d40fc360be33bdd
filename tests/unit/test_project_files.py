"""The files around the code name the same versions and the same checks."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
(OLDEST_TORCH,) = (need.removeprefix("torch>=") for need in PROJECT["dependencies"] if need.startswith("torch>="))
SUPPORT = (ROOT / "docs/reference/support.md").read_text()


def test_the_supported_versions_are_those_that_are_tested() -> None:
    matrix = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["tests"]["strategy"]["matrix"]
    assert f"| Python | {', '.join(matrix['python'])} |" in SUPPORT
    assert f"| torch | {OLDEST_TORCH} and newer |" in SUPPORT
    needs = dict(re.findall(r"^(pytest[\w-]*).*>=([\d.]+)$", "\n".join(PROJECT["dependencies"]), re.MULTILINE))
    assert f"| pytest, pytest-benchmark | {needs['pytest']}, {needs['pytest-benchmark']} and newer |" in SUPPORT
