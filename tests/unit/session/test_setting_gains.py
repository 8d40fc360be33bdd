"""What settings of NCCL gain over the same config without them, out of launches made by hand."""

import random

import pytest

from fixtures.matrix.configs import NCCL_AUTOMATIC, NCCL_SETTINGS
from fixtures.records.measurement import Measurement
from fixtures.report.settings_of_nccl import nccl_setting_lines
from fixtures.session.setting_gains import setting_gains
from tests.builders import launch, measured

# Launches of a set of ranks differ so on H200s.
NOISE = 0.0005


def launched(config: str, *step_s: float) -> Measurement:
    return measured(config, 0, launches=tuple(map(launch, step_s)))


def table(seed: int, **steps_s: float) -> list[Measurement]:
    """Every config of the file with three launches, of 0.1 s unless said. steps_s: config -> its steps."""
    draw = random.Random(seed)
    return [
        launched(name, *(steps_s.get(name, 0.1) * (1 + draw.gauss(0, NOISE)) for _ in range(3)))
        for name in (*NCCL_AUTOMATIC, *NCCL_SETTINGS)
    ]


def test_a_setting_is_compared_with_the_same_bucket() -> None:
    gains = setting_gains(table(1, bucket_10mb=0.2))
    assert {gain.setting.config.name for gain in gains} == set(NCCL_SETTINGS)
    assert all(gain.setting.config.bucket_cap_mb == gain.automatic.config.bucket_cap_mb for gain in gains)
    assert {gain.setting.config.name for gain in gains if gain.decided} == {"ctas_4-bucket_10mb", "ctas_8-bucket_10mb"}


def test_a_gain_is_in_steps_per_second_with_its_interval() -> None:
    first = setting_gains(table(2, **{"ctas_8-bucket_10mb": 0.1 / 1.009}))[0]
    assert first.setting.config.name == "ctas_8-bucket_10mb"
    assert first.decided
    low, high = first.interval_percent
    assert 0.5 < low < 0.9 < high < 1.3
    assert low < first.gain_percent < high


def test_what_gains_most_is_one_line() -> None:
    found = table(3, **{"ctas_4-bucket_25mb": 0.0986, "ctas_8-bucket_10mb": 0.0991})
    (line,) = nccl_setting_lines(found)
    assert line.startswith("ctas_4-bucket_25mb gains 1.4 % over bucket_25mb (1.")
    assert line.endswith("; 1 more gain less")


def test_where_nothing_gains_automatic_is_best() -> None:
    (line,) = nccl_setting_lines(table(4, **{"ctas_4-bucket_25mb": 0.12}))
    assert line.startswith("NCCL's automatic settings are best here: of 10 others none clearly gains, at most 0.")


def test_of_equal_settings_one_is_rarely_called_better() -> None:
    named = sum(any(gain.decided for gain in setting_gains(table(seed))) for seed in range(200))
    assert named <= 200 * 0.1


def test_one_launch_decides_nothing() -> None:
    lines = nccl_setting_lines([launched("bucket_10mb", 0.1), launched("ctas_8-bucket_10mb", 0.05)])
    assert lines == ["one launch decides nothing about NCCL's settings"]


@pytest.mark.parametrize("names", [("bucket_10mb", "bucket_25mb"), ("ctas_8-bucket_10mb", "bucket_25mb")])
def test_without_its_automatic_config_a_setting_has_no_gain(names: tuple[str, ...]) -> None:
    assert nccl_setting_lines([launched(name, 0.1, 0.1) for name in names]) == []


def test_a_disturbed_run_says_nothing() -> None:
    assert nccl_setting_lines(table(5, **{"ctas_8-bucket_10mb": 0.05}), run_disturbed=True) == []
