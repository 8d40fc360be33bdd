"""The matrix that the search of --tune is compared with."""

from studies.exhaustive_tuning import compared, matrix
from tests.extras.tune.test_candidates import named


def test_the_matrix_has_every_size_with_every_setting() -> None:
    names = [
        c.name
        for c in matrix([named("bucket_10mb"), named("bucket_40mb")], ["first_bucket_1mb-bucket_40mb"], over_nccl=True)
    ]
    assert len(names) == len(set(names)) == 3 * 3 * 9 + 1
    assert {"bucket_20mb", "ctas_8-batched_copy-bucket_40mb", "first_bucket_1mb-bucket_40mb"} < {*names}


def test_what_was_found_is_compared_with_the_best_of_the_matrix() -> None:
    tried = [{"config": "bucket_10mb", "gain_percent": 4.0}, {"config": "bucket_20mb", "gain_percent": 3.0}]
    limit = {"config": "no_comm", "gain_percent": 9.0}
    found = {"config": "bucket_20mb", "over_default": {"percent": 3.1}, "took_s": 60.0}
    assert compared({"tried": [*tried, limit], "took_s": 240.0}, found) == (
        "bucket_20mb: 0.97 % slower than bucket_10mb, the best of 3; gain +3.10 % promised, +3.00 % in the matrix; "
        "60 s, 0.25 of the matrix"
    )
