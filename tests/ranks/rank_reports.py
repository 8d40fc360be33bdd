"""Code inside a rank for test_upstream_reports.py: the script of a report."""

import re
from pathlib import Path
from typing import Any

import fixtures
from fixtures.ranks.context import RankContext

REPORTS = Path(fixtures.__file__).parents[1] / "docs" / "upstream"


def shows(ctx: RankContext, *, report: str) -> bool:
    """Return what the function ``bug`` of the report's script returns over the group that this rank is in."""
    (script,) = re.findall(r"```python\n(.*?)```", (REPORTS / f"{report}.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": report}
    exec(script, names)
    return bool(names["bug"](ctx.rank))
