"""What a sharding saves, and which configs may be called best, out of launches made by hand."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from fixtures.matrix.configs import SHARDING
from fixtures.matrix.worlds import parse_world
from fixtures.records.config_comparison import best_of, fastest_lossless
from fixtures.records.measurement import Measurement
from fixtures.report.under_the_table import sharding_lines
from fixtures.session.leaders_in_turns import sharding_effects
from tests.builders import launch, measured


def launched(config: str, step_s: float, peak_gb: float | None = 6.0, *, launches: int = 3) -> Measurement:
    peak = None if peak_gb is None else round(1e9 * peak_gb)
    one = replace(launch(step_s), peak_memory_bytes=peak, gradient_lossless=True)
    return measured(config, 0, launches=tuple(replace(one, step_s=(step_s * (1 + n / 1e4),)) for n in range(launches)))


def table(others: Mapping[str, tuple[float, float | None]]) -> list[Measurement]:
    """adamw has steps of 0.1 s and a peak of 6 GB."""
    return [launched("adamw", 0.1), *(launched(config, *numbers) for config, numbers in others.items())]


def test_an_effect_is_against_adamw_in_memory_and_time() -> None:
    (effect,) = sharding_effects(table({"fsdp2": (0.112, 3.9)}), "adamw")
    assert effect.measurement.config.name == "fsdp2"
    assert effect.saved_bytes == 2_100_000_000
    assert effect.saved_percent == pytest.approx(35)
    assert effect.longer_percent == pytest.approx(12)
    assert effect.decided


@pytest.mark.parametrize("name", [name for name in SHARDING if name.startswith("sgd")])
def test_another_optimizer_is_not_compared(name: str) -> None:
    assert sharding_effects(table({name: (0.05, 3.0)}), "adamw") == []


def test_one_line_has_what_saves_memory_and_what_saves_time() -> None:
    found = table({"adamw_fused": (0.097, 6.0), "zero1": (0.11, 5.0), "fsdp2": (0.112, 3.9), "fsdp2_one": (0.13, 4.5)})
    assert sharding_lines(found) == [
        "fsdp2 saves 2.1 GB (35 %) a rank against adamw, takes 12.0 % longer; adamw_fused saves 3.0 % time"
    ]


def test_captured_ones_are_compared_among_themselves() -> None:
    found = [launched("adamw", 0.1), launched("graph-adamw", 0.08, 6.0), launched("graph-fsdp2_keep", 0.079, 5.0)]
    assert sharding_lines(found) == [
        "graph-fsdp2_keep saves 1 GB (17 %) a rank against graph-adamw, takes 1.2 % less time",
    ]


def test_one_launch_decides_nothing_about_time() -> None:
    found = [launched("adamw", 0.1, launches=1), launched("fsdp2", 0.05, 3.0, launches=1)]
    saved = "fsdp2 saves 3 GB (50 %) a rank against adamw, 50.0 % shorter here, undecided"
    assert " ".join(line.strip() for line in sharding_lines(found)) == f"{saved}; nothing clearly saves time"


@pytest.mark.parametrize(
    ("config", "numbers", "expected"),
    [
        ("zero1", (0.1, 6.0), "nothing saves memory against adamw; nothing clearly saves time"),
        ("zero1", (0.09, None), "zero1 saves 10.0 % time against adamw"),
        ("zero1", (0.09, 6.0), "nothing saves memory against adamw; zero1 saves 10.0 % time"),
        ("zero1", (0.09, 3.0), "zero1 saves 3 GB (50 %) a rank against adamw, takes 10.0 % less time"),
        ("zero1", (0.11, None), "nothing clearly saves time against adamw"),
        (
            "fsdp2_bf16",
            (0.08, 3.0),
            "fsdp2_bf16 (lossy) saves 3 GB (50 %) a rank against adamw, takes 20.0 % less time",
        ),
    ],
)
def test_memory_and_time_are_named_where_they_are_known(
    config: str, numbers: tuple[float, float | None], expected: str
) -> None:
    assert sharding_lines(table({config: numbers})) == [expected]


def test_on_the_cpu_no_memory_is_compared_and_in_a_disturbed_run_no_time() -> None:
    """The memory of a process on the CPU is that of earlier configs too."""
    on_cpu = [replace(m, world=parse_world("2cpu")) for m in table({"fsdp2": (0.112, 3.9)})]
    assert sharding_lines(on_cpu) == ["nothing clearly saves time against adamw"]
    (line,) = sharding_lines(table({"fsdp2": (0.05, 3.0)}), run_disturbed=True)
    assert line == "fsdp2 saves 3 GB (50 %) a rank against adamw"


def test_without_anything_to_compare_there_is_no_line() -> None:
    for names in (("adamw",), ("zero1", "fsdp2"), ("ddp", "bf16")):
        assert sharding_lines([launched(name, 0.1) for name in names]) == []


def test_configs_with_another_optimizer_are_not_called_best() -> None:
    """Next to configs that train with the workload's own; among themselves, those with the most frequent one."""
    sharded = [launched("sgd_fused", 0.05), *table({"fsdp2": (0.09, 3.9)})]
    (best,) = best_of(sharded)
    assert best.among == ["fsdp2"]
    (best,) = best_of([launched("ddp", 0.2), launched("ddp_default", 0.3), *sharded])
    assert best.among == ["ddp"]
    fastest = fastest_lossless([launched("ddp", 0.2), *sharded])
    assert fastest is not None
    assert fastest.config.name == "ddp"
