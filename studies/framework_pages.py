"""The output in docs/how-to/frameworks/, where each page has one command and, below it, what the run prints.

python -m studies.framework_pages          runs the commands and writes their output anew; needs the extra scripts
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parent.parent
PAGES = sorted((_ROOT / "docs/how-to/frameworks").glob("*.md"))
_COMMAND = re.compile(r"^```\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_OUTPUT = re.compile(r"(?<=^```text\n).*?(?=\n```$)", re.MULTILINE | re.DOTALL)


def shown(page: Path) -> str:
    """The output on the page."""
    found: list[str] = _OUTPUT.findall(page.read_text())
    return found[0]


def printed(page: Path, *options: str) -> str:
    """What the training is, the card and the table, as the page's command prints them now. options: more of pytest's.

    Raises CalledProcessError for a run that fails.
    """
    program, module, name, command, *rest = shlex.split(_COMMAND.findall(page.read_text())[0])
    assert (program, module, name, command) == ("python", "-m", "fixtures", "run")
    run = [sys.executable, module, name, command, *options, *rest]
    outcome = subprocess.run(
        run, cwd=_ROOT, env=os.environ | {"COLUMNS": "100"}, stdout=subprocess.PIPE, text=True, check=True
    )
    return _excerpt(outcome.stdout)


def _excerpt(output: str) -> str:
    (training,) = re.findall(r"^\S+ trains .*\n(?:  .*\n)*", output, re.MULTILINE)
    name = re.escape(training.partition(" ")[0])
    (table,) = re.findall(rf"^{name}, 2\w+, .*\n(?:(?!-+ \w|=).+\n)+", output, re.MULTILINE)
    (card,) = re.findall(r"^=+ ddp-perf on .*\n((?:.+\n)+?)next: ", output, re.MULTILINE)
    return f"{training}\n{card}\n{table}".rstrip()


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(page.read_text().replace(shown(page), printed(page)))
