"""The table of thresholds in docs/reference/thresholds.md. ``python -m tests.threshold_table`` writes it anew."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE, PAGE = ROOT / "fixtures/stats/thresholds.py", ROOT / "docs/reference/thresholds.md"
_BEGIN, _END = "<!-- thresholds: written by python -m tests.threshold_table -->", "<!-- end of thresholds -->"


def table() -> str:
    """A row for each constant, a heading for each ``# ---``."""
    rows = []
    meaning = ""
    for line in SOURCE.read_text().splitlines():
        if line.startswith("# --- "):
            rows.append(f"| **{line.removeprefix('# --- ')}** | | |")
        elif line.startswith("# "):
            meaning = f"{meaning} {line.removeprefix('# ')}".strip()
        elif name := re.match(r"([A-Z0-9_]+) = (.+)", line):
            rows.append(f"| `{name[1]}` | {ast.literal_eval(name[2]):g} | {meaning} |")
            meaning = ""
    return "\n".join(["| threshold | value | meaning |", "|---|---|---|", *rows])


def with_table(page: str) -> str:
    """The page with the table as it should be."""
    before, _, rest = page.partition(_BEGIN)
    after = rest.partition(_END)[2]
    return f"{before}{_BEGIN}\n\n{table()}\n\n{_END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
