"""The comparison of a speed with the others, and the lines of the table, from measurements made by hand."""

import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from fixtures.machine.gpu_state import LaunchState, Reading
from fixtures.matrix.config import Config
from fixtures.matrix.configs import BY_DEFAULT, CONFIGS, OUTPUTS
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import parse_world
from fixtures.records.loss_comparison import LossComparison
from fixtures.records.measurement import Measurement
from fixtures.records.schema import Reason
from fixtures.report.card import card_of
from fixtures.report.columns import Coloured
from fixtures.report.next_command import command_again, program_as_typed, recording_command
from fixtures.report.table import report_lines
from fixtures.session.run_state import Run
from fixtures.stats.verdict import judge
from tests.builders import (
    BF16_LOSS,
    DDP,
    QUIET_HOST,
    SETTINGS,
    case_of,
    launch,
    lines,
    measured,
    printed,
    report_of,
    run_of,
)


def rows(table: list[str]) -> dict[str, list[str]]:
    """Config -> the cells of its row."""
    filled = [cells for line in table if (cells := line.split()) and cells[0] in CONFIGS]
    return {cells[0]: cells[1:] for cells in filled if cells[1] != "%"}  # a header begins with the unit "ddp %"


SINGLE = measured("single", 10, world="1gpu")
BF16 = measured("bf16", 9)
NO_COMM = measured("no_comm", 9.5)


@pytest.mark.parametrize(
    ("leads_s", "limited"),
    [((0.08, 0.09, 0.07), False), ((0.009, 0.003, 0.08), True), ((0.011, 0.011, 0.001), False), ((None,) * 3, False)],
)
def test_the_host_limits_a_step_when_the_device_has_hardly_any_work_left(
    leads_s: tuple[float | None, ...], limited: bool
) -> None:
    one = measured("ddp", 10, launches=tuple(replace(launch(0.1), host_lead_s=lead) for lead in leads_s))
    assert one.without_lead == limited
    assert one.to_record().host_lead_ms == (leads_s[0] and pytest.approx(1e3 * leads_s[0]))


def test_a_row_has_speed_spread_references_wire_memory_and_verdict() -> None:
    three = (launch(0.1, 0.1, 0.4), launch(0.102), launch(0.098))
    row = rows(lines(measured("bf16", 0, launches=three), DDP, SINGLE, NO_COMM, verbose=True))["bf16"]
    steps_per_s = (0.1 * 0.102 * 0.098) ** (-1 / 3)
    assert row == [
        f"{steps_per_s:.2f}",
        f"{8 * 32 * steps_per_s:.1f}",
        f"{1e3 / steps_per_s:.2f}",
        f"{100 * 0.004 * steps_per_s:.1f}",
        f"{100 * (steps_per_s / 8 - 1):+.1f}",
        f"{100 * steps_per_s / 10:.1f}",
        f"{100 * steps_per_s / 9.5:.1f}",
        "2.1",
        "1",
        "3000",
        *("lossy", "2e-03"),
        "2e-03",
        *("no", "baseline"),
    ]


def test_a_row_without_v_has_what_is_asked_first() -> None:
    """-v adds steps/s, samples/s, scaling, share of communication, MFU and the error of each gradient."""
    wide = lines(BF16, DDP, NO_COMM, measured("bucket_10mb", 9))
    assert rows(wide)["bf16"] == ["111.11", "+12.5", "94.7", "2.1", "3000", "lossy", "2e-03", "no", "baseline"]


def test_what_is_not_known_is_no_column_and_of_one_row_a_dash() -> None:
    assert rows(lines(BF16))["bf16"] == ["111.11", "2.1", "3000", "lossy", "2e-03", "no", "baseline"]  # nor a spread
    assert rows(lines(quiet("bf16", 9), DDP))["ddp"][:2] == ["125.00", "-"]  # one launch has no spread
    no_peak = measured("bf16", 9, launches=(replace(launch(0.1), peak_memory_bytes=None),))
    assert rows(lines(DDP, no_peak))["bf16"][3] == "-"


def test_bytes_that_were_counted_stand_in_the_row_rather_than_those_promised() -> None:
    counted = measured("bf16", 9, launches=(replace(launch(0.1), sent_bytes_per_step=4.3e6),))
    assert rows(lines(DDP, counted))["bf16"][2] == "4.3"
    record = counted.to_record()
    assert (record.wire_bytes_per_step, record.wire_bytes_per_rank) == (17_200_000, 4.3e6)


def test_the_verdict_stands_in_the_row_with_the_change() -> None:
    assert rows(lines(DDP, history_s=[1 / 8]))["ddp"][-3:] == ["ok,", "0.0", "%"]
    assert rows(lines(DDP, history_s=[1 / 10]))["ddp"][-3:] == ["slower", "25.0", "%"]
    assert rows(lines(DDP, history_s=[1 / 4]))["ddp"][-3:] == ["faster", "50.0", "%"]


def test_what_spoils_a_number_stands_next_to_it_once() -> None:
    fine = Reading(sm_mhz=1980, max_sm_mhz=1980, reasons=())
    spoiled = LaunchState(before=(fine,), after=(replace(fine, sm_mhz=1410),), lasted_s=4)
    launches = tuple(replace(launch(0.1), gpu_state=spoiled) for _ in range(3))
    table = lines(DDP, measured("bf16", 9, launches=launches))
    remark = "GPU 0: SM clock 1410 of 1980 MHz"
    assert [line for line in table if remark in line] == [f"bf16: {remark}"]


def bucketed(config: str, *bucket_mb: float, largest_mb: float = 154.4) -> Measurement:
    """Measured with these buckets, of a model whose largest parameter is that of GPT-2."""
    gradients = [(round(1e6 * largest_mb), 4), (3072, 4)]
    sizes = [round(1e6 * size) for size in bucket_mb]
    launches = (replace(launch(0.1), bucket_bytes=sizes, gradients=gradients),)
    return measured(config, 0, workload="resnet50", launches=launches)


def test_buckets_that_cannot_be_as_small_as_asked_are_reported_once_with_their_sizes() -> None:
    small = [bucketed(f"{hook}bucket_10mb", 11.8, 12.1, 164.6) for hook in ("", "bf16-")]
    table = lines(*small, bucketed("bucket_50mb", 54.3, 180.2), bucketed("bucket_400mb", 420, 78))
    assert [line for line in table if "never smaller" in line] == [
        "a bucket is never smaller than its largest parameter, here of 154.4 MB: the largest bucket has "
        "164.6 MB with bucket_cap_mb=10 (10.5 MB), 180.2 MB with bucket_cap_mb=50 (52.4 MB)"
    ]
    full = bucketed("bucket_10mb", 11.8, 12.1, largest_mb=2)
    assert not any("never smaller" in line for line in lines(full, bucketed("ddp_default", 164.6)))


def test_each_workload_world_and_interconnect_has_a_table_with_its_transport() -> None:
    table = lines(measured("ddp", 4, interconnect="shm"), SINGLE, DDP, measured("ddp", 7, workload="resnet50"))
    assert [line for line in table if "samples a rank" in line] == [
        "vit_l_32, 1gpu, 32 samples a rank (P2P/CUMEM on 192 channels)",
        "vit_l_32, 8gpu, 32 samples a rank, native (P2P/CUMEM on 192 channels)",
        "vit_l_32, 8gpu, 32 samples a rank, shm (P2P/CUMEM on 192 channels)",
        "resnet50, 8gpu, 64 samples a rank, native (P2P/CUMEM on 192 channels)",
    ]


def test_the_fastest_config_comes_first_the_limit_last_and_what_is_slower_before_all_in_red() -> None:
    assert list(rows(lines(NO_COMM, DDP, measured("bucket_10mb", 8.5), BF16))) == [
        *("bf16", "bucket_10mb", "ddp", "no_comm")
    ]
    run = Run(settings=SETTINGS, host_load=QUIET_HOST)
    assert printed(run) == []
    for one, history_s in ((DDP, [[0.1]]), (NO_COMM, []), (BF16, [[0.125]])):
        run.cases[one.config.name] = case_of(measurement=one, verdict=judge(one.launch_medians_s, history_s))
    coloured = [line for line in report_lines(run, report_of(run)) if isinstance(line, Coloured)]
    assert [(line.split()[0], line.colour) for line in coloured] == [("ddp", "red")]
    assert list(rows(printed(run))) == ["ddp", "bf16", "no_comm"]


def test_a_cell_of_two_tests_is_shown_once_with_the_verdict_that_asks_for_attention() -> None:
    run = Run(settings=SETTINGS, host_load=QUIET_HOST)
    for test, history_s in (("a", []), ("b", [[0.1]]), ("c", [[0.125]])):  # no baseline, slower, ok
        run.cases[test] = case_of(measurement=DDP, verdict=judge(DDP.launch_medians_s, history_s))
    shown = [line for line in printed(run) if line.startswith("ddp ")]
    assert len(shown) == 1
    assert shown[0].endswith("slower 25.0 %")


UNKNOWN_LOSS = "effect on the loss not measured (pytest perf/test_training.py)"
OFF = "gradient error 2e-03"
BF16_GAIN = "+28.6 % over ddp_default (95 % interval +28.6 to +28.6 %)"


def best(*measurements: Measurement) -> list[str]:
    """Whether they were disturbed, the best of them, and the lines to paste."""
    card = card_of(report_of(run_of(*measurements)))
    proved = "" if card.proved is None else card.proved.text
    disturbed = [f"proved: {proved}"] if "disturbed" in proved else []
    found = [[f"{one.label}: {one.text}", *(f"    {line}" for line in one.code)] for one in card.best]
    return [*disturbed, *chain.from_iterable(found)]


def launched(config: str, *ms: float) -> Measurement:
    """A config whose launches had these medians, in ms a step."""
    return measured(config, 0, launches=tuple(launch(one / 1e3) for one in ms))


def quiet(config: str, steps_per_s: float) -> Measurement:
    """Three launches that spread by 0.2 %."""
    return launched(config, *(1e3 / steps_per_s * spread for spread in (0.999, 1, 1.001)))


def on_one(config: str, *ms: float) -> Measurement:
    return replace(launched(config, *ms), world=parse_world("1gpu"))


ALONE = on_one("single", 100, 100.1, 99.9)


def test_the_best_lossless_and_the_best_lossy_config_come_with_their_code() -> None:
    slower = [quiet("powersgd_rank1", 8.5), quiet("ddp_default", 7), quiet("no_comm", 9.5)]
    assert best(quiet("ddp", 8), quiet("bf16", 9), quiet("static_graph", 8.8), *slower) == [
        "best lossless: static_graph, 8.80 steps/s, +25.7 % over ddp_default (95 % interval +25.7 to +25.7 %)",
        *(f"    {line}" for line in CONFIGS["static_graph"].lines()),
        f"best lossy: bf16, 9.00 steps/s, {BF16_GAIN}, {OFF}; {UNKNOWN_LOSS}",
        *(f"    {line}" for line in CONFIGS["bf16"].lines()),
    ]


def on_own_model(*steps_per_s: float) -> Run:
    """``ddp_default`` and ``bf16`` of a workload of the user's."""
    both = zip(("ddp_default", "bf16"), steps_per_s, strict=True)
    mine = replace(WORKLOADS["vit_l_32"], name="mine")
    run = run_of(*(replace(quiet(*one), workload=mine) for one in both))
    run.own_workloads["mine"] = mine
    return run


HIGHER_LOSS = replace(BF16_LOSS, word="higher", change_percent=9, interval_percent=(8, 10))


@pytest.mark.parametrize(
    ("loss", "says", "advised"),
    [
        (BF16_LOSS, "+0.4 % (+0.3 to +0.5 % over 2 seeds; as written differs by 0.6 % between", True),
        (HIGHER_LOSS, "+9.0 % (+8.0 to +10.0 %", False),
    ],
    ids=["same", "higher than seeds explain"],
)
def test_a_lossy_config_has_what_its_loss_says_and_is_advised_unless_that_is_higher(
    loss: LossComparison, says: str, advised: bool
) -> None:
    run = on_own_model(7, 9)
    run.loss_comparisons.append(loss)
    found = next(one for one in card_of(report_of(run)).best if one.label == "best lossy")
    assert f"; final loss {says}" in found.text
    assert bool(found.code) == advised


def test_copies_single_the_limit_and_one_config_alone_are_never_best() -> None:
    names = ("feed_resident", "feed_pinned", "feed_loader", "feed_prefetch", "checkpoint_copy", "single", "no_comm")
    others = [quiet(name, 99) for name in (*names, *OUTPUTS)]
    assert [line.split(",")[0] for line in best(DDP, *others) if line.startswith("best")] == ["best lossless: ddp"]
    assert best(*others) == []
    assert best(DDP) == []


def test_the_best_of_the_tables_that_the_closing_block_is_not_about_stand_below_them() -> None:
    slow = [replace(one, world=parse_world("4gpu")) for one in (measured("ddp", 7), measured("bf16", 6))]
    named = [line for line in lines(DDP, BF16, *slow) if line.startswith(("best", "vit_l_32"))]
    assert [line.partition(" steps/s")[0] for line in named] == [
        "vit_l_32, 4gpu, 32 samples a rank, native (P2P/CUMEM on 192 channels)",
        "best lossless: ddp, 7.00",
        "best lossy: bf16, 6.00",
        "vit_l_32, 8gpu, 32 samples a rank, native (P2P/CUMEM on 192 channels)",
    ]


def test_a_hook_that_delivers_more_than_it_promises_is_called_neither_lossless_nor_lossy() -> None:
    def exact(lossless: bool) -> Measurement:
        return measured("bf16", 9, launches=(replace(launch(1 / 9), gradient_error=0.0, gradient_lossless=lossless),))

    assert rows(lines(DDP, exact(True)))["bf16"][-3] == "unpromised"
    record = exact(True).to_record()
    assert (record.lossless, record.fidelity, record.gradient_error) == (False, "lossy", 0.0)
    assert rows(lines(DDP, exact(False)))["bf16"][-4:-2] == ["lossy", "0e+00"]


YES = "proved: no, other work disturbed the run: "
NOISY = (
    launched("ddp", 90, 150, 120),
    launched("ddp_default", 150, 100, 80),
    launched("bucket_10mb", 60, 160, 100),
    launched("bucket_100mb", 70, 60, 90),
    launched("no_comm", 60, 85, 70),
)


def test_the_summary_says_the_same_of_a_disturbed_world_as_its_table() -> None:
    both = [DDP, *(replace(one, world=parse_world("4gpu")) for one in NOISY)]
    of_table, *_ = [line for line in lines(*both) if line.startswith("disturbed: ")]
    assert best(*both)[0].startswith(of_table.replace("disturbed: ", f"{YES}vit_l_32 4gpu native: ").partition(";")[0])


SECOND_NAMES = {"feed_pinned", *(f"{hook}bucket_2000mb" for hook in ("", "bf16-", "powersgd_rank1-", "no_comm-"))}


def of_a_default_run(*, slower: str = "", verbose: bool = False) -> list[str]:
    """The table of the configs that ``pytest perf`` measures; names of one config share its launches."""
    run = Run(settings=SETTINGS, host_load=QUIET_HOST)
    distinct: list[Config] = []
    for name in (name for name in CONFIGS if name in BY_DEFAULT):
        unnamed = replace(CONFIGS[name], name="")
        distinct += [] if unnamed in distinct else [unnamed]
        one = quiet(name, 8 + distinct.index(unnamed) / 100)
        history_s = [[0.09]] if name == slower else []
        run.cases[name] = case_of(measurement=one, verdict=judge(one.launch_medians_s, history_s))
    return printed(run, verbose=verbose)


def test_a_config_with_two_names_is_shown_once_unless_a_row_needs_attention() -> None:
    found = of_a_default_run()
    assert not SECOND_NAMES & rows(found).keys()
    assert {"bf16", "powersgd_rank1", "static_graph_bucket_view", "no_comm"} < rows(found).keys()
    assert "measured once, the same on this model: no_comm, no_comm-bucket_2000mb" in found
    assert rows(of_a_default_run(verbose=True)).keys() > SECOND_NAMES
    assert "bf16-bucket_2000mb" in rows(of_a_default_run(slower="bf16-bucket_2000mb"))
    same = [replace(quiet("bf16", 9), config=CONFIGS[name]) for name in ("bf16", "bf16-bucket_2000mb")]
    assert best(*same, quiet("fp16", 8)) == [f"best lossy: bf16, 9.00 steps/s, {OFF}"]


@pytest.mark.parametrize("over_percent", [0.5, 1.9])
def test_a_config_without_a_hook_may_be_a_little_faster_than_no_comm(over_percent: float) -> None:
    found = best(quiet("no_comm", 9), quiet("ddp", 8), quiet("ddp_default", 9 * (1 + over_percent / 100)))
    assert found[0].startswith("best lossless: ddp_default, ")


def test_a_wrong_hook_is_neither_best_nor_a_sign_of_a_disturbed_machine() -> None:
    wrong = replace(quiet("bf16", 20), wrong=True)
    assert [
        line for line in best(quiet("no_comm", 9), quiet("ddp", 8), wrong) if line.startswith(("best", "dist"))
    ] == ["best lossless: ddp, 8.00 steps/s"]


# The command to type


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["perf"], "pytest perf --benchmark-save=NAME"),
        (
            ["perf", "-k", "bf16 or ddp", "--workload=my:wl", "--interconnect", "shm"],
            "PYTHONPATH='/src:/my src' pytest perf -k 'bf16 or ddp' --workload=my:wl --interconnect shm "
            "--benchmark-save=NAME",
        ),
        (
            ["perf", "-v", "--junitxml=night.xml", "--traces", "night", "-vv", "--junit-xml", "night.xml", "-x"],
            "pytest perf -x --benchmark-save=NAME",
        ),
        (
            ["--benchmark-json", "night.json", "perf", "--require-baseline", "--steps=8"],
            "pytest perf --steps=8 --benchmark-save=NAME",
        ),
        (["--benchmark-save=one", "perf", "--benchmark-autosave"], "pytest perf --benchmark-save=NAME"),
    ],
)
def test_the_command_that_records_selects_and_measures_what_this_one_did(
    arguments: list[str], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/src:/my src")
    assert recording_command(arguments) == command


def test_the_command_that_measures_more_has_the_option_once() -> None:
    for typed in (["--launches", "1"], ["--launches=1"], []):
        command = command_again([*typed, "perf", "-k", "bf16 or ddp"], ("pytest",), "--launches=2")
        assert command == "pytest perf -k 'bf16 or ddp' --launches=2"


@pytest.mark.parametrize(
    ("python", "script", "said"),
    [
        ("", "PATH/pytest", "pytest"),
        ("", "bin/pytest", "bin/pytest"),
        ("bin/python", "packages/pytest/__main__.py", "bin/python -m pytest"),
        ("PATH/python", "packages/pytest/__main__.py", "python -m pytest"),
    ],
)
def test_the_program_is_named_as_it_was_typed(
    python: str, script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell replaces what it finds on PATH by its file."""
    for name in ("python", "pytest"):
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [script.replace("PATH", str(tmp_path))])
    monkeypatch.setattr(sys, "orig_argv", [python.replace("PATH", str(tmp_path))])
    assert " ".join(program_as_typed()) == said


def test_the_first_workload_is_the_first_on_the_command_line() -> None:
    """Not in the alphabet, nor in the order of the tests."""
    run = run_of(measured("ddp", 8, workload="resnet50"), DDP)
    run.settings = replace(SETTINGS, workloads={name: WORKLOADS[name] for name in ("vit_l_32", "resnet50")})
    assert [group.workload for group in report_of(run).tables] == ["vit_l_32", "resnet50"]
    assert [line.split(",")[0] for line in printed(run) if ", 8gpu, " in line] == ["vit_l_32", "resnet50"]


@pytest.mark.parametrize(
    ("measurements", "reason", "use"),
    [
        ([launched("ddp_default", 90.0, 90.4, 90.2), launched("bf16", 90.2, 90.0, 90.1)], Reason.NOT_FASTER, None),
        ([launched("ddp_default", 90.0), launched("bf16", 50.0)], Reason.ONE_LAUNCH, None),
        ([DDP, measured("static_graph", 8.8), measured("ddp_default", 8.4)], Reason.ONE_LAUNCH, None),
        ([launched("ddp_default", 100, 103, 101), launched("static_graph", 101, 99, 102)], Reason.UNDECIDED, None),
        # On 8 H200, vit_l_32.
        (
            [quiet("ddp_default", 11.12), quiet("bf16", 10.90), quiet("bf16_powersgd_rank1", 10.27)],
            Reason.NOT_FASTER,
            None,
        ),
        ([quiet("bf16", 9), quiet("fp16", 8)], Reason.NO_REFERENCE, None),
        ([quiet("ddp_default", 7), quiet("no_comm", 7.5)], Reason.ALONE, None),
        ([launched("ddp", 60, 120), launched("bucket_10mb", 60, 61)], Reason.DISTURBED, None),
        (NOISY, Reason.DISTURBED, None),
        ([measured("no_comm", 9), DDP, measured("bf16", 11.2)], Reason.DISTURBED, None),
        ([quiet("single", 9), quiet("ddp", 8), quiet("bf16", 9.36)], Reason.DISTURBED, None),
        ([quiet("ddp_default", 7), quiet("bucket_10mb", 8)], Reason.FASTER, "bucket_10mb"),
    ],
)
def test_a_table_has_a_reason_and_what_to_use(measurements: list[Measurement], reason: Reason, use: str | None) -> None:
    """Its words: test_card.py."""
    best = (report_of(run_of(*measurements)).record.best or [])[-1]
    assert (best.reason, best.use) == (reason, use)


def test_a_config_whose_loss_was_not_compared_is_why_none_is_advised() -> None:
    bests = report_of(on_own_model(7, 9)).record.best or []
    (best,) = bests[1:]
    assert (best.config, best.reason, best.use, best.lines) == ("bf16", Reason.LOSS, None, None)
