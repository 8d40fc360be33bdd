"""Comparisons of machines, and the ratio of their speeds."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fixtures.extras.compare.command import Devices, MachineComparison, Row, compare, comparison_lines
from fixtures.extras.compare.machine_speeds import Estimate, estimate, ratio, read_machines
from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.recorded import json_of
from fixtures.records.files import BadRecord, read_record
from tests.builders import TRAINED
from tests.command_line import command_here, refused

ROOT = Path(__file__).parents[3]
BASELINES = ROOT / "baselines"
NVLINK, SHM = "8x-nvidia-h200-nv18", "8x-nvidia-h200-nv18-shm"
L40S, A100 = (ROOT / f"studies/published/{name}.json" for name in ("8x_l40s", "8x_a100"))
PCIE, NV = "g6e.48xlarge", "p4d.24xlarge"


def measured(config: str, *steps_s: float, world: str = "8gpu", batch: int = 32, **more: Any) -> dict[str, Any]:
    """What a record has of one test, with these launches."""
    ranks = int(world[:-3])
    mean_s = math.exp(sum(map(math.log, steps_s)) / len(steps_s))
    known = CONFIGS.get(config, CONFIGS["ddp"])
    info = {
        "workload": "mine",
        "config": config,
        "world": world,
        "world_size": ranks,
        "interconnect": "native",
        "launch_medians_s": list(steps_s),
        "steps_per_s": 1 / mean_s,
        "samples_per_s": ranks * batch / mean_s,
        "samples_per_step": ranks * batch,
        "fidelity": "lossless",
        "config_fingerprint": {"ddp": known.ddp, "training_options": known.training_options()},
        **more,
    }
    return {"fullname": f"perf/test_x.py::test_x[{info['workload']}-{world}-{config}]", "extra_info": info}


def write(file: Path, instance: str, *tests: dict[str, Any], **run: Any) -> Path:
    """A record of an instance."""
    for one in tests:
        one["extra_info"]["instance"] = instance
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"schema": 1, "finished": "2026-10-01T00:00:00+00:00", "benchmarks": tests, **run}))
    return file


def compared(*arguments: str | Path, prices: dict[str, float] | None = None) -> MachineComparison:
    return compare(read_machines([str(argument) for argument in arguments], BASELINES), prices or {})


def only(result: MachineComparison) -> Devices:
    (devices,) = result.devices
    return devices


def row_of(devices: Devices, machine: str) -> Row:
    (row,) = (row for row in devices.rows if row.machine == machine)
    return row


def two(tmp_path: Path, a: list[dict[str, Any]], b: list[dict[str, Any]]) -> tuple[Path, Path]:
    return write(tmp_path / "a.json", "a", *a), write(tmp_path / "b.json", "b", *b)


def test_the_published_experiment_leads_to_its_conclusion() -> None:
    """The slower GPUs with the faster link win on 8 GPUs and not on 1, unless PowerSGD may change the gradients."""
    one, eight = compared(L40S, A100).devices
    assert [(p.faster.machine, p.lossy, round(p.ratio.value, 2)) for p in one.pairs] == [(PCIE, False, 1.72)]
    assert [(p.faster.machine, p.lossy, round(p.ratio.value, 2)) for p in eight.pairs] == [
        (NV, False, 3.46),
        (PCIE, True, 1.52),
    ]
    assert [(row.machine, row.speed.config, row.speed.fidelity) for row in eight.rows] == [
        (PCIE, "ddp", "lossless"),
        (PCIE, "powersgd", "lossy"),
        (NV, "bucket_100mb", "lossless"),
    ]
    assert [pair.decided for pair in (*one.pairs, *eight.pairs)] == [None, None, None]
    for file in (L40S, A100):  # no records to judge against
        with pytest.raises(BadRecord, match="is not a record of ddp-perf"):
            read_record(file)


def test_records_that_ship_are_compared_by_their_own_numbers_in_json() -> None:
    files = [BASELINES / name / "0001_vit.json" for name in (NVLINK, SHM)]
    (devices,) = json.loads(command_here("compare", *files, "--json").output)["devices"]
    (row,) = (row for row in devices["rows"] if row["machine"] == NVLINK)
    assert row["speed"]["config"] == "bucket_50mb"
    assert row["speed"]["samples_per_s"]["value"] == pytest.approx(2905, abs=1)
    assert row["speed"]["communication_percent"] == pytest.approx(2.4, abs=0.05)
    assert row["scaling_efficiency_percent"] == pytest.approx(95.4, abs=0.1)
    pair = devices["pairs"][0]
    assert (pair["faster"]["machine"], pair["slower"]["machine"], pair["decided"]) == (NVLINK, SHM, True)
    assert pair["ratio"]["interval"][0] < pair["ratio"]["value"] < pair["ratio"]["interval"][1]


SINGLE = {"world": "1gpu"}


@pytest.mark.parametrize(
    ("tests", "scaling"),
    [
        ([("single", 1.0, SINGLE), ("ddp", 1.25, {})], 80),
        # All ways of compiling have the compiled single.
        ([("single_compile", 1.0, SINGLE), ("single", 2.0, SINGLE), ("compile-ddp_optimizer", 1.25, {})], 80),
        # A graph is not measured against an eager single.
        ([("single", 1.0, SINGLE), ("graph-bucket_25mb", 0.5, {})], None),
        ([("ddp", 1.0, {})], None),
    ],
)
def test_the_scaling_is_against_what_computes_in_the_same_way(
    tests: list[tuple[str, float, dict[str, Any]]], scaling: float | None, tmp_path: Path
) -> None:
    a = [measured(config, step_s, **more) for config, step_s, more in tests]
    row = row_of(only(compared(*two(tmp_path, a, [measured("ddp", 1.0)]))), "a")
    assert row.scaling_efficiency_percent == pytest.approx(scaling)


@pytest.mark.parametrize("of_limit", [80, None])
def test_the_share_lost_is_the_records(of_limit: float | None, tmp_path: Path) -> None:
    files = two(tmp_path, [measured("ddp", 1.0, of_limit_percent=of_limit)], [measured("ddp", 1.0)])
    assert row_of(only(compared(*files)), "a").speed.communication_percent == (of_limit and 20)


@pytest.mark.parametrize(("of_b", "cheaper"), [({}, None), ({"b": 17.0}, "b"), ({"b": 18.0}, None), ({"b": 19.0}, "a")])
def test_prices_give_the_cost_the_loss_and_where_the_choice_flips(
    of_b: dict[str, float], cheaper: str | None, tmp_path: Path
) -> None:
    """256 samples a step: A in a second, B in two. Of two prices the interval decides."""
    a = [measured("ddp", 1.0, 1.01, 0.99, of_limit_percent=75)]
    devices = only(compared(*two(tmp_path, a, [measured("ddp", 2.0, 2.02, 1.98)]), prices={"a": 36, **of_b}))
    row = row_of(devices, "a")
    assert row.million_costs == pytest.approx(36 / (256 * 3600) * 1e6, rel=1e-4)
    assert row.lost_a_day == pytest.approx(24 * 36 * 0.25, rel=1e-3)
    (pair,) = devices.pairs
    assert pair.cheaper == cheaper
    assert pair.slower_wins_below == pytest.approx(18)
    assert pair.faster_wins_below == (pytest.approx(2 * of_b["b"]) if of_b else None)


def test_machines_within_their_intervals_are_not_decided(tmp_path: Path) -> None:
    result = compared(*two(tmp_path, [measured("ddp", 1.0, 1.1, 0.9)], [measured("ddp", 1.02, 1.12, 0.92)]))
    assert only(result).pairs[0].decided is False
    assert "8gpu mine: not decided which is faster: a is 1.02" in " ".join(comparison_lines(result))


def test_several_records_count_by_record_and_not_by_launch(tmp_path: Path) -> None:
    for number, step_s in enumerate((1.0, 1.1, 1.2)):
        write(tmp_path / f"a/{number}.json", "a", measured("ddp", step_s, step_s * 1.001, step_s * 0.999))
    other = write(tmp_path / "b.json", "b", measured("ddp", 1.0, 1.001, 0.999))
    speed = row_of(only(compared(tmp_path / "a", other)), "a").speed.samples_per_s
    assert speed.degrees == 2
    assert speed.interval is not None
    assert speed.interval[0] < 256 / 1.2 < 256 / 1.0 < speed.interval[1]


def test_a_lossy_config_is_named_only_where_it_is_faster(tmp_path: Path) -> None:
    lossy: dict[str, Any] = {"fidelity": "lossy", "gradient_error": 0.002}
    a = [measured("ddp", 1.0, 1.001, 0.999), measured("bf16", 0.9, 0.901, 0.899, **lossy)]
    b = [measured("ddp", 1.0, 1.001, 0.999), measured("bf16", 1.0, 1.002, 0.998, **lossy)]
    result = compared(*two(tmp_path, a, b))
    assert [(row.machine, row.speed.config) for row in only(result).rows] == [("a", "ddp"), ("a", "bf16"), ("b", "ddp")]
    lines = " ".join(comparison_lines(result))
    assert "bf16 (lossy): gradient error 2e-03" in lines
    assert "8gpu mine, lossy allowed (bf16, gradient error 2e-03): a is 1.11" in lines
    assert [(pair.lossy, pair.decided) for pair in only(result).pairs] == [(False, False), (True, True)]


def test_a_config_that_trains_otherwise_is_never_the_fastest(tmp_path: Path) -> None:
    named = ("accumulate_4", "batch_x2", "local_sgd_8", "adamw", "fsdp2", "feed_resident", "loss_item_every_10")
    others = [
        *(measured(config, 0.1) for config in named),
        measured("mine_too", 0.1, config_fingerprint={"training_options": {"accumulate": "4"}}),
        measured("wrong", 0.1, fidelity="wrong"),
        measured("no_comm", 0.1, fidelity="limit"),
    ]
    for other in others:
        files = two(tmp_path, [measured("ddp", 1.0), other], [measured("ddp", 1.0)])
        assert row_of(only(compared(*files)), "a").speed.config == "ddp", other


def test_where_one_machine_has_more_configs_the_common_ones_are_compared_too(tmp_path: Path) -> None:
    a = [measured("ddp", 2.0, 2.001, 1.999), measured("bucket_10mb", 1.0, 1.001, 0.999)]
    result = compared(*two(tmp_path, a, [measured("ddp", 2.0, 2.001, 1.999)]))
    (pair,) = only(result).pairs
    assert (pair.both, pair.ratio_of_both and round(pair.ratio_of_both.value, 3)) == (1, 1.0)
    assert "with the only lossless config that both have, a is 1.000" in " ".join(comparison_lines(result))


def test_machines_of_different_sizes_are_compared_and_a_workload_of_one_alone_is_named(tmp_path: Path) -> None:
    devices = only(compared(*two(tmp_path, [measured("ddp", 1.0)], [measured("ddp", 1.0, world="2gpu")])))
    assert devices.worlds == ("8gpu", "2gpu")
    assert devices.pairs[0].ratio.value == pytest.approx(4)
    files = two(tmp_path, [measured("ddp", 1.0), measured("ddp", 1.0, workload="alone")], [measured("ddp", 1.0)])
    assert "alone: only on a" in comparison_lines(compared(*files))


def fingerprint(**keys: Any) -> dict[str, Any]:
    return {"workload_fingerprint": {**json_of(TRAINED), **keys}}


BATCHES = "mine: batch 32 on a, 64 on b: compared in samples/s"


@pytest.mark.parametrize(
    ("b", "notes", "ratio"),
    [
        ({"batch": 64, **fingerprint(batch_size=64)}, [BATCHES], 2),
        ({"batch": 64}, [BATCHES, "mine: no fingerprint of the model on b: taken to be the same by its name"], 2),
        (
            fingerprint(activation_dtypes=["bfloat16"]),
            ["mine: dtypes of the forward pass float32 on a, bfloat16 on b"],
            1,
        ),
    ],
)
def test_another_batch_or_arithmetic_of_the_same_model_is_reported(
    b: dict[str, Any], notes: list[str], ratio: float, tmp_path: Path
) -> None:
    result = compared(*two(tmp_path, [measured("ddp", 1.0, **fingerprint())], [measured("ddp", 1.0, **b)]))
    assert list(result.notes) == notes
    assert only(result).pairs[0].ratio.value == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"parameters_sha256": "two"}, "mine is not compared: a and b trained another model under this name"),
        ({"sample": ["float32[4]"]}, "mine is not compared: sample float32[3] on a, float32[4] on b"),
    ],
)
def test_another_model_or_sample_under_a_name_is_refused(other: dict[str, Any], said: str, tmp_path: Path) -> None:
    files = two(tmp_path, [measured("ddp", 1.0, **fingerprint())], [measured("ddp", 1.0, **fingerprint(**other))])
    assert said in command_here("compare", *files).exits(1).output


def test_older_records_of_another_workload_are_left_out_and_counted(tmp_path: Path) -> None:
    for number, (sha, step_s) in enumerate([("old", 9.0), ("new", 1.0)]):
        one = measured("ddp", step_s, **fingerprint(parameters_sha256=sha))
        write(tmp_path / f"a/{number}.json", "a", one, finished=f"2026-10-0{number + 1}T00:00:00+00:00")
    b = write(tmp_path / "b.json", "b", measured("ddp", 1.0, **fingerprint(parameters_sha256="new")))
    result = compared(tmp_path / "a", b)
    assert row_of(only(result), "a").speed.samples_per_s.value == pytest.approx(256)
    assert result.machines[0].left_out == (
        "mine 8gpu ddp: 1 of 2 records are of another workload or config under this name, left out",
    )


def test_a_file_or_a_folder_of_an_instance_is_a_machine(tmp_path: Path) -> None:
    """Two records of an instance are under the names of their files."""
    files = [write(tmp_path / f"{name}.json", "same", measured("ddp", 1.0)) for name in ("before", "after")]
    assert [machine.name for machine in compared(*files).machines] == [str(file) for file in files]
    for name in ("a", "b"):
        write(tmp_path / f"all/{name}/0001_x.json", name, measured("ddp", 1.0))
    assert [machine.name for machine in compared(tmp_path / "all").machines] == ["a", "b"]


def test_the_output_fits_a_terminal_with_long_names_and_prices(tmp_path: Path) -> None:
    config = "a_hook_of_the_user_with_a_very_long_name-bucket_2000mb"
    a, b = (
        write(
            tmp_path / f"{name}.json",
            name * 60,
            measured("single", 1.0, 1.1, world="1gpu"),
            measured("ddp", 3.0, 3.01),
            measured(config, 1.0, 1.01, fidelity="lossy", gradient_error=0.1),
            measured("no_comm", 0.5, fidelity="limit"),
        )
        for name in ("a", "b")
    )
    lines = comparison_lines(compared(a, b, prices={"a" * 60: 123456.78, "b" * 60: 98765.43}))
    assert max(map(len, lines)) <= 100
    assert max(map(len, comparison_lines(compared(NVLINK, SHM, L40S, A100, prices={NVLINK: 1000})))) <= 100


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((L40S, A100, f"--price={PCIE}=0"), f"--price {PCIE}: must be over 0, got 0"),
        ((L40S, A100, f"--price={PCIE}=-1"), f"--price {PCIE}: must be over 0, got -1"),
        ((L40S, A100, f"--price={PCIE}=nan"), f"--price {PCIE}: must be over 0, got nan"),
        ((L40S, A100, f"--price={PCIE}=inf/h"), f"--price {PCIE}: must be over 0, got inf/h"),
        ((L40S, A100, f"--price={PCIE}=much"), f"--price {PCIE}: must be a number, got 'much'"),
        ((L40S, A100, "--price=32.77"), "--price must be NAME=PRICE, got '32.77'"),
        ((L40S, A100, "--price=p5=3"), f"--price names 'p5': there are {PCIE}, {NV}"),
        ((L40S, A100, f"--price={PCIE}=1", f"--price={L40S}=2"), f"--price {PCIE} has two prices"),
        (("nowhere", A100), "no file, folder or instance in "),
        ((A100,), f"one machine to compare ({NV}): give two or more"),
        ((A100, A100), f"{A100} is given twice"),
        ((ROOT / "docs", A100), f"{ROOT / 'docs'}: there are no records of ddp-perf in it"),
    ],
)
def test_a_wrong_argument_is_named_in_the_last_line(arguments: tuple[str | Path, ...], said: str) -> None:
    last = refused("compare", *arguments).splitlines()[-1]
    assert last.removeprefix("python -m fixtures compare: error: ").startswith(said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot be read: "),
        ('{"schema": 99, "benchmarks": [1]}', "has schema 99, this version of ddp-perf reads 1"),
        ('{"published": "x", "machine": "m", "figures": []}', "published figures: Expected `array` of length >= 1"),
        ('{"published": "x", "machine": "m", "figures": [{}]}', "published figures: Object missing required field"),
        ("[]", "is not a record of ddp-perf: it has no schema"),
        ({"steps_per_s": 0}, "Expected `float` > 0.0 - at `$.figures[0].steps_per_s`"),
        ({"samples_per_step": 0}, "Expected `int` >= 1 - at `$.figures[0].samples_per_step`"),
        ({"steps_per_s": 1e20}, "Expected `float` < 1000000000.0 - at `$.figures[0].steps_per_s`"),
        ({"world": "0gpu"}, "Expected `str` matching regex '^[1-9][0-9]{0,8}(gpu|cpu)"),
        ({"world": "8gpu\n"}, "Expected `str` matching regex '^[1-9][0-9]{0,8}(gpu|cpu)"),
        ({"communication_percent": 100}, "Expected `float` < 100.0 - at `$.figures[0].communication_percent`"),
        ({"communication_percent": -1}, "Expected `float` >= 0.0 - at `$.figures[0].communication_percent`"),
        ({"world": "8gpu", "config": "ddp"}, "published figures: vit_l_32 8gpu ddp is there twice"),
    ],
)
def test_an_unreadable_file_or_a_wrong_figure_is_one_line(
    content: str | dict[str, Any], said: str, tmp_path: Path
) -> None:
    """content: of the file, or what is another in the first published figure."""
    published = json.loads(A100.read_text())
    published["figures"][0].update({} if isinstance(content, str) else content)
    (tmp_path / "x.json").write_text(content if isinstance(content, str) else json.dumps(published))
    (line,) = refused("compare", tmp_path / "x.json", L40S).splitlines()
    assert line.startswith(f"{tmp_path / 'x.json'}: ")
    assert said in line


# Means of logarithms and their ratio: Welch's interval, against scipy and by simulation


ONE, OTHER = [100.0, 101.0, 99.5], [80.0, 83.0, 81.0, 79.0]


def test_the_estimate_is_the_geometric_mean_with_the_interval_of_t_and_the_ratio_has_that_of_welch() -> None:
    logs = np.log(ONE)
    expected = stats.t.interval(0.95, 2, loc=logs.mean(), scale=stats.sem(logs))
    found = estimate(ONE)
    assert found.value == pytest.approx(stats.gmean(ONE))
    assert found.interval == pytest.approx([math.exp(bound) for bound in expected])
    of_both = stats.ttest_ind(np.log(ONE), np.log(OTHER), equal_var=False).confidence_interval(0.95)
    found = ratio(estimate(ONE), estimate(OTHER))
    assert found.value == pytest.approx(stats.gmean(ONE) / stats.gmean(OTHER))
    assert found.interval == pytest.approx([math.exp(of_both.low), math.exp(of_both.high)])


def test_one_value_has_no_interval_and_decides_nothing() -> None:
    assert estimate([5.0]).interval is None
    apart = ratio(estimate([5.0]), estimate(OTHER))
    assert apart.value == pytest.approx(5 / stats.gmean(OTHER))
    assert (apart.interval, apart.is_not(1)) == (None, None)
    # Equal values have an interval without width.
    apart = ratio(estimate([3.0, 3.0]), estimate([2.0, 2.0]))
    assert apart.interval == pytest.approx((1.5, 1.5))
    assert apart.is_not(1)


def test_equal_machines_are_called_different_in_one_of_twenty() -> None:
    random = np.random.default_rng(7)

    def machine() -> Estimate:
        return estimate(list(np.exp(random.normal(0, 0.02, 3))))

    assert 0.02 < sum(bool(ratio(machine(), machine()).is_not(1)) for _ in range(2000)) / 2000 < 0.065
