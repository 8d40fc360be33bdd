"""The page of a report in a real browser: chromium, opened from a file."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from fixtures.extras.page.page import page as html_of
from fixtures.extras.page.page_report import PageReport
from tests.extras.page.test_charts import page_report_of, two_ranks
from tests.run_reports import DDP, HOSTILE, h200, hostile, large, profiled, slower, with_transfers

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")

# Waits until every chart that is shown is drawn, wherever it is on the page.
DRAW_ALL = """async () => {
    for (const chart of document.querySelectorAll("figure:not([hidden]) .chart"))
        while (!chart.hasAttribute("data-drawn")) await new Promise((done) => setTimeout(done, 10));
}"""
MARKS = """() => Object.fromEntries([...document.querySelectorAll("figure:not([hidden])")].map((figure) => [
    figure.dataset.chart,
    figure.querySelectorAll(".scatterlayer .point, .scatterlayer .js-line, .barlayer .point").length,
]))"""
CELLS = """(title) => {
    const heads = [...document.querySelectorAll("[data-table=configs] thead th")];
    const column = heads.findIndex((head) => head.innerText.startsWith(title));
    const rows = [...document.querySelectorAll("[data-table=configs] tbody tr")];
    return rows.filter((row) => !row.hidden).map((row) => row.cells[column].innerText);
}"""

# Verdicts that are not within the box of their table.
HIDDEN_VERDICTS = """() => [...document.querySelectorAll(".verdict")].filter((verdict) =>
    verdict.getBoundingClientRect().right > verdict.closest(".box").getBoundingClientRect().right
).map((verdict) => verdict.innerText)"""

CUT_CHARTS = """() => [...document.querySelectorAll("figure:not([hidden]) .scroll")].filter((box) =>
    box.scrollWidth > box.clientWidth
).map((box) => box.parentElement.dataset.chart)"""


@dataclass(kw_only=True)
class Opened:
    """A page, the messages of its console, and the addresses that it requests."""

    page: Page
    console: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def column(self, title: str) -> list[str]:
        """The cells of a column of the configs, in the rows that are shown."""
        cells: list[str] = self.page.evaluate(CELLS, title)
        return cells

    # Any: JSON.
    def run(self, script: str) -> Any:
        return self.page.evaluate(script)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Tests in containers run as root, for whom chromium has no sandbox.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser: Browser, folder: Path, report: PageReport) -> Opened:
    (folder / "report.html").write_text(html_of(report))
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(120_000)  # on a busy machine a page of 5 MB takes half a minute
    result = Opened(page=page)
    page.on("console", lambda message: result.console.append(message.text))
    page.on("pageerror", lambda error: result.console.append(str(error)))
    page.on("request", lambda request: result.asked.append(request.url))
    page.goto((folder / "report.html").as_uri())
    return result


@pytest.fixture(scope="module")
def night(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """A whole night with everything that the page can show."""
    folder = tmp_path_factory.mktemp("page")
    report = page_report_of(with_transfers(slower(profiled(h200()))), steps={DDP: two_ranks(folder)})
    result = opened(browser, folder, report)
    yield result
    result.page.close()


def test_every_chart_is_drawn_nothing_complains_and_no_network_is_asked(night: Opened) -> None:
    night.run(DRAW_ALL)
    marks = night.run(MARKS)
    assert marks.keys() >= {"bucket-sizes", "gradient-errors", "stored-nights", "scaling-0", "transfers-0"}
    assert marks.keys() >= {"parts-of-step", "launch-times", "timeline-0"}
    assert [name for name, count in marks.items() if count == 0] == []
    assert night.console == []
    assert [url for url in night.asked if not url.startswith(("data:", "blob:"))] == [night.page.url]
    # No toolbar lies over the legends.
    night.page.locator("figure[data-chart=bucket-sizes] .chart").hover()
    assert night.page.locator(".modebar").count() == 0


def test_the_filter_keeps_the_rows_with_all_words(night: Opened) -> None:
    night.page.get_by_label("Filter").first.fill("BF16 bucket_10mb")
    assert night.column("config") == ["bf16-bucket_10mb"]
    assert night.page.locator("[data-count=configs]").inner_text() == "1 of 28"
    night.page.get_by_label("Filter").first.fill("")
    assert len(night.column("config")) == 28


def test_a_header_sorts_by_numbers_down_and_up_with_the_keyboard_too(night: Opened) -> None:
    head = night.page.locator("table[data-table=configs] thead th", has_text="limit %")
    head.locator("button").click()
    shares = [float(cell) for cell in night.column("of\nlimit %") if cell]
    assert shares == sorted(shares)
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert [float(cell) for cell in night.column("of\nlimit %") if cell] == sorted(shares, reverse=True)
    assert night.column("of\nlimit %")[-1] == ""  # of one device, which has no limit


def test_the_charts_are_those_of_the_chosen_world(night: Opened) -> None:
    assert night.page.locator("figure[data-chart=bucket-sizes]").is_visible()
    night.page.get_by_label("Charts of").select_option("vit_l_32 1gpu native")
    assert not night.page.locator("figure[data-chart=bucket-sizes]").is_visible()
    night.run(DRAW_ALL)
    assert min(night.run(MARKS).values()) > 0
    night.page.get_by_label("Charts of").select_option("vit_l_32 4gpu native")


def test_the_first_key_leads_past_the_header(night: Opened) -> None:
    night.run("() => { document.activeElement.blur(); location.hash = '#top'; }")
    night.page.keyboard.press("Tab")
    assert night.run("() => document.activeElement.textContent") == "Skip to the results"
    night.page.keyboard.press("Enter")
    assert night.run("() => document.activeElement.id") == "main"


def brightness(opened: Opened, selector: str, of: str) -> int:
    """0 (black) to 255."""
    colour = opened.run(f"() => getComputedStyle(document.querySelector({selector!r})).{of}")
    return sum(int(float(part)) for part in colour.partition("(")[2].rstrip(")").split(",")[:3]) // 3


def test_the_page_is_dark_or_light_as_the_system_is(night: Opened) -> None:
    night.page.emulate_media(color_scheme="dark")
    night.run(DRAW_ALL)
    assert brightness(night, "body", "backgroundColor") < 40
    assert brightness(night, ".xtick text", "fill") > 200
    night.page.emulate_media(color_scheme="light")
    night.run(DRAW_ALL)
    assert brightness(night, "body", "backgroundColor") == 255
    assert brightness(night, ".xtick text", "fill") < 60


@pytest.mark.parametrize("width", [1280, 400, 360])
def test_names_verdicts_and_whole_charts_are_seen_without_scrolling_sideways(night: Opened, width: int) -> None:
    night.page.set_viewport_size({"width": width, "height": 800})
    night.run(DRAW_ALL)
    assert night.run("() => document.documentElement.scrollWidth") == width
    assert night.run(HIDDEN_VERDICTS) == []
    assert night.run(CUT_CHARTS) == []


def test_hostile_text_is_shown_and_does_nothing(browser: Browser, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, page_report_of(hostile(profiled(h200())), history=False))
    page.run(DRAW_ALL)
    assert page.run("() => [typeof window.hurt, document.images.length]") == ["undefined", 0]
    assert page.console == []
    assert HOSTILE.partition("\n")[0] in page.column("config")[0]
    assert page.run("() => document.querySelectorAll('a[href^=javascript], main script').length") == 0
    page.page.close()


def test_500_tests_of_60_steps_are_under_10_mb(browser: Browser, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, page_report_of(large(500, 60), history=False))
    assert (tmp_path / "report.html").stat().st_size < 10e6
    assert len(page.run("() => [...document.querySelectorAll('[data-table=configs] tbody tr')]")) == 500
    page.page.close()
