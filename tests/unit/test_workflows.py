"""The action and the workflows of GitHub: their commands, and the issue that a slower night opens."""

import json
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cmarkgfm import github_flavored_markdown_to_html

from tests.saved_records import Record, read

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
SCRIPT = ROOT / ".github/regression_issue.py"
RECORD = ROOT / "baselines/8x-nvidia-h200-nv18/0003_vit.json"
URL = "https://example.org/runs/1"


# Any: workflows are YAML.
Workflow = dict[Any, Any]


def jobs() -> list[tuple[str, Workflow]]:
    """Name of the workflow, job."""
    return [(file.stem, job) for file in WORKFLOWS for job in yaml.safe_load(file.read_text())["jobs"].values()]


def commands() -> list[Any]:
    """Each command line of the steps."""
    steps = [(workflow, step) for workflow, job in jobs() for step in job["steps"] if "run" in step]
    steps += [("action", step) for step in ACTION["runs"]["steps"]]
    return [pytest.param(step["run"], id=f"{workflow}-{step.get('name', step['run'])}") for workflow, step in steps]


def test_no_code_of_a_fork_runs_on_the_gpus() -> None:
    on_gpus = [(workflow, job) for workflow, job in jobs() if "self-hosted" in job["runs-on"]]
    assert {workflow for workflow, _ in on_gpus} == {"nightly", "against"}
    assert all("head.repo.full_name == github.repository" in job["if"] for name, job in on_gpus if name == "against")
    assert [file.stem for file in WORKFLOWS if "pull_request" in file.read_text()] == ["against", "ci"]


def test_the_workflows_use_the_action_with_inputs_that_it_has() -> None:
    steps = [(workflow, step) for workflow, job in jobs() for step in job["steps"] if step.get("uses") == "./"]
    assert [workflow for workflow, _ in steps] == ["against", "nightly"]
    assert [name for _, step in steps for name in step["with"] if name not in ACTION["inputs"]] == []
    assert all(step["shell"] == "bash" for step in ACTION["runs"]["steps"])


@pytest.mark.parametrize("run", commands())
def test_nothing_is_written_into_a_command_line(run: str) -> None:
    """What a person can choose, such as the name of a branch, reaches a shell in variables only."""
    assert re.findall(r"\$\{\{(.*?)\}\}", run) == []


# The issue of a slower night. The records are one of a real run, edited; ``gh`` is a script that writes down its calls.


def night(folder: Path, *slower: str, days: int = 0, failed: dict[str, str] | None = None) -> Path:
    """A record of so many days later, in which these tests are slower."""
    record: Record = read(RECORD)
    record["finished"] = (datetime.fromisoformat(record["finished"]) + timedelta(days=days)).isoformat()
    record["failed"] = failed or {}
    for benchmark in record["benchmarks"]:
        if benchmark["fullname"] in slower:
            benchmark["extra_info"]["verdict"] |= {"word": "slower", "reason": "slower by 5.1 % (threshold 1.3 %)"}
            benchmark["extra_info"]["cause"] = "transport P2P/CUMEM -> SHM"
    folder.mkdir(exist_ok=True)
    file = folder / f"{days}.json"
    file.write_text(json.dumps(record))
    return file


DDP, BF16 = (f"perf/test_throughput.py::test_throughput[vit_l_32-8gpu-{config}]" for config in ("ddp", "bf16"))


def script(*arguments: object, **variables: str) -> str:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.check_output(command, env=os.environ | variables, text=True)


def posted(tmp_path: Path, report: str, *options: str, open_issues: str) -> tuple[list[list[str]], str]:
    """The calls of gh that posting the report makes, without that for the open issues; and what is printed."""
    gh, calls = tmp_path / "gh", tmp_path / "calls"
    gh.write_text(
        f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]), file=open({str(calls)!r}, 'a'))\n"
        f"if sys.argv[1:3] == ['issue', 'list']: print({open_issues!r})\n"
    )
    gh.chmod(0o755)
    (tmp_path / "report.md").write_text(report)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    printed = script("post", tmp_path / "report.md", "--run-url", URL, *options, PATH=path)
    made = [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []
    return [call for call in made if call[:2] != ["issue", "list"]], printed


def test_a_night_without_a_slower_test_opens_no_issue(tmp_path: Path) -> None:
    report = script("text", night(tmp_path / "nights"))
    assert (report, posted(tmp_path, report, open_issues="[]")) == ("", ([], "nothing is slower: no issue\n"))


def test_a_slower_test_opens_an_issue_with_its_cause_and_its_first_night(tmp_path: Path) -> None:
    nights = tmp_path / "nights"
    for days, slower in enumerate([(DDP,), (), (DDP,)]):
        night(nights, *slower, days=days)
    (nights / "torn.json").write_text("{")
    (label, (*create, body)), _ = posted(
        tmp_path, script("text", night(nights, DDP, days=3), "--nights", nights), open_issues="[]"
    )
    assert label[:4] == ["label", "create", "ddp-perf-regression", "--force"]
    assert create[:6] == ["issue", "create", "--title", "Slower: 1 test", "--label", "ddp-perf-regression"]
    assert f"\n{DDP}\n    slower by 5.1 % (threshold 1.3 %)\n    failing since record 2 of 2026-11-22, " in body
    assert "    cause: transport P2P/CUMEM -> SHM\n" in body
    assert body.endswith(f"Run: {URL}\n")
    assert BF16 not in body


def test_a_second_slower_night_comments_on_the_open_issue(tmp_path: Path) -> None:
    ((*comment, body),), _ = posted(
        tmp_path, script("text", night(tmp_path / "nights", DDP, BF16)), open_issues='[{"number": 7}]'
    )
    assert comment == ["issue", "comment", "7", "--body"]
    assert {DDP, BF16} <= {*body.split()}


def test_what_slows_the_whole_run_is_reported_and_another_failure_is_not(tmp_path: Path) -> None:
    shift = {
        "perf::common_shift[8x-nvidia-h200-nv18]": "all 12 tests are slower, by about 3.0 %",
        "perf::machine[8x-nvidia-h200-nv18]": "the machine is slower than in its records",
    }
    failed = shift | {"perf/test_gradients.py::test_gradients[ddp]": "the gradient is wrong"}
    report = script("text", night(tmp_path / "nights", failed=failed))
    assert "\nperf::common_shift[8x-nvidia-h200-nv18]\n    all 12 tests are slower, by about 3.0 %" in report
    assert "\nperf::machine[8x-nvidia-h200-nv18]\n" in report
    assert "test_gradients" not in report


def test_texts_of_a_record_mention_nobody_and_close_no_issue(tmp_path: Path) -> None:
    hostile = "x @team closes #2 <img src=x>\n# head\n```\n[a](https://example.org) \x1b[31m"
    file = night(tmp_path / "nights", failed={f"perf::machine[{hostile}]": f"by {hostile}"})
    file.write_text(json.dumps(json.loads(file.read_text()) | {"instance": hostile}))
    title, *lines = script("text", file).split("\n")
    assert title == "Slower: 1 test"
    html = github_flavored_markdown_to_html("\n".join(lines))
    assert re.sub("<pre.*?</pre>", "", html, flags=re.DOTALL).strip() == ""
    assert "\x1b" not in html


def test_no_text_of_a_record_ends_the_block_of_a_pull_request(tmp_path: Path) -> None:
    steps = yaml.safe_load((ROOT / ".github/workflows/promote.yml").read_text())["jobs"]["promote"]["steps"]
    (line,) = (line for line in steps[-1]["run"].splitlines() if "body.md" in line and "promoted.txt" in line)
    (tmp_path / "promoted.txt").write_text("torch\n```\n\n@team closes #2\n")
    subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True)
    html = github_flavored_markdown_to_html((tmp_path / "body.md").read_text())
    assert re.sub("<pre.*?</pre>", "", html, flags=re.DOTALL).strip() == ""


@pytest.mark.parametrize("text", ["", "{", "[]", '{"benchmarks": 3}', '{"benchmarks": [{"fullname": "x\\n@y"}]}'])
def test_a_file_that_is_no_record_is_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "night.json"
    file.write_text(text)
    done = subprocess.run([sys.executable, SCRIPT, "text", file], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "night.json cannot be read as a record of ddp-perf: " in done.stderr.splitlines()[-1]
