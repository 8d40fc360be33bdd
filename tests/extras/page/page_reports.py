"""Reports as the page shows them: with the stored history, and with steps of ranks."""

from pathlib import Path

from fixtures.extras.page.page_report import PageReport, StepOfRanks, nights_until, step_of_ranks
from fixtures.records.files import checked
from tests.recordings import ddp_steps, read_chrome
from tests.run_reports import BASELINES
from tests.saved_records import Record


def page_report_of(record: Record, *, steps: dict[str, StepOfRanks] | None = None, history: bool = True) -> PageReport:
    typed = checked(record)
    nights = nights_until(typed, [BASELINES] if history else [])
    return PageReport(record=typed, nights=nights, steps=steps or {})


def two_ranks(folder: Path) -> StepOfRanks:
    """A step of two ranks, from traces."""
    files = [ddp_steps(rank).chrome(folder / f"rank{rank}.json") for rank in range(2)]
    return step_of_ranks([read_chrome(file) for file in files])
