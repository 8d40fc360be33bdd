"""Scripts of frameworks, unchanged, with the real packages: ``pip install -e '.[dev,scripts]'``.

Not among ``pytest tests``, which needs none of them:   pytest tests/script/with_frameworks.py
"""

import re
from pathlib import Path

import pytest

from fixtures.launch.protocol import CannotRun
from studies.framework_pages import PAGES, printed, shown
from tests.script.conftest import SCRIPTS, STEPS, Run

# Script -> the samples of a rank in a step, and why it is not measured without a launcher.
FRAMEWORKS: dict[str, tuple[int, str | None]] = {
    "with_lightning.py": (16, "starts 2 ranks itself when no launcher does"),
    "with_accelerate.py": (2 * 16, None),
    "with_trainer.py": (4, None),
}


@pytest.mark.parametrize("script", FRAMEWORKS)
def test_a_framework_trains_as_written(run: Run, script: str) -> None:
    first, second = run(SCRIPTS / script)
    assert [len(first.step_s), len(second.step_s)] == [STEPS, STEPS]
    assert first.workload_fingerprint.batch_size == FRAMEWORKS[script][0]
    assert first.found["ddp"].startswith("DDP(")
    assert min(first.phases_s["forward"]) > 0
    assert min(first.phases_s["backward"]) > 0


@pytest.mark.parametrize("script", ["with_lightning.py", "with_trainer.py"])
def test_a_configs_hook_takes_effect(run: Run, script: str) -> None:
    first, _ = run(SCRIPTS / script, "bf16", check_gradients=True)
    assert first.wire_dtype == "bfloat16"
    assert first.gradient_error == pytest.approx(2.5e-3, rel=0.6)


def test_a_framework_that_accumulates_is_measured_without_static_graph(run: Run) -> None:
    for config, left_out in (("bf16", ["static_graph"]), ("ddp_default", [])):
        first, _ = run(SCRIPTS / "with_accelerate.py", config, check_gradients=True)
        assert first.left_out == left_out
        assert first.gradient_lossless is (config == "ddp_default")


@pytest.mark.parametrize("script", FRAMEWORKS)
def test_a_framework_without_a_launcher(run: Run, script: str) -> None:
    if (why_not := FRAMEWORKS[script][1]) is not None:
        with pytest.raises(CannotRun, match=why_not):
            run(SCRIPTS / script, "single", "1cpu")
        return
    (alone,) = run(SCRIPTS / script, "single", "1cpu")
    assert alone.found["ddp"] == "no DDP"


def test_the_profile_of_a_framework_adds_up(run: Run) -> None:
    """In Lightning the update calls the forward and the backward pass."""
    for result in run(SCRIPTS / "with_lightning.py", profile=4):
        assert result.breakdown is not None
        assert len(result.breakdown.steps) == 4
        assert result.breakdown.steps[0].phase_ns["backward"] > 0


def shape(output: str) -> tuple[str, set[str]]:
    """What is trained, without numbers, and the configs of the table. A hook may have taken turns."""
    training, _, table = output.partition("\n\n")
    _, _, rows = table.partition("\n---")
    names = re.findall(r"^(?:as_written-)?(\S+)  +\d", rows, re.MULTILINE)
    return re.sub(r"\d+\.\d+", "N", " ".join(training.split())), set(names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_what_its_command_prints(page: Path) -> None:
    trained, configs = shape(shown(page))
    assert shape(printed(page)) == (trained, configs), "write the pages anew: python -m studies.framework_pages"
    assert "as_written" in configs
