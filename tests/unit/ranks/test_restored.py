"""What ranks import, and what they leave as it was."""

import subprocess
import sys

_IMPORTS = """
import sys
sys.modules["numpy"] = sys.modules["nvtx"] = None
import fixtures.ranks.interleaved, fixtures.ranks.training, fixtures.ranks.script.running
from fixtures.ranks.gradient_error import other_generators_kept, seed_all
with other_generators_kept():
    seed_all(0)
"""


def test_ranks_need_no_numpy() -> None:
    """The other interpreter of ``--against`` needs only torch."""
    ended = subprocess.run([sys.executable, "-c", _IMPORTS], stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 0, ended.stderr
