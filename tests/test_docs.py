"""What the documents show is what works."""

import importlib
import re
from configparser import ConfigParser
from pathlib import Path

import pytest
from torch.utils.data import default_collate

from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import find_workload
from fixtures.ranks.software import RECORDED
from tests.test_comparison_and_table import DDP, lines

ROOT = Path(__file__).parent.parent


def test_the_workload_in_the_docs_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/workloads.md").read_text(), re.DOTALL)
    (tmp_path / "my_project").mkdir()
    (tmp_path / "my_project/training.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    workload = find_workload("my_project.training:workload")
    model = workload.model()
    optimizer = workload.optimizer(model.parameters())
    batch = default_collate([workload.sample() for _ in range(workload.batch_size)])
    losses = []
    for _ in range(5):
        loss = workload.loss(model, *batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_every_file_of_the_rooms_is_in_the_architecture() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    files = {file.name for file in (ROOT / "fixtures").rglob("*.py") if file.name != "__init__.py"}
    files -= {file.name for file in (ROOT / "fixtures/ranks/equivalence/upstream").glob("*.py")}
    assert [name for name in sorted(files) if f"`{name}`" not in text] == []


def in_tox() -> ConfigParser:
    tox = ConfigParser()
    tox.read(ROOT / "tox.ini")
    return tox


def test_tox_passes_what_a_record_keeps_and_where_a_workload_is() -> None:
    passed = in_tox()["testenv"]["pass_env"].split(", ")
    assert {f"{beginning}*" for beginning in RECORDED} | {"PYTHONPATH"} <= set(passed)


def test_the_ci_runs_the_tests_of_the_readme_and_then_what_tox_has() -> None:
    (tests,) = re.findall(r"\.venv/bin/(pytest tests)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    tox = in_tox()
    lint, types = (tox[f"testenv:{name}"]["commands"].strip().splitlines() for name in ("lint", "types"))
    assert re.findall(r"^check (.+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE) == [tests, *lint, *types]


def test_every_config_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    names = {re.sub(r"\d+mb", "NNmb", name) for name in CONFIGS}
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []


def test_the_table_in_the_readme_has_the_columns_that_are_printed() -> None:
    readme = (ROOT / "README.md").read_text().splitlines()
    names = next(number for number, line in enumerate(readme) if line.startswith("config  "))
    _, _, *printed = lines(DDP)
    assert [line.split() for line in readme[names : names + 2]] == [line.split() for line in printed[:2]]


def test_every_link_between_documents_leads_somewhere() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
