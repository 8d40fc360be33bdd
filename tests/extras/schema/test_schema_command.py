"""``python -m fixtures schema``: a JSON schema with every key of a record."""

import json

from fixtures.extras.schema.keys import parts
from tests.command_line import command_here


def test_the_schema_has_every_object_of_a_record_and_each_key_with_its_meaning_first() -> None:
    objects = json.loads(command_here("schema").exits(0).output)["$defs"]
    assert objects["FullRecord"]["required"][0] == "benchmarks"
    assert {name for name, one in objects.items() if "enum" not in one} == {part.__name__ for part in parts()}
    keys = [(name, key, of) for name, one in objects.items() for key, of in one.get("properties", {}).items()]
    assert [(name, key) for name, key, of in keys if next(iter(of)) != "description" or not of["description"]] == []
    assert objects["FullRecord"]["properties"].keys() >= {"schema", "best", "benchmarks"}
    assert objects["TestRecord"]["properties"].keys() >= {"steps_per_s", "verdict", "breakdown_ms"}
