#!/usr/bin/env python3
"""Reports the slower tests of a nightly run in one issue of the repository. ``post`` needs Python and ``gh`` alone.

``text RECORD`` prints the report: what is slower, how much, since when, and the cause; nothing when nothing is slower.
``post FILE`` comments it on the open issue with the label, or opens one when none is open. It closes no issue.
Only one ``post`` may run at a time, which the workflow's ``concurrency`` ensures. Exit codes: 0, and 2 for wrong usage
or a file that is no record. Texts of the record are a block of code: they mention nobody and close no issue.
"""

import argparse
import json
import shlex
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

LABEL = "ddp-perf-regression"
# GitHub takes 65 536 characters.
MOST_CHARACTERS = 60_000
WHOLE_RUN = ("perf::common_shift[", "perf::machine[")

# Any: records are JSON.
Record = dict[str, Any]


def slower_tests(record: Record) -> dict[str, tuple[str, str | None]]:
    """By id of each slower test, of all tests together and of the machine: by how much, and the cause if known."""
    found: dict[str, tuple[str, str | None]] = {}
    for benchmark in record["benchmarks"]:
        info = benchmark["extra_info"]
        verdict = info.get("verdict") or {}
        if verdict.get("word") == "slower":
            found[benchmark["fullname"]] = (verdict.get("reason") or "slower", info.get("cause"))
    failed = record.get("failed") or {}
    return found | {test: (reason, None) for test, reason in failed.items() if test.startswith(WHOLE_RUN)}


def since(record: Path, nights: Path | None) -> dict[str, str]:
    """Failing test of the record -> since which of the nights; without nights, empty."""
    if nights is None:
        return {}
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from fixtures.records.history import failing_since, read_stored

    stored, left_out = read_stored([nights, record])
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    until = datetime.fromisoformat(json.loads(record.read_text())["finished"])
    return {test: said for (_, test), said in failing_since(stored, until).items()}


def report(record: Record, failing: dict[str, str]) -> str:
    """The title in the first line, then Markdown; empty when nothing is slower."""
    tests = slower_tests(record)
    if not tests:
        return ""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from fixtures.extras.page.markdown import fenced
    from fixtures.matrix.plain_text import counted, quoted

    lines = [f"instance {record.get('instance')}"]
    for test, (how_much, cause) in tests.items():
        lines += ["", test, f"    {how_much}", *([f"    {failing[test]}"] if test in failing else [])]
        lines += [f"    cause: {cause or 'not named by the record; see the log of the run'}"]
    text = quoted("\n".join(lines), lines=True)
    block = fenced([text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS].rpartition("\n\n")[0]])
    return "\n".join([f"Slower: {counted(len(tests), 'test')}", "", *block, ""])


def post(text: str, run_url: str, *, dry_run: bool) -> None:
    title, _, body = text.partition("\n")
    if not title:
        print("nothing is slower: no issue")
        return
    body = f"{body.strip()}\n\nRun: {run_url}\n"
    asked = ["gh", "issue", "list", "--label", LABEL, "--state", "open", "--limit", "1", "--json", "number"]
    issues = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    if issues:
        commands = [["gh", "issue", "comment", str(issues[0]["number"]), "--body", body]]
    else:
        commands = [
            ["gh", "label", "create", LABEL, "--force", "--description", "a nightly run got slower"],
            ["gh", "issue", "create", "--title", title, "--label", LABEL, "--body", body],
        ]
    for command in commands:
        if dry_run:
            print(shlex.join(command))
        else:
            subprocess.run(command, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Report the slower tests of a nightly run in one issue.")
    commands = parser.add_subparsers(dest="command", required=True)
    text = commands.add_parser("text", help="print the report of a record; nothing when nothing is slower")
    text.add_argument("record", type=Path, metavar="RECORD")
    text.add_argument("--nights", type=Path, metavar="DIR", help="earlier records, which tell since when")
    posted = commands.add_parser("post", help="comment the report on the open issue, or open one")
    posted.add_argument("report", type=Path, metavar="FILE")
    posted.add_argument("--run-url", required=True, metavar="URL", help="address of the run")
    posted.add_argument("--dry-run", action="store_true", help="print the commands that would write")
    asked = parser.parse_args()
    if asked.command == "post":
        post(asked.report.read_text(), asked.run_url, dry_run=asked.dry_run)
        return
    try:
        record = json.loads(asked.record.read_text())
        found = report(record, since(asked.record, asked.nights))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        parser.error(ascii(f"{asked.record} cannot be read as a record of ddp-perf: {error!r}"[:300])[1:-1])
    print(found, end="")


if __name__ == "__main__":
    main()
