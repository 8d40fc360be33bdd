"""What settings gain over the config of which they change one, out of launches made by hand."""

import random
from collections.abc import Sequence

import pytest

from fixtures.matrix.configs import CONFIGS, DDP_PLAIN, DDP_SETTINGS, NCCL_AUTOMATIC, NCCL_SETTINGS
from fixtures.records.measurement import Measurement
from fixtures.report.under_the_table import setting_lines
from fixtures.session.leaders_in_turns import setting_gains
from fixtures.stats.difference import of_sides
from tests.builders import launch, measured

# Launches of a set of ranks differ so on H200s.
NOISE = 0.0005


def launched(config: str, *step_s: float) -> Measurement:
    return measured(config, 0, launches=tuple(map(launch, step_s)))


NCCL_FILE = (*NCCL_AUTOMATIC, *NCCL_SETTINGS)
DDP_FILE = (*DDP_PLAIN, *DDP_SETTINGS)


def table(seed: int, configs: Sequence[str] = NCCL_FILE, /, **steps_s: float) -> list[Measurement]:
    """Every config of a file with three launches, of 0.1 s unless said. steps_s: config -> its steps."""
    draw = random.Random(seed)
    return [
        launched(name, *(steps_s.get(name, 0.1) * (1 + draw.gauss(0, NOISE)) for _ in range(3))) for name in configs
    ]


def test_a_setting_is_compared_with_the_same_bucket() -> None:
    gains = setting_gains(table(1, bucket_10mb=0.2))
    assert {gain.setting.config.name for gain in gains} == set(NCCL_SETTINGS)
    assert all(gain.setting.config.bucket_cap_mb == gain.without.config.bucket_cap_mb for gain in gains)
    assert {gain.setting.config.name for gain in gains if gain.decided} == {"ctas_4-bucket_10mb", "ctas_8-bucket_10mb"}


def test_a_gain_is_in_steps_per_second_with_its_interval() -> None:
    first = setting_gains(table(2, **{"ctas_8-bucket_10mb": 0.1 / 1.009}))[0]
    assert first.setting.config.name == "ctas_8-bucket_10mb"
    assert first.decided
    low, high = first.interval_percent
    assert 0.5 < low < 0.9 < high < 1.3
    assert low < first.gain_percent < high


def test_a_gain_is_judged_as_two_sides_of_an_ab_test_are() -> None:
    plain, setting = launched("bucket_10mb", 0.1, 0.1001, 0.1003), launched("ctas_8-bucket_10mb", 0.09, 0.0903, 0.0901)
    found = of_sides(plain.launch_medians_s, setting.launch_medians_s)
    (gain,) = setting_gains([plain, setting])
    assert (gain.gain_percent, gain.interval_percent) == (found.percent, found.interval_percent)


def test_what_gains_most_is_one_line() -> None:
    found = table(3, **{"ctas_4-bucket_25mb": 0.0986, "ctas_8-bucket_10mb": 0.0991})
    (line,) = setting_lines(found)
    assert line.startswith("ctas_4-bucket_25mb gains 1.4 % over bucket_25mb (1.")
    assert line.endswith("; 1 more gain less")


def test_where_nothing_gains_automatic_settings_and_plain_buckets_are_best() -> None:
    (line,) = setting_lines(table(4, **{"ctas_4-bucket_25mb": 0.12}))
    of = f"of {len(NCCL_SETTINGS)} other settings none clearly gains, at most 0."
    assert line.startswith(f"NCCL's automatic settings are best here: {of}")
    (line,) = setting_lines(table(8, DDP_FILE))
    of = f"of {len(DDP_SETTINGS)} settings of DDP none clearly gains, at most 0."
    assert line.startswith(f"plain buckets are best here: {of}")


def test_a_variable_of_a_script_is_compared_with_the_script_as_written() -> None:
    of_script = [name for name in CONFIGS if name.startswith("as_written")]
    (line,) = setting_lines(table(9, of_script, **{"as_written-connections_1": 0.0986}))
    assert line.startswith("as_written-connections_1 gains 1.4 % over as_written (1.")
    (line,) = setting_lines(table(4, of_script))
    assert line.startswith(f"the script's own variables are best here: of {len(of_script) - 1} other variables none")


def test_of_equal_settings_one_is_rarely_called_better() -> None:
    named = sum(any(gain.decided for gain in setting_gains(table(seed))) for seed in range(200))
    assert named <= 200 * 0.1


def test_one_launch_and_a_disturbed_run_decide_nothing() -> None:
    lines = setting_lines([launched("bucket_10mb", 0.1), launched("ctas_8-bucket_10mb", 0.05)])
    assert lines == ["one launch decides nothing about NCCL's settings"]
    assert setting_lines(table(5, **{"ctas_8-bucket_10mb": 0.05}), run_disturbed=True) == []


WITHOUT_A_SETTING = tuple(name for name in CONFIGS if not CONFIGS[name].compared_with)


@pytest.mark.parametrize("names", [WITHOUT_A_SETTING, ("ctas_8-bucket_10mb", "bucket_25mb")], ids=["none", "other"])
def test_without_its_automatic_config_a_setting_has_no_gain(names: tuple[str, ...]) -> None:
    assert setting_lines([launched(name, 0.1, 0.1) for name in names]) == []


def test_a_setting_of_ddp_is_compared_with_the_config_that_it_names() -> None:
    gains = setting_gains(table(6, DDP_FILE, **{"fp16-bucket_25mb": 0.05, "builtin_fp16-bucket_25mb": 0.0495}))
    assert {gain.setting.config.name for gain in gains} == set(DDP_SETTINGS)
    assert all(gain.without.config.name == gain.setting.config.compared_with for gain in gains)
    assert gains[0].setting.config.name == "builtin_fp16-bucket_25mb"
    assert [gain.decided for gain in gains].count(True) == 1


def test_ddp_and_nccl_have_a_line_each() -> None:
    of_both = {m.config.name: m for m in (*table(7), *table(7, DDP_FILE, **{"last_bucket_1mb-bucket_25mb": 0.098}))}
    of_nccl, of_ddp = setting_lines(list(of_both.values()))
    assert of_nccl.startswith("NCCL's automatic settings are best here: ")
    assert of_ddp.startswith("last_bucket_1mb-bucket_25mb gains 2.")
    assert " over bucket_25mb (" in of_ddp
