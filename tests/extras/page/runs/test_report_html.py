"""The page of ``--report DIR``, and ``python -m fixtures report``, as a user gives them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.records.files import checked, read_record
from fixtures.session.explanation import file_name
from tests.command_line import QUICK, ROOT
from tests.forked import command, perf
from tests.recordings import ddp_steps
from tests.run_reports import BASELINES, h200

STEADY = ("perf/test_scaling.py", "-k", "1cpu", "--workload=tests.workloads_for_tests:steady", *QUICK)
FILES = ["card.svg", "report.html", "report.md", "run.json", "summary.md"]
NEEDS = "report.html needs plotly, not installed here: pip install plotly"


def files_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_a_run_leaves_its_files_one_line_and_a_page_with_the_stored_history(tmp_path: Path) -> None:
    assert perf(tmp_path / "baselines", *STEADY, "--benchmark-save=first").exit_code == 0
    night = f"--benchmark-json={tmp_path / 'night.json'}"
    outcome = perf(
        tmp_path / "baselines", *STEADY, "--min-slowdown=100", f"--report={tmp_path / 'out/here'}", night
    ).exits(0)
    assert (tmp_path / "out/here/run.json").read_bytes() == (tmp_path / "night.json").read_bytes()
    assert len(checked(read_record(tmp_path / "out/here/run.json")).benchmarks) == 2
    assert (tmp_path / "out/here/report.md").read_text().count("\nverdict: ") == 1
    assert files_in(tmp_path / "out/here") == FILES
    assert [line for line in outcome.output.splitlines() if line.startswith("report")] == [
        f"report: {tmp_path / 'out/here/report.html'}"
    ]
    assert '"stored-nights"' in (tmp_path / "out/here/report.html").read_text()


def test_a_run_that_measures_nothing_has_a_report_too_and_collecting_writes_none(tmp_path: Path) -> None:
    failing = tmp_path / "test_failing.py"
    failing.write_text("def test_it():\n    assert not 'the reason'\n")
    perf(tmp_path / "baselines", "perf/test_scaling.py", str(failing), "-k", "test_it", f"--report={tmp_path}").exits(
        pytest.ExitCode.TESTS_FAILED
    )
    assert "nothing was measured; 1 failed" in (tmp_path / "report.md").read_text()
    perf(tmp_path / "baselines", *STEADY, "--collect-only", f"--report={tmp_path / 'out'}").exits(0)
    assert not (tmp_path / "out").exists()


def test_the_command_is_in_the_summary_without_its_secrets(tmp_path: Path) -> None:
    secret = ("-o", "log_format=%(message)s token=hidden")
    perf(tmp_path / "baselines", *STEADY, "--min-slowdown=100", f"--report={tmp_path / 'out'}", *secret)
    summary = (tmp_path / "out/summary.md").read_text()
    assert "--min-slowdown=100" in summary
    assert "hidden" not in summary


@pytest.mark.parametrize("place", ["file", "folder/report.md"])
def test_a_folder_that_cannot_be_written_ends_the_run_before_it_measures(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder/report.md").mkdir(parents=True)
    folder = tmp_path / place.partition("/")[0]
    outcome = perf(tmp_path / "baselines", *STEADY, f"--report={folder}").exits(pytest.ExitCode.USAGE_ERROR)
    (line,) = outcome.errors.strip().splitlines()
    assert line.startswith("ERROR: --report")
    assert str(tmp_path / place) in line


@pytest.mark.parametrize(
    ("plugin", "says"),
    [
        ("tests.extras.page.no_plotly", f"--report: {NEEDS}"),
        ("tests.quiet_machine", "--report {page}: is a folder, not a file"),
    ],
    ids=["no plotly", "no file"],
)
def test_a_page_that_cannot_be_written_ends_the_run_before_it_measures(tmp_path: Path, plugin: str, says: str) -> None:
    (tmp_path / "report.html").mkdir()
    outcome = perf(tmp_path / "baselines", *STEADY, "-p", plugin, f"--report={tmp_path}").exits(
        pytest.ExitCode.USAGE_ERROR
    )
    assert outcome.errors == f"ERROR: {says.format(page=tmp_path / 'report.html')}\n\n"


def test_the_command_writes_the_report_of_a_stored_run(tmp_path: Path) -> None:
    outcome = command("report", BASELINES / "0004_vit.json", "-o", tmp_path / "out")
    assert (outcome.exit_code, outcome.output) == (0, f"report: {tmp_path / 'out/report.html'}\n")
    assert files_in(tmp_path / "out") == FILES
    assert json.loads((tmp_path / "out/run.json").read_text()) == read_record(BASELINES / "0004_vit.json")


def test_the_command_merges_the_traces_of_each_test(tmp_path: Path) -> None:
    record = h200()
    tests = record["benchmarks"][:4]
    for number, benchmark in enumerate(tests):
        names = [f"{number}-rank{rank}.json.gz" for rank in range(2)]
        benchmark["extra_info"]["traces"] = names
        for rank, name in enumerate(names):
            ddp_steps(rank).chrome(tmp_path / name)
    (tmp_path / "3-rank1.json.gz").write_text("{}")
    (tmp_path / "run.json").write_text(json.dumps(record))
    outcome = command("report", tmp_path / "run.json", "-o", tmp_path / "out", "--traces", tmp_path).exits(0)
    merged = [name for name in files_in(tmp_path / "out") if name.startswith("trace_")]
    assert merged == sorted(f"trace_{file_name(benchmark['fullname'])}.json.gz" for benchmark in tests[:3])
    assert outcome.errors.startswith(f"no merged trace of {tests[3]['fullname']}: 3-rank1.json.gz is JSON but not")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("no.json",), "no.json: cannot be read: "),
        ((str(BASELINES / "0004_vit.json"), "--history=no"), "--history no: there is no such file or folder"),
        ((str(BASELINES / "0004_vit.json"), "--traces=no"), "--traces no: there is no such folder"),
        ((str(BASELINES / "0004_vit.json"), "-o", "README.md"), "--output README.md: cannot write there: "),
    ],
)
def test_wrong_usage_of_the_command_is_reported_in_one_line(arguments: tuple[str, ...], complaint: str) -> None:
    outcome = command("report", *arguments).exits(2)
    assert outcome.errors.startswith(complaint)
    assert outcome.errors.count("\n") == 1


def test_the_site_builds_with_the_report_of_a_shipped_record(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    outcome = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    assert "Where a step&#39;s time goes" in (tmp_path / "report/report.html").read_text()
    assert 'src="report.html"' in (tmp_path / "report/index.html").read_text()
