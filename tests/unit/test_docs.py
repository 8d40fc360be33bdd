"""What the documents show is what works."""

import importlib
import re
from pathlib import Path
from typing import get_args

import pytest
from torch.utils.data import default_collate

from fixtures.__main__ import main
from fixtures.extras import EXTRAS, Part
from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import WORKLOADS, find_workload
from fixtures.matrix.worlds import INTERCONNECTS
from fixtures.ranks.loop import optimizer_of
from fixtures.session.options import OPTIONS, add_options
from tests.threshold_table import PAGE, SOURCE, table, with_table

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs/reference"


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def test_the_workload_in_the_docs_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/workload.md").read_text(), re.DOTALL)
    (tmp_path / "my_project").mkdir()
    (tmp_path / "my_project/training.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    workload = find_workload("my_project.training:workload")
    model = workload.model()
    optimizer = optimizer_of(workload, model)
    batch = default_collate([workload.sample() for _ in range(workload.batch_size)])
    losses = []
    for _ in range(5):
        loss = workload.loss(model, *batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_every_question_config_workload_and_interconnect_is_in_the_reference() -> None:
    text = (REFERENCE / "configs.md").read_text()
    questions = {name_of(file) for file in (ROOT / "perf").glob("test_*.py")}
    names = {re.sub(r"\d+mb", "NNmb", name) for name in CONFIGS} | {*WORKLOADS, *INTERCONNECTS} | questions
    assert [name for name in sorted(names) if f"`{name}`" not in text] == [], "add them to docs/reference/configs.md"


def test_the_options_in_the_reference_are_those_of_the_command_line() -> None:
    parser = pytest.Parser(_ispytest=True)
    add_options(parser)
    defaults = {f"--{name.replace('_', '-')}": default for name, default in vars(parser.parse([])).items()}
    del defaults["--file-or-dir"]
    text = (REFERENCE / "options.md").read_text()
    assert [name for name in parser._inidict if f"`{name}`" not in text] == []
    documented = in_tables(text.partition("## Extras")[0])
    of_extras = options_of_extras()
    core = {option.flag for option in OPTIONS}
    assert documented.keys() == core
    assert defaults.keys() - core <= of_extras.keys()
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "fixtures/extras/README.md").read_text(), re.MULTILINE)
    if EXTRAS.keys() >= set(listed) - set(get_args(Part)):  # none was deleted
        assert defaults.keys() - core == of_extras.keys()
    for option, default in defaults.items():
        if isinstance(default, int | float) and not isinstance(default, bool):
            assert (documented | of_extras)[option] == f"{default:g}", option


def options_of_extras() -> dict[str, str]:
    """The options of extras in the reference, which stay there when an extra is deleted, and their defaults."""
    return in_tables((REFERENCE / "options.md").read_text().partition("## Extras")[2].partition("\n## ")[0])


def in_tables(text: str) -> dict[str, str]:
    """Option -> its default, from the tables of the reference."""
    return dict(re.findall(r"^\| `(--[a-z-]+)[^|]*(?:\\\|[^|]*)*\| ((?:[^|\\]|\\\|)*) \|", text, re.MULTILINE))


def test_the_options_of_every_command_are_in_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    def help_of(*command: str) -> str:
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        return capsys.readouterr().out

    commands = re.findall(r"^    ([a-z]+)", help_of(), re.MULTILINE)
    assert "check" in commands
    text = (REFERENCE / "commands.md").read_text()
    for command in commands:
        known = set(re.findall(r"--[a-z-]+", help_of(command))) - {"--help", "--benchmark-json"}
        sections = re.findall(rf"^## {command}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
        assert len(sections) == 1, f"docs/reference/commands.md needs one section: ## {command}"
        assert [option for option in sorted(known) if f"`{option}" not in sections[0]] == [], command


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# Their names for pytest's own options where they are not the option with underscores.
DESTINATIONS = {"--junitxml": "xmlpath", "--collect-only": "collectonly", "--hypothesis-profile": "verbose"}


@pytest.mark.parametrize("document", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]), ids=name_of)
def test_every_link_file_module_and_option_that_a_document_names_exists(
    document: Path, pytestconfig: pytest.Config
) -> None:
    for file, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", document.read_text()):
        target = document.parent / file if file else document
        assert target.exists(), f"{name_of(document)} links to {file}"
        assert not anchor or anchor in anchors(target), f"{name_of(document)} links to {file}#{anchor}"
    text = document.read_text()
    named = re.findall(r"(?<![\w/.(\[-])((?:fixtures|perf|tests|studies|docs)/[\w/.-]+\.(?:py|md|txt|svg))", text)
    assert [file for file in named if not (ROOT / file).exists()] == []
    modules = re.findall(r"python -m ((?:fixtures|tests|studies)[\w.]*)", text)
    assert [module for module in modules if importlib.util.find_spec(module) is None] == []
    commands = re.findall(r"pytest perf[^`\n]*(?:\n +--[^`\n]*)*", text)
    # A script's launch line has options of its own.
    commands = [re.sub(r'"[^"]*"| #.*', "", command) for command in commands]
    for option in set(re.findall(r"(?<!\S)--[a-z-]+", "\n".join(commands))) - options_of_extras().keys():
        # Raises ValueError for an option that pytest does not know.
        pytestconfig.getoption(DESTINATIONS.get(option, option[2:].replace("-", "_")))


def test_the_page_has_every_threshold_with_its_value() -> None:
    assert PAGE.read_text() == with_table(PAGE.read_text()), "write it anew: python -m tests.threshold_table"
    assert table().count("\n| `") == len(re.findall(r"^[A-Z0-9_]+ = ", SOURCE.read_text(), re.M))
