"""Code inside a rank for test_upstream_reports.py: the script of a report."""

import re
import sys
from pathlib import Path
from types import ModuleType

import fixtures
from fixtures.ranks.context import RankContext

REPORTS = Path(fixtures.__file__).parents[1] / "docs" / "upstream"


def shows(ctx: RankContext, *, report: str) -> bool:
    """Return what the function ``bug`` of the report's script returns over the group that this rank is in."""
    (script,) = re.findall(r"```python\n(.*?)```", (REPORTS / f"{report}.md").read_text(), re.DOTALL)
    module = sys.modules[report] = ModuleType(report)  # torch.compile of 2.11 imports it by its name
    try:
        exec(script, vars(module))
        return bool(module.bug(ctx.rank))
    finally:
        del sys.modules[report]
