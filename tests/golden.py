"""Everything that the suite says of the shipped records, as digests: ``tests/frozen/golden.json``.

Of each record the summary, the table with all columns, and its JSON written again; and the output of ``backtest``. A
change of the house leaves each of them as it is. ``python -m tests.golden FOLDER`` writes the texts into a folder, to
compare those of two commits, and the digests anew.
"""

import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from hashlib import sha256
from itertools import chain
from pathlib import Path

from fixtures.__main__ import main
from fixtures.extras.page.markdown import markdown
from fixtures.matrix.recorded import json_of
from fixtures.records.files import checked, read_record
from fixtures.report.columns import table
from fixtures.report.config_columns import COLUMNS, TRANSFER_COLUMNS
from fixtures.report.rows import Report
from tests.command_line import ROOT

GOLDEN = ROOT / "tests/frozen/golden.json"
# Whose records are replayed by the test; a replay of all takes a minute.
ONE_INSTANCE = "2x-nvidia-h200-nv18-shm"
_BASELINES = ROOT / "baselines"


def golden(texts: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Name of a text -> its digest."""
    return {name: sha256(text.encode()).hexdigest()[:16] for name, text in texts}


def texts_of_records() -> Iterator[tuple[str, str]]:
    for file in sorted(_BASELINES.glob("*/*.json")):
        name, record = str(file.relative_to(_BASELINES)), checked(read_record(file))
        report = Report(record=record)
        yield f"{name} json", json.dumps(json_of(record), indent=1)
        yield f"{name} summary", markdown(report)
        rows = [row for rows in report.tables.values() for row in rows]
        lines = [*table(COLUMNS, rows, verbose=True, width=500), *table(TRANSFER_COLUMNS, report.transfers, width=500)]
        yield f"{name} table", "\n".join(lines)


def texts_of_replays(*arguments: str) -> Iterator[tuple[str, str]]:
    """``backtest`` with these arguments, with a planted slowdown, and with two records."""
    for more in ((), ("--plant=2",), ("--records=2",)):
        with redirect_stdout(io.StringIO()) as output:
            main(["backtest", f"--storage={_BASELINES}", *more, *arguments])
        yield " ".join(("backtest", *more, *arguments)), output.getvalue()


if __name__ == "__main__":
    texts = dict(chain(texts_of_records(), texts_of_replays(), texts_of_replays(ONE_INSTANCE)))
    for name, text in texts.items():
        Path(sys.argv[1], name.replace("/", " ")).write_text(text)
    GOLDEN.write_text(json.dumps(golden(sorted(texts.items())), indent=1) + "\n")
