"""What mkdocs.yml needs beyond its settings: pages of files outside docs/, the report of a record of baselines/, and
Markdown as GitHub reads it.

To make a page of another file at the top, add it to ``PAGES``.
"""

import posixpath
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent
# File at the top of the repository -> its page.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "LICENSE": "license.md",
}
# The record whose report is a page.
RECORD = "baselines/2x-nvidia-h100-80gb-hbm3-nv18/0003_h100_w6.json"
_REPORT = """# A real report

`python -m fixtures report {record}` writes [this page](report.html) of two H100s.

<iframe src="report.html" title="The report" style="width: 100%; height: 85vh; border: 1px solid #8888"></iframe>
"""
_LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of files outside docs/, and the report."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text()
        content = text if name.endswith(".md") else f"# {name.title()}\n\n```\n{text}```\n"
        files.append(File.generated(config, page, content=content))
    files.append(File.generated(config, "report/index.md", content=_REPORT.format(record=RECORD)))
    files.append(File.generated(config, "report/report.html", content=_report()))
    return files


def _report() -> bytes:
    """The page of the record, made by the command that the site shows."""
    with TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "fixtures", "report", RECORD, "-o", folder],
            cwd=ROOT,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return (Path(folder) / "report.html").read_bytes()


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links between the pages of the site, and what Python-Markdown reads otherwise than GitHub."""
    names = {page: name for name, page in PAGES.items()}
    source = names.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return _as_on_github(_LINK.sub(lambda link: _to_page(link[1], source, page.file.src_uri), markdown))


def _to_page(link: str, source: str, page: str) -> str:
    """A link in a file of the repository as one from its page. A link to no page stays, and mkdocs warns of it."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    if target not in PAGES and not target.startswith("docs/"):
        return link
    return posixpath.relpath(PAGES.get(target, target.removeprefix("docs/")), posixpath.dirname(page) or ".")


def _as_on_github(markdown: str) -> str:
    """Blocks inside of list items are indented by four, and ``\\|`` in a table's code is a bar."""
    lines, in_item, fence = [], False, ""
    for line in markdown.splitlines():
        text = line.lstrip()
        indent = len(line) - len(text)
        if text and not indent and not fence:
            in_item = re.match(r"(?:[-*]|\d+\.) ", text) is not None
        if not indent and text.startswith("```"):
            fence = "" if fence else "```"
        if in_item and 2 <= indent <= 3 and not fence:
            line = f"    {text}"
        if text.startswith("|") and not fence:
            line = re.sub(r"`[^`]*`", lambda code: code[0].replace(r"\|", "|"), line)
        lines.append(line)
    return "\n".join(lines)
