"""``python -m fixtures schema``: a JSON schema with every key of the reference."""

import dataclasses
import json

from tests.command_line import command_here
from tests.record_reference import parts


def test_the_schema_has_every_object_and_key_of_a_record() -> None:
    outcome = command_here("schema")
    assert outcome.exit_code == 0
    objects = json.loads(outcome.output)["$defs"]
    assert objects["FullRecord"]["required"][0] == "benchmarks"
    for part in parts():
        if part.__name__ in objects:  # not the bases of others
            assert objects[part.__name__]["properties"].keys() == {key.name for key in dataclasses.fields(part)}
    assert objects.keys() <= {part.__name__ for part in parts()}
