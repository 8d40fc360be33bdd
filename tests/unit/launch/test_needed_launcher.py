"""Which scripts cannot run without a launcher, by their source alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.launch.needed_launcher import needed_of_a_launcher

READS = [
    "import os\nrank = int(os.environ['LOCAL_RANK'])",
    "from os import environ\nenviron['OMP_NUM_THREADS'] = '1'\nrank, size = environ['RANK'], environ['WORLD_SIZE']",
    "import os\ndef rank(): return int(os.environ['RANK'])\nif __name__ == '__main__':\n    print(rank())",
    "from torch import distributed as dist\ndef main():\n    dist.init_process_group('gloo')\nmain()",
]
DOES_NOT = [
    "import os\nrank = int(os.environ.get('RANK', 0))",
    "import os\nif 'RANK' in os.environ:\n    rank = int(os.environ['RANK'])",
    "import os\nrank = int(os.environ['RANK']) if os.getenv('RANK') else 0",
    "import os\ntry:\n    rank = os.environ['RANK']\nexcept KeyError:\n    rank = 0",
    "import os\nos.environ['RANK'] = '0'\nrank = os.environ['RANK']",
    "import os\nfor name in ['RANK']: os.environ[name] = '0'\nrank = os.environ['RANK']",
    "import os\ndef rank(): return int(os.environ['RANK'])",
    "import os\ndef main():\n    return 1\n    os.environ['RANK']\nmain()",
    "import os, sys\ndef alone(): sys.exit(0)\nalone()\nos.environ['RANK']",
    "import os\ndef main(alone):\n    if alone: return\n    os.environ['RANK']\nmain(True)",
    "import os, subprocess\nfrom contextlib import suppress\nwith suppress(KeyError): os.environ['RANK']",
    "from torch import distributed as dist\n"
    "dist.init_process_group('gloo', init_method='tcp://127.0.0.1:0', rank=0, world_size=1)",
]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "train.py"


@pytest.mark.parametrize("source", READS)
def test_a_script_that_reads_it_in_any_case_does_not_run(source: str, script: Path) -> None:
    script.write_text(source)
    assert needed_of_a_launcher(script) is not None
    assert run(script) != 0


@pytest.mark.parametrize("source", DOES_NOT)
def test_a_script_that_runs_is_never_left_out(source: str, script: Path) -> None:
    script.write_text(source)
    assert needed_of_a_launcher(script) is None
    assert run(script) == 0


def run(script: Path) -> int:
    alone = {name: value for name, value in os.environ.items() if name not in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    return subprocess.run([sys.executable, script], env=alone, capture_output=True).returncode


@pytest.mark.parametrize("more", ["import other", "from . import model", "import deepspeed", "exec('')", "def (:"])
def test_what_another_package_does_is_not_known(more: str, script: Path) -> None:
    script.write_text(f"import os\n{more}\nos.environ['RANK']")
    assert needed_of_a_launcher(script) is None


@pytest.mark.parametrize(("does", "needed"), [("x = 1", "RANK"), ("import os; os.environ['RANK'] = '0'", None)])
def test_a_module_of_its_folder_is_read_too(does: str, needed: str | None, script: Path) -> None:
    script.write_text("import os, model\nos.environ['RANK']")
    script.with_name("model.py").write_text(does)
    assert needed_of_a_launcher(script) == needed
    assert (run(script) == 0) is (needed is None)


def test_a_plain_loop_that_joins_a_group_needs_one() -> None:
    assert needed_of_a_launcher(Path(__file__).parents[2] / "script/scripts/accumulation.py") == "RANK"
