"""The site of the documents: every page is in it, and every link and anchor leads somewhere."""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("material", reason="mkdocs-material is not installed: pip install -e '.[docs]'")
ROOT = Path(__file__).parents[2]


class Links(HTMLParser):
    """The anchors of a page, and the addresses that it links to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.addresses: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attributes if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.addresses |= {given[name] for name in ("href", "src") if name in given}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


def test_every_document_is_a_page(site: Path) -> None:
    documents = {file.relative_to(ROOT / "docs").with_suffix(".html") for file in (ROOT / "docs").rglob("*.md")}
    pages = {file.relative_to(site) for file in site.rglob("*.html")}
    added = {Path(f"{name}.html") for name in ("index", "contributing", "changelog", "license", "404")}
    assert pages == documents | added


def test_every_link_in_the_site_leads_to_a_page_and_an_anchor(site: Path) -> None:
    pages = {page: Links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    for page, links in pages.items():
        for parts in map(urlsplit, links.addresses):
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert target.exists(), f"{page.name} links to {parts.path}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, f"{page.name} links to {parts.geturl()}"


def test_what_github_reads_otherwise_is_read_as_on_github(site: Path) -> None:
    assert (site / "index.html").read_text().count("<ol>") == 1
    assert "<code>--precision fp32|tf32|autocast</code>" in (site / "reference/options.html").read_text()
    assert '<pre class="mermaid">' in (site / "architecture.html").read_text()
