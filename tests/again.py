"""``python -m tests.again``: run the failed tests of the last command once more, if all of them compare times.

In ``pytest tests`` they share the cores with other tests; here nothing else runs. The exit code is 1 if another test
failed, or if one fails again.
"""

import json
import subprocess
import sys
from pathlib import Path

from tests.sharing_out import TIMES

_FAILED = Path(__file__).parents[1] / ".pytest_cache" / "v" / "cache" / "lastfailed"


if __name__ == "__main__":
    failed = list(json.loads(_FAILED.read_text())) if _FAILED.exists() else []
    command = [sys.executable, "-m", "pytest", "-n", "0", *failed]
    only_times = failed and all(test.startswith(TIMES) for test in failed)
    sys.exit(subprocess.run(command, check=False).returncode if only_times else 1)
