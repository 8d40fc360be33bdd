"""The run of pytest of a comparison: Ctrl-C at any moment ends it."""

import subprocess
import sys
from pathlib import Path

from tests.command_line import ROOT

# Python calls the function in the parent right after a fork, and drops an exception that is raised there.
INTERRUPTED_AFTER_THE_FORK = """
import os, signal, sys
from pathlib import Path
from fixtures.extras.bisect.measuring import _run

os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    _run(["sleep", "20"], dict(os.environ), Path(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_right_after_the_start_is_not_lost(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED_AFTER_THE_FORK, str(tmp_path / "output")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=15, check=False)
    assert done.stdout == "interrupted\n", done.stderr
