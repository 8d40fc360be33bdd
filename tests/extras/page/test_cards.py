"""The cards at the top of the page."""

from fixtures.extras.page.page import page
from tests.extras.page.page_reports import page_report_of
from tests.run_reports import h200


def test_a_first_run_has_no_tick_where_nothing_was_compared() -> None:
    record = h200()
    for benchmark in record["benchmarks"]:
        benchmark["extra_info"]["verdict"] = {"word": "no baseline"}
    card = page(page_report_of(record, history=False)).partition("Did anything get slower?")
    assert card[0].rstrip().endswith('<article class="card plain">\n    <h2>')
    assert "no stored run of 4x-nvidia-h200-nv18 to compare with yet (33 measured tests)" in card[2]
