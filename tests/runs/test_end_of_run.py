"""The end of a run in pytest's report, JUnit and the record: a slower test, a failed test, Ctrl-C at five moments."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests import forked
from tests.command_line import QUICK, Outcome
from tests.runs.slower_config import FAILING, FAILS_AGAIN, INTERRUPT, SEEN, SLOW_LAUNCHES, SLOWER


def id_of(config: str) -> str:
    return f"perf/test_throughput.py::test_throughput[steady-2cpu-{config}]"


class Night:
    """A run of five tests against a storage with one record of them."""

    def __init__(self, folder: Path, storage: Path, *arguments: str, **variables: str) -> None:
        self.seen = folder / "seen"
        self.seen.unlink(missing_ok=True)
        self.json, self.junit = folder / "run.json", folder / "junit.xml"
        self.outcome: Outcome = forked.pytest(
            *map(id_of, ["ddp", "ddp_default", "static_graph", "bucket_view", "bf16"]),
            *("--workload=tests.workloads_for_tests:steady", *QUICK, "-o", f"cache_dir={folder}"),
            *(f"--benchmark-storage={storage}", f"--benchmark-json={self.json}", f"--junitxml={self.junit}"),
            *("-p", "tests.runs.slower_config", *arguments),
            variables={SEEN: str(self.seen), **variables},
        )

    @property
    def launches(self) -> list[str]:
        """The configs, in order."""
        return self.seen.read_text().splitlines()

    @property
    def words(self) -> dict[str, str]:
        """Config -> the word in the record."""
        record = json.loads(self.json.read_text())
        return {one["extra_info"]["config"]: one["extra_info"]["verdict"]["word"] for one in record["benchmarks"]}

    @property
    def words_in_junit(self) -> dict[str, str]:
        """The same in the JUnit file."""
        cases = ElementTree.parse(self.junit).iter("testcase")
        properties = {
            case.get("name", ""): {p.get("name"): p.get("value") for p in case.iter("property")} for case in cases
        }
        return {
            name.removesuffix("]").rpartition("2cpu-")[2]: str(found["verdict"])
            for name, found in properties.items()
            if "verdict" in found
        }


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before")
    night = Night(folder, folder / "baselines", "--benchmark-save=before", "--explain=none")
    assert night.outcome.exit_code == 0, night.outcome.output
    return folder / "baselines"


@pytest.fixture(scope="module")
def order(storage: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The order of the configs."""
    return list(Night(tmp_path_factory.mktemp("order"), storage, "--explain=none").words)


def test_a_slower_test_is_measured_again_after_the_last_and_red_everywhere(storage: Path, tmp_path: Path) -> None:
    night = Night(tmp_path, storage, **{SLOWER: "ddp_default"})
    assert night.outcome.exit_code == 1, night.outcome.output
    assert night.launches[5:] == ["ddp_default", "profile ddp_default"]
    assert night.words["ddp_default"] == night.words_in_junit["ddp_default"] == "slower"
    assert night.words == night.words_in_junit
    assert f"FAILED {id_of('ddp_default')} - slower by " in night.outcome.output
    failures = [failure.text or "" for failure in ElementTree.parse(night.junit).iter("failure")]
    assert [text.partition(" by ")[0] for text in failures] == ["slower"]


def test_a_test_that_is_not_slower_again_is_green(storage: Path, tmp_path: Path) -> None:
    night = Night(tmp_path, storage, **{SLOWER: "ddp_default", SLOW_LAUNCHES: "1"})
    assert night.outcome.exit_code == 0, night.outcome.output
    assert night.launches[5:] == ["ddp_default"]
    assert "slower" not in night.words.values()
    assert night.words == night.words_in_junit


@pytest.mark.parametrize("option", ["-x", "--maxfail=1", "--sw"])
def test_a_slower_test_stops_nothing(storage: Path, tmp_path: Path, option: str) -> None:
    night = Night(tmp_path, storage, option, "--explain=none", **{SLOWER: "ddp"})
    assert night.outcome.exit_code == 1, night.outcome.output
    assert len(night.words) == 5
    assert "stopping after" not in night.outcome.output
    assert "continuing from this test" not in night.outcome.output


@pytest.mark.parametrize(("option", "code"), [("-x", 1), ("--maxfail=1", 1), ("--sw", 2)])
def test_an_error_stops_and_what_was_measured_is_decided(
    storage: Path, order: list[str], tmp_path: Path, option: str, code: int
) -> None:
    first = order[0]
    failing = "bf16" if first != "bf16" else "ddp"
    night = Night(tmp_path, storage, option, "--explain=none", **{SLOWER: first, FAILING: failing})
    assert night.outcome.exit_code == code, night.outcome.output
    assert night.launches[-1] == first
    assert night.words[first] == night.words_in_junit[first] == "slower"
    assert failing not in night.words
    assert f"FAILED {id_of(first)} - slower by " in night.outcome.output


def test_last_failed_runs_the_slower_test(storage: Path, tmp_path: Path) -> None:
    Night(tmp_path, storage, "--explain=none", **{SLOWER: "static_graph"})
    again = Night(tmp_path, storage, "--lf", "--explain=none")
    assert again.outcome.exit_code == 0, again.outcome.output
    assert list(again.words) == ["static_graph"]


def test_stepwise_goes_on_after_the_error_not_after_the_slower_test(
    storage: Path, order: list[str], tmp_path: Path
) -> None:
    Night(tmp_path, storage, "--sw", "--explain=none", **{SLOWER: order[0], FAILING: order[2]})
    again = Night(tmp_path, storage, "--sw", "--explain=none")
    assert again.outcome.exit_code == 0, again.outcome.output
    assert list(again.words) == order[2:]


# The launch before which Ctrl-C comes, and the word of ``ddp_default``: in the first launch, in its own, after it, when
# it is measured again, and when it is profiled.
@pytest.mark.parametrize(("before", "word"), [(1, None), (None, None), (5, "unclear"), (6, "unclear"), (7, "slower")])
def test_an_interrupted_run_ends_with_2_and_one_word_everywhere(
    storage: Path, order: list[str], tmp_path: Path, before: int | None, word: str | None
) -> None:
    number = order.index("ddp_default") + 1 if before is None else before
    arguments = ("--benchmark-save=after", "--explain=failures")
    night = Night(tmp_path, storage, *arguments, **{SLOWER: "ddp_default", INTERRUPT: str(number)})
    assert night.outcome.exit_code == 2, night.outcome.output
    assert [*storage.glob("*/*after*")] == []
    if number > 1:
        assert night.words == night.words_in_junit
        assert night.words.get("ddp_default") == word
        record: dict[str, Any] = json.loads(night.json.read_text())
        assert record["interrupted"] is True
    if word == "unclear":
        reasons = [one["extra_info"]["verdict"]["reason"] for one in record["benchmarks"]]
        assert [reason for reason in reasons if reason.startswith("interrupted, not measured again: slower by ")]
        assert f"verdict: interrupted, {len(night.words)} of 5 speed tests measured; " in night.outcome.unwrapped


def test_a_failure_while_measuring_again_is_named(storage: Path, tmp_path: Path) -> None:
    night = Night(tmp_path, storage, "--explain=none", **{SLOWER: "ddp_default", FAILS_AGAIN: "yes"})
    assert night.outcome.exit_code == 1, night.outcome.output
    assert night.words["ddp_default"] == "slower"
    assert "; measuring it again failed: a launch: the config fails" in night.outcome.unwrapped
