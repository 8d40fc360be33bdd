"""``python -m fixtures compare MACHINE MACHINE ...`` as a user runs it."""

import json

from tests.forked import command

L40S, A100 = "studies/published/8x_l40s.json", "studies/published/8x_a100.json"


def test_it_prints_a_table_and_where_the_choice_flips() -> None:
    outcome = command("compare", L40S, A100, "--price=p4d.24xlarge=20/h")
    assert outcome.exit_code == 0, outcome.errors
    assert "g6e.48xlarge: published figures, without launches: " in outcome.output
    assert "1gpu vit_l_32: g6e.48xlarge is 1.72 times (no interval) as fast as p4d.24xlarge" in outcome.unwrapped
    assert (
        "8gpu vit_l_32: p4d.24xlarge is 3.46 times (no interval) as fast as g6e.48xlarge; "
        "g6e.48xlarge costs less per sample below 5.78 an hour"
    ) in outcome.unwrapped
    assert (
        "8gpu vit_l_32, lossy allowed (powersgd, gradient error unknown): g6e.48xlarge is 1.52 times"
        in outcome.unwrapped
    )
    assert max(map(len, outcome.output.splitlines())) <= 100


def test_it_prints_records_as_json() -> None:
    outcome = command("compare", "2x-nvidia-h200-nv18", "2x-nvidia-h200-nv18-shm", "--json")
    assert outcome.exit_code == 0, outcome.errors
    result = json.loads(outcome.output)
    (devices,) = (one for one in result["devices"] if (one["workload"], one["worlds"]) == ("vit_l_32", ["2gpu"]))
    pair = devices["pairs"][0]
    assert (pair["faster"]["machine"], pair["decided"]) == ("2x-nvidia-h200-nv18", True)
    assert pair["ratio"]["interval"][0] < pair["ratio"]["value"] < pair["ratio"]["interval"][1]
