"""The site of the documents, as ``tox -e docs`` builds it."""

import subprocess
import sys
from pathlib import Path

from tests.command_line import ROOT


def test_the_site_builds_with_the_report_of_a_shipped_record(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    outcome = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    assert "Where a step&#39;s time goes" in (tmp_path / "report/report.html").read_text()
    assert 'src="report.html"' in (tmp_path / "report/index.html").read_text()
