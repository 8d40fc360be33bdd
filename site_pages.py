"""What mkdocs.yml needs beyond its settings: pages of files outside docs/, and Markdown as GitHub reads it.

To make a page of another file at the top, add it to ``PAGES``.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent
# File at the top of the repository -> its page.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "license.md",
}
_LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of files outside docs/."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text()
        content = text if name.endswith(".md") else f"# {name.title()}\n\n```\n{text}```\n"
        files.append(File.generated(config, page, content=content))
    return files


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
