"""Step time against bytes, out of launches made by hand."""

import pytest

from fixtures.records.measurement import Measurement
from fixtures.report.byte_curve import byte_curve_lines
from fixtures.session.byte_curve import byte_curves
from fixtures.session.comparison import best_of, comparisons
from tests.builders import launch, measured, unwrapped


def stepping(config: str, step_ms: float) -> Measurement:
    return measured(config, 0, launches=(launch(step_ms / 1e3),))


def shares(*, bf16_ms: float, size: str = "25mb") -> list[Measurement]:
    return [
        stepping(f"share_0-bucket_{size}", 100),
        stepping(f"share_50-bucket_{size}", 140),
        stepping(f"share_100-bucket_{size}", 200),
        stepping(f"bf16_share_0-bucket_{size}", 105),
        stepping(f"bf16-bucket_{size}", bf16_ms),
    ]


def test_half_the_bytes_and_the_casts_predict_bf16() -> None:
    (curve,) = byte_curves(shares(bf16_ms=146))
    assert list(curve.points) == [0, 0.5, 1]
    assert curve.casts_s == pytest.approx(5e-3)
    assert curve.predicted_bf16_s == pytest.approx(145e-3)


def test_each_bucket_size_has_a_curve_and_one_share_has_none() -> None:
    found = byte_curves([*shares(bf16_ms=146), *shares(bf16_ms=160, size="2000mb")])
    assert [curve.buckets for curve in found] == ["bucket_25mb", "bucket_2000mb"]
    assert byte_curves([stepping("share_50-bucket_25mb", 140), stepping("ddp", 200)]) == []


def test_what_was_not_measured_is_not_predicted() -> None:
    (curve,) = byte_curves([m for m in shares(bf16_ms=146) if m.config.hook != "bf16_share_0"])
    assert curve.predicted_bf16_s is None
    assert len(byte_curve_lines(list(curve.points.values()))) > 0


def test_the_lines_have_the_curve_the_gains_and_the_prediction() -> None:
    assert unwrapped(byte_curve_lines(shares(bf16_ms=148))) == [
        "bucket_25mb, a step by the share of its bytes that is sent: none (2.15 MB) 100 ms, half (2.15 MB) 140 ms, all "
        "(2.15 MB) 200 ms",
        "half of the bytes, or a link twice as fast, saves 30.0 %; none of the bytes saves 50.0 %",
        "bf16 by this curve: half and 5 ms of casts make 145 ms; measured 148 ms, so the curve is 2.0 % below",
    ]


def test_a_disturbed_run_has_the_curve_alone() -> None:
    (line,) = unwrapped(byte_curve_lines(shares(bf16_ms=148), run_disturbed=True))
    assert line.startswith("bucket_25mb, a step by the share of its bytes that is sent: none")


def test_a_record_has_the_points() -> None:
    (curve,) = byte_curves(shares(bf16_ms=148))
    record = curve.to_record()
    assert [point.share for point in record.points] == [0, 0.5, 1]
    assert [point.step_s for point in record.points] == pytest.approx([0.1, 0.14, 0.2])
    assert record.bf16_s == pytest.approx(0.148)


def test_what_sends_a_share_is_neither_best_nor_the_limit() -> None:
    measurements = [*shares(bf16_ms=148), stepping("ddp", 200), stepping("no_comm", 90)]
    assert {best.fastest.config.name for best in best_of(measurements)} == {"ddp", "bf16-bucket_25mb"}
    compared = comparisons(measurements)
    assert compared[measurements[0].cell].of_limit_percent == pytest.approx(90)
