"""What a measurement says of its gradients, and what its record is compared by."""

from dataclasses import replace

import pytest

from fixtures.records.measurement import Launch
from tests.builders import TRAINED, launch, measured

COMPARED = replace(launch(0.1), gradient_error=0.0, gradient_lossless=True)
NOT_COMPARED = replace(launch(0.1), gradient_error=None)


@pytest.mark.parametrize(
    ("config", "world", "of", "fidelity"),
    [
        ("ddp", "8gpu", COMPARED, "lossless"),
        ("ddp", "8gpu", NOT_COMPARED, "not compared"),
        ("bf16", "8gpu", NOT_COMPARED, "not compared"),
        ("bf16", "1gpu", NOT_COMPARED, "not compared"),
        ("as_written", "8gpu", NOT_COMPARED, "not compared"),
        ("no_comm", "8gpu", NOT_COMPARED, "limit"),
        # One rank has nobody to exchange gradients with.
        ("single", "1gpu", NOT_COMPARED, "lossless"),
        ("ddp", "1gpu", NOT_COMPARED, "lossless"),
        ("ddp", "8gpu", replace(COMPARED, wrong="the ranks train different models"), "wrong"),
    ],
)
def test_the_word_of_the_gradients_needs_its_proof(config: str, world: str, of: Launch, fidelity: str) -> None:
    found = measured(config, 10, world=world, launches=(of,))
    assert found.fidelity == fidelity
    assert found.to_record().fidelity == fidelity
    assert found.to_record().lossless is (fidelity == "lossless")


@pytest.mark.parametrize("buffers", [0, 3])
def test_without_communication_no_buffers_are_broadcast_and_older_records_of_them_are_others(buffers: int) -> None:
    of = replace(COMPARED, workload_fingerprint=replace(TRAINED, buffers=buffers))
    settings = [measured(config, 10, launches=(of,)).ddp_settings for config in ("no_comm", "bf16")]
    assert ["broadcast_buffers" in one for one in settings] == [buffers > 0, False]
    assert [measured(config, 10, launches=(of,)).broadcasts for config in ("no_comm", "bf16")] == [False, buffers > 0]


def test_a_setting_that_the_training_cannot_have_is_in_no_record() -> None:
    of = replace(COMPARED, left_out=["static_graph"], remarks=["static_graph is left out"])
    record = measured("bf16", 10, launches=(of,)).to_record()
    assert record.config_fingerprint is not None
    assert "static_graph" not in (record.config_fingerprint.ddp_arguments or {})
    assert record.remarks == ["static_graph is left out"]


@pytest.mark.parametrize("left_out", [[], ["static_graph"]])
def test_a_setting_that_the_training_cannot_have_is_not_pasted(left_out: list[str]) -> None:
    lines = measured("bucket_10mb", 10, launches=(replace(COMPARED, left_out=left_out),)).lines
    assert any("bucket_cap_mb=10" in line for line in lines)
    assert any("static_graph" in line for line in lines) != bool(left_out)


@pytest.mark.parametrize(
    ("config", "launches_s", "number"),
    [
        ("as_written", [[*[1.0] * 14, 3.0, 3.0], [*[1.0] * 12, 3.0, 3.0, 3.0]], 3),
        ("as_written", [[*[1.0] * 14, 3.0, 3.0]] * 2 + [[1.0] * 16], 2),  # in most launches
        ("as_written", [[1.0] * 20, [1.0] * 20, [1.5] * 20], None),  # a slow launch
        ("as_written", [[*[1.0] * 14, 3.0, 3.0], [1.0] * 16], None),
        ("bf16", [[*[1.0] * 14, 3.0, 3.0]], None),  # told once, of the script as written
    ],
)
def test_longer_steps_are_those_of_most_launches(
    config: str, launches_s: list[list[float]], number: int | None
) -> None:
    launches = tuple(replace(COMPARED, step_s=tuple(step_s)) for step_s in launches_s)
    found = measured(config, 1, launches=launches).to_record().longer_steps
    assert (None if found is None else found.number) == number
