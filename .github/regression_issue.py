#!/usr/bin/env python3
"""Reports the slower tests of a nightly run in one issue of the repository. Needs Python alone, and ``gh`` to post.

``text RECORD`` prints the report: what is slower, how much, since when, and the cause; nothing when nothing is slower.
``post FILE`` comments it on the open issue with the label, or opens one when none is open. It closes no issue.
Only one ``post`` may run at a time, which the workflow's ``concurrency`` ensures. Exit codes: 0, and 2 for wrong usage.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

LABEL = "ddp-perf-regression"
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


def earlier_nights(folder: Path | None, record: Record) -> list[Record] | None:
    """The records of the folder that are older than this one, newest first, without those that cannot be read."""
    return sorted(_older(folder, finished(record)), key=finished, reverse=True) if folder else None


def _older(folder: Path, before: datetime) -> Iterator[Record]:
    for file in folder.rglob("*.json"):
        try:
            night = json.loads(file.read_text())
            slower_tests(night)
            if finished(night) < before:
                yield night
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            print(f"{file} is left out: {error!r}", file=sys.stderr)


def finished(record: Record) -> datetime:
    return datetime.fromisoformat(record["finished"])


def since(test: str, record: Record, nights: list[Record] | None) -> str:
    """The first night of those without a break up to now in which the test was slower; tonight without a folder."""
    first, count = record, 1
    for night in nights or []:
        if test not in slower_tests(night):
            break
        first, count = night, count + 1
    commit = (first.get("commit_info") or {}).get("id")
    at = f", commit {commit[:12]}" if commit else ""
    said = "seen in" if nights is None else "since"
    return f"{said} the night of {finished(first):%Y-%m-%d}{at}" + (f" ({count} nights)" if count > 1 else "")


def report(record: Record, nights: list[Record] | None, drift: str) -> str:
    """The title in the first line, then Markdown; empty when nothing is slower."""
    tests = slower_tests(record)
    if not tests:
        return ""
    more = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
    lines = [f"Slower: {next(iter(tests))[:200]}{more}", "", f"Instance `{record.get('instance')}`."]
    for test, (how_much, cause) in tests.items():
        lines += ["", f"**`{test}`**", "", f"- {how_much}", f"- {since(test, record, nights)}"]
        lines += [f"- cause: {cause or 'not named by the record; see the log of the run'}"]
    if drift.strip():
        lines += ["", "Steps and drift over the kept nights:", "", "```", drift.strip(), "```"]
    return "\n".join(lines) + "\n"


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
    text.add_argument("--drift", type=Path, metavar="FILE", help="output of 'python -m fixtures drift', quoted")
    posted = commands.add_parser("post", help="comment the report on the open issue, or open one")
    posted.add_argument("report", type=Path, metavar="FILE")
    posted.add_argument("--run-url", required=True, metavar="URL", help="address of the run")
    posted.add_argument("--dry-run", action="store_true", help="print the commands that would write")
    asked = parser.parse_args()
    if asked.command == "post":
        post(asked.report.read_text(), asked.run_url, dry_run=asked.dry_run)
        return
    record = json.loads(asked.record.read_text())
    drift = asked.drift.read_text() if asked.drift and asked.drift.exists() else ""
    print(report(record, earlier_nights(asked.nights, record), drift), end="")


if __name__ == "__main__":
    main()
