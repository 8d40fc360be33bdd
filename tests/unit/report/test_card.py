"""The card of a run, from its record: it advises what the record says to use, and nothing else."""

import re
from collections.abc import Callable
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.machine.cpu import HostLoad
from fixtures.records.measurement import Measurement
from fixtures.report.card import Card, card_of
from fixtures.report.rows import Report
from fixtures.session.run_record import record_so_far
from fixtures.stats.difference import Turns
from tests.builders import effect_of, launch, measured, run_of
from tests.run_reports import DDP, h200, info_of, large, report_of, slower, undecided, with_reference
from tests.saved_records import Record, infos

HOST = "the host, which launches kernels too late"


def concluded(record: Record) -> Card:
    return card_of(report_of(record))


def said(record: Record) -> dict[str, str]:
    """Label -> text, of the lines of the card."""
    return {finding.label: finding.text for finding in concluded(record).lines()}


FOUND = "a slowdown of 7.6 % would have been found in half of the tests"
QUIET = f"33 ok (33 measured tests); {FOUND}"


def test_a_quiet_night() -> None:
    card = concluded(h200())
    assert card.verdict.tone == "good"
    assert said(h200()) == {
        "communication": "costs about 4 % of a step of ddp_default, PyTorch's default",
        "change": "use bucket_10mb, +2.1 % over ddp_default (95 % interval +1.9 to +2.3 %)",
        "proved": "yes, faster in 3 launches of fresh processes by more than launches of one config "
        "differ; bucket_10mb has the gradients of plain DDP",
        "verdict": QUIET,
    }
    assert [(one.label, one.text) for one in card.best] == [
        ("best lossless", "bucket_10mb, 11.46 steps/s, +2.1 % over ddp_default (95 % interval +1.9 to +2.3 %)"),
        (
            "best lossy",
            "not decided among bf16-bucket_400mb, fp16, bf16-bucket_2000mb and 1 more: they differ by 0.9 %, and these "
            "launches decide differences of 1.1 % or more; fastest here: bf16-bucket_400mb, 11.01 steps/s, "
            "-1.8 % over ddp_default (95 % interval -2.3 to -1.2 %), gradient error 3e-03",
        ),
    ]
    assert card.best[0].code[-1].endswith("bucket_cap_mb=10, static_graph=True, gradient_as_bucket_view=True)")


def test_a_slower_test_is_said_first_with_its_reason_and_cause() -> None:
    record = slower(h200())
    assert list(said(record)) == ["verdict", "communication", "change", "proved"]
    assert said(record)["change"] == "undo what made ddp slower: NCCL 2.28 -> 2.29"
    assert said(record)["proved"] == "yes, ddp is slower by 5.1 %; that this is the cause was not tried"
    assert said(record | {"disturbed": ["BUSY"]})["proved"].endswith("; but other work disturbed the run: BUSY")
    verdict = concluded(record).verdict
    assert (verdict.text, verdict.tone) == ("1 slower, 32 ok (33 measured tests)", "bad")
    assert verdict.points[0] == (DDP, "slower by 5.1 %; cause: NCCL 2.28 -> 2.29")


def test_a_long_cause_is_cut_between_its_parts() -> None:
    cause = "; ".join(f"NCCL_{name} = 1, which no record has" for name in "ABCDEFG")
    assert said(slower(h200(), cause=cause))["change"].endswith("NCCL_C = 1, which no record has; ...")


@pytest.mark.parametrize(
    "record", [h200(), slower(h200()), large(90, 1), h200() | {"disturbed": ["a long reason " * 9] * 9}]
)
def test_the_card_has_at_most_eight_lines(record: Record) -> None:
    assert sum(len(finding.lines()) for finding in concluded(record).lines()) <= 7  # and the next command


THREE_SLOWER: Record = {
    "word": "slower",
    "change_percent": 4.0,
    "threshold_percent": 2.0,
    "tests": 3,
    "of": "tests that communicate",
    "slower": 3,
    "canaries": {},
    "software": [],
    "explained_percent": 0.0,
}
TRAINING = {"perf/test_training.py::test_training[mine]": "its final loss is +5.6 %"}
HARMED = asdict(effect_of("mine", excess_percent=5.6))
GRADIENTS = {"perf/test_gradients.py::test_gradients[bf16]": "rank 0"}


@pytest.mark.parametrize(
    ("more", "text", "tone"),
    [
        ({"failed": GRADIENTS}, f"33 ok (33 measured tests); 1 failed; {FOUND}", "bad"),
        (
            {"failed": GRADIENTS, "wrong_hooks": ["bf16"], "wrong_tests": list(GRADIENTS)},
            f"33 ok (33 measured tests); wrong gradients: bf16; {FOUND}",
            "bad",
        ),
        (
            {"failed": TRAINING, "harmed_losses": ["mine"], "wrong_tests": list(TRAINING), "training": [HARMED]},
            f"33 ok (33 measured tests); loss of the small problem beyond its limit: mine +5.6 %; {FOUND}",
            "bad",
        ),
        (
            {"failed": {"mine.py::test_grad_log": "no file"}, "wrong_hooks": ["bf16"]},  # a test of the user's own
            f"33 ok (33 measured tests); 1 failed; wrong gradients: bf16; {FOUND}",
            "bad",
        ),
        (
            {"failed": {"perf::common_shift[x]": "all 3 tests are slower"}, "common_shift": {"x": THREE_SLOWER}},
            f"33 ok (33 measured tests); all 3 tests that communicate slowed down together; 1 failed; {FOUND}",
            "bad",
        ),
        (
            {"interrupted": True, "planned": 48},
            f"interrupted, 33 of 48 speed tests measured; {QUIET}",
            "open",
        ),
        ({"benchmarks": []}, "nothing was measured", "open"),
    ],
    ids=["failed", "wrong hook", "higher loss", "own test", "common shift", "interrupted", "nothing"],
)
def test_the_verdict_of_a_run_in_which_nothing_is_slower(more: Record, text: str, tone: str) -> None:
    verdict = concluded(h200() | more).verdict
    assert (verdict.text, verdict.tone) == (text, tone)
    assert verdict.points == tuple(more.get("failed", {}).items())


def every_test(record: Record, **changed: object) -> Record:
    """The record with this in each of its tests."""
    for info in infos(record).values():
        info |= changed
    return record


@pytest.mark.parametrize(
    ("near", "says"),
    [(None, ""), (["train.py -n 4", "train.py"], ", but with other arguments: train.py -n 4 and 1 more")],
)
def test_a_run_without_baselines_has_nothing_to_compare_with(near: list[str] | None, says: str) -> None:
    verdict = concluded(every_test(h200(), verdict={"word": "no baseline"}) | {"near_scripts": near}).verdict
    assert verdict.text == f"no stored run of 4x-nvidia-h200-nv18 to compare with yet{says} (33 measured tests)"
    assert verdict.tone == "plain"  # no green tick


def test_a_quick_run_is_not_judged() -> None:
    requested = {"launches": 2, "steps": 8, "warmup": 6}
    record = every_test(h200() | {"quick": True}, verdict={"word": "no baseline"}, requested=requested)
    verdict = concluded(record).verdict
    assert verdict.text == "not compared, a quick run is too short to be judged (2 launches of up to 8 steps)"
    assert verdict.tone == "plain"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"disturbed": ["JUMP", "BUSY"]}, "no, other work disturbed the run: JUMP; BUSY"),
        ({"disturbed": ["one word " * 30]}, f"no, other work disturbed the run: {'one word ' * 11}one ..."),
        ({"disturbed": ["SPREAD"], "noise": {"a table": "SPREAD"}}, "no, the launches differ too much: SPREAD"),
    ],
)
def test_what_disturbed_the_run_is_why_nothing_is_proved(more: Record, says: str) -> None:
    record = undecided(h200() | more, "disturbed")
    assert said(record)["proved"] == says
    assert said(record)["change"] == "nothing yet: this run does not show which config is faster"
    every_test(record, step_limit=LIMITED | {"by": "loader"})
    assert said(record)["change"].startswith("the loader: more workers")


def test_in_a_disturbed_run_or_an_ab_test_no_config_is_advised() -> None:
    says = concluded(undecided(h200() | {"disturbed": ["busy"]}, "disturbed"))
    assert [one.text for one in says.best] == [
        "none, the run was disturbed; fastest here: bucket_10mb",
        "none, the run was disturbed; fastest here: bf16-bucket_400mb",
    ]
    assert not any(one.code for one in says.best)
    record = h200()
    info_of(record, "test_throughput[vit_l_32-4gpu-ddp]")["against"] = {"build": "main", "launch_medians_s": [0.1]}
    assert said(record).keys() == {"verdict"}


def test_a_reference_is_no_test_and_stands_in_the_table() -> None:
    report = report_of(with_reference(h200()))
    assert {row.config for row in report.tests if not row.is_reference} == {"ddp", "bf16"}
    (row,) = (row for rows in report.tables.values() for row in rows if row.is_reference)
    assert (row.config, row.word, round(row.step_ms, 6)) == ("single", "reference", 80)


def test_a_large_gradient_error_comes_with_what_to_check() -> None:
    record = h200()
    info_of(record, "test_buckets[vit_l_32-4gpu-bf16-bucket_400mb]")["gradient_error"] = 0.77
    assert "gradient error 8e-01, so check that the model still trains" in concluded(record).best[1].text


def test_the_largest_world_comes_first_in_whatever_order_the_record_has_its_best_configs() -> None:
    record = h200()
    record["best"].sort(key=lambda best: best["world"])  # as in baselines/2x-nvidia-h100-80gb-hbm3-nv18
    says = concluded(record)
    assert [one.group.world for one in (*says.best, *says.others) if one.group] == ["4gpu", "4gpu", "1gpu"]


LIMITED = {"by": "compute", "percent": 97.4, "most_gain_percent": 3.1}
LINE = {"line": "train.py:39 main()", "line_ms": 49.4, "step_ms": 126.0}


def limited(**step_limit: object) -> dict[str, str]:
    """The card of a night whose steps have this limit."""
    record = h200()
    info_of(record, "test_throughput[vit_l_32-4gpu-ddp_default]")["step_limit"] = LIMITED | step_limit
    return said(record)


@pytest.mark.parametrize(
    ("step_limit", "says"),
    [
        ({}, "compute (97 % of the step)"),
        ({"by": "host", "percent": 34.2}, f"{HOST} (34 % of the step)"),
        ({"by": "host", "percent": None}, HOST),
        (
            {"by": "own", "percent": 39.0, **LINE},
            "its own work (39 % of the step): train.py:39 main(), 49.4 ms of a step of 126 ms",
        ),
        (
            {"by": "loader", "percent": 40.0, "also": "own"},
            "its data loader (40 % of the step), and as much by its own work",
        ),
        ({"by": "waiting", "percent": 30.0}, "ranks that wait for each other (30 % of the step)"),
        (
            {"by": "own", "percent": 90.0, **LINE},
            "its own work (90 % of the step), above all train.py:39 main(), 49.4 ms of a step of 126 ms",
        ),
        (
            {"by": "waiting", "percent": 39.0, "rank": 0, "late_by": "own", **LINE},
            "rank 0, for which the others wait (39 % of the step), because of its own work: train.py:39 main(), 49.4 "
            "ms of a step of 126 ms",
        ),
        ({"by": None, "why": "one launch"}, "not known, one launch"),
    ],
)
def test_the_limit_of_a_step_is_said_first(step_limit: dict[str, object], says: str) -> None:
    card = limited(**step_limit)
    assert (next(iter(card)), card["limited by"]) == ("limited by", says)


@pytest.mark.parametrize(("communication_percent", "is_advised"), [(30.0, True), (0.5, False), (None, False)])
def test_batches_that_are_all_reduced_one_by_one_are_advised_against_where_that_costs(
    communication_percent: float | None, is_advised: bool
) -> None:
    record = h200()
    costs = {"all_reduced_batches": 4, "communication_percent": communication_percent}
    info_of(record, "test_throughput[vit_l_32-4gpu-ddp_default]").update(costs)
    begins = "all-reduce once a step, not 4 times: put all batches but the last inside no_sync(); otherwise "
    assert said(record)["change"].startswith(f"{begins}use bucket_10mb") is is_advised
    undecided(record, "disturbed")
    assert said(record)["change"].startswith(f"{begins}nothing yet") is is_advised


@pytest.mark.parametrize(
    ("by", "late_by", "begins"),
    [
        ("loader", None, "the loader: more workers"),
        ("host", None, "the host's work: "),
        ("own", None, "train.py:39 main()"),
        ("transfer", None, "fewer or smaller collectives: train.py:39 main()"),
        ("waiting", "own", "what makes rank 0 late: train.py:39 main()"),
        ("waiting", "loader", "the loader: more workers"),
    ],
)
def test_what_limits_the_step_outside_of_ddp_is_the_first_advice(by: str, late_by: str | None, begins: str) -> None:
    rank = None if late_by is None else 0
    change = limited(by=by, late_by=late_by, rank=rank, **LINE)["change"]
    assert change.startswith(begins)
    assert change.endswith("; use bucket_10mb, +2.1 % over ddp_default (95 % interval +1.9 to +2.3 %)")


def test_what_communication_costs_is_without_the_collectives_of_the_script_itself() -> None:
    costs = {"communication_percent": 21.1, "communication_interval_percent": [13.1, 28.4]}
    card = limited(by="transfer", **costs, **LINE)
    assert card["communication"].endswith("(95 % interval 13.1 to 28.4 %), without what train.py:39 main() sends")


def test_ranks_with_too_few_cpus_are_given_more_first() -> None:
    change = limited(by="compute", crowded="16 threads a rank on 2 CPUs")["change"]
    assert change.startswith("fewer threads a rank (OMP_NUM_THREADS), or more CPUs for the ranks; use bucket_10mb")


NOTHING = "nothing in DDP: no measured config is faster than ddp_default by 1 % or more"


@pytest.mark.parametrize(
    ("reason", "most", "says"),
    [
        ("not faster", 3.1, f"{NOTHING}; no config can gain more than 4 %"),
        ("not faster", 0.2, "nothing in DDP: no config can gain more than 1 %"),
        ("not faster", 12.4, f"{NOTHING}; no config can gain more than 13 %"),
        ("not faster", 20.1, NOTHING),
        ("not faster", None, NOTHING),
        ("undecided", 0.9, "nothing yet: whether a config gains up to 1 % over ddp_default is not decided"),
    ],
)
def test_a_run_in_which_no_config_gains_says_that_nothing_is_to_be_changed(
    reason: str, most: float | None, says: str
) -> None:
    record = undecided(h200(), reason, at_most_percent=None if most is None else min(most, 1.0))
    info_of(record, "test_throughput[vit_l_32-4gpu-ddp_default]")["step_limit"] = LIMITED | {"most_gain_percent": most}
    assert said(record)["change"] == says
    every_test(record, step_limit={"by": "loader"})  # its change is not that of a config, which is proved
    assert "proved" not in said(record)


OF = " of a step of ddp_default, PyTorch's default"
LIMITS = "test_throughput[vit_l_32-4gpu-no_comm]"


@pytest.mark.parametrize(
    ("step_limit", "says"),
    [
        (
            {"communication_percent": 7.2, "communication_interval_percent": [6.0, 8.5]},
            f"costs 7.2 %{OF} (95 % interval 6.0 to 8.5 %)",
        ),
        (
            {"communication_percent": 0.5, "communication_interval_percent": [-1.0, 1.7]},
            f"costs less than 2 %{OF}, not measurable here",
        ),
        (
            {"communication_percent": 9, "communication_interval_percent": [-30, 40.0]},
            f"not measurable here: it costs between 0 and 40 %{OF}",
        ),
        (
            {"communication_percent": -9, "communication_interval_percent": [-30, -1]},
            "not measurable here: a step was shorter with it than without",
        ),
    ],
)
def test_what_communication_costs_comes_with_its_interval(step_limit: dict[str, object], says: str) -> None:
    assert limited(**step_limit)["communication"] == says


@pytest.mark.parametrize(
    ("reason", "change", "proved"),
    [
        (
            "undecided",
            "nothing yet: whether a config gains up to 7 % over ddp_default is not decided",
            "no, configs compared in 3 launches of fresh processes decide only differences of 8 % or more",
        ),
        (
            "one launch",
            "nothing yet: this run does not show which config is faster",
            "no, one launch of each config decides nothing",
        ),
        (
            "not faster",
            "nothing in DDP: no measured config is faster than ddp_default by 7 % or more",
            "yes, such a difference would have been seen in 3 launches of fresh processes",
        ),
        (
            "alone",
            "nothing yet: bucket_10mb was compared with no other config",
            "no other config was measured, so what it would gain is not known",
        ),
        ("loss", "nothing yet: bucket_10mb is faster here, but loss not compared", "no, loss not compared"),
        (
            "gradients",
            "nothing yet: a hook may gain up to 7 %, but its gradients were not compared",
            "no, hooks took turns for their speed; without --quick their gradients are compared",
        ),
        (
            "no reference",
            "nothing: bucket_10mb is the fastest config that was measured",
            "no, neither as_written nor ddp_default was measured",
        ),
        (
            "without ddp",
            "train without DDP (single), which is faster on one device, +3.1 % over ddp",
            "yes, faster in 3 launches of fresh processes by more than launches of one config differ",
        ),
    ],
)
def test_each_reason_has_its_words(reason: str, change: str, proved: str) -> None:
    values = {"at_most_percent": 6.2, "decided_from_percent": 8.3, "remark": "loss not compared"}
    alone = {"use": "single", "over": "ddp", "gain_percent": 3.1, "gain_interval_percent": None}
    card = said(undecided(h200(), reason, **values, **(alone if reason == "without ddp" else {})))
    assert (card["change"], card["proved"]) == (change, proved)


def test_of_the_reasons_of_a_table_the_first_counts() -> None:
    record = undecided(h200(), "not faster")
    record["best"][-1]["reason"] = "undecided"
    for best in record["best"]:
        best["world"] = "4gpu"
    assert said(record)["change"].startswith("nothing yet: whether")


def only(chosen: Callable[[Record], bool], record: Record, **info: object) -> Record:
    """These tests of a record alone, with other values."""
    kept = [one for one in record["benchmarks"] if chosen(one)]
    for one in kept:
        one["extra_info"] |= info
    return record | {"benchmarks": kept}


def test_one_rank_pays_nothing_and_a_run_that_measured_nothing_has_no_answer() -> None:
    one_gpu = only(lambda one: one["extra_info"]["world_size"] == 1, h200())
    assert said(one_gpu)["communication"] == "costs nothing: one rank sends nothing"
    assert concluded(h200() | {"benchmarks": []}).communication is None
    without = only(lambda one: one["extra_info"]["config"] == "bf16", h200(), of_limit_percent=None)
    assert said(without)["communication"] == "not known: no_comm, the same training without it, was not measured"


# The card advises what the record says to use, and nothing else


STEP_MS = st.lists(st.sampled_from([80, 89, 90, 90.2, 99.5, 100, 100.5, 130]), min_size=1, max_size=3)
CONFIGS = ["single", "ddp", "ddp_default", "static_graph", "bucket_10mb", "bf16", "fp16", "powersgd_rank1", "no_comm"]
WORLDS = ["1cpu", "2cpu"]


def of(config: str, world: str, step_ms: list[float]) -> Measurement:
    return measured(config, 0, world=world, launches=tuple(launch(ms / 1e3) for ms in step_ms))


ANY_TABLE = st.dictionaries(st.tuples(st.sampled_from(CONFIGS), st.sampled_from(WORLDS)), STEP_MS, min_size=1)
# Config -> seconds of a step in each round.
IN_TURNS = st.dictionaries(st.sampled_from(CONFIGS[1:]), st.lists(st.floats(0.08, 0.1), min_size=6, max_size=6))


@given(ANY_TABLE, IN_TURNS, st.booleans())
@settings(max_examples=150, deadline=None)
def test_the_card_advises_a_config_if_and_only_if_the_record_says_to_use_it(
    table: dict[tuple[str, str], list[float]], in_turns: dict[str, list[float]], busy: bool
) -> None:
    run = run_of(*(of(*place, step_ms) for place, step_ms in table.items()))
    took = {config: [rounds] for config, rounds in in_turns.items() if (config, "2cpu") in table}
    some = next(case.measurement for case in run.cases.values())
    run.turns = {(some.workload.name, "2cpu", some.interconnect.name): Turns(block_s=took, on_gpu=False)}
    run.host_load = HostLoad(others=1.5 if busy else 0, cores=2)
    report = Report(record=record_so_far(run, None))
    card, bests = card_of(report), report.record.best or []
    named = {(one.group, one.label, one.config) for one in (*card.best, *card.others) if one.code}
    pasted = [best for best in bests if best.lines]
    assert {(group and group.world, label, config) for group, label, config in named} == {
        (best.world, f"best {best.fidelity}", best.use) for best in pasted
    }
    main = card.best[0].group if card.best else None
    assert advised_by(card) == {best.use for best in bests if best.use and main and best.world == main.world}
    assert all((best.gain_percent or 0) >= 1 for best in pasted)


def advised_by(card: Card) -> set[str]:
    """The configs that the line ``change`` names to be used."""
    text = "" if card.change is None else card.change.text
    if "train without DDP" in text:
        return {"single"}
    return set(re.findall(r"(?:^use|; use|or) (\w+), [+-]", text))
