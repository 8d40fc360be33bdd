"""README.md names every planted fault of this folder, and no other."""

import re
from pathlib import Path

from tests.mutants import hooks, powersgd, promises, scenarios, side_effects, suite_hooks

README = Path(__file__).with_name("README.md")
# Of the first sections, which list faults; those after them have files in place of names.
LISTED = README.read_text().partition("## Faults planted elsewhere")[0]


def short(name: str) -> str:
    return name.rpartition(":")[2]


def test_every_planted_fault_is_named_and_no_other() -> None:
    assert promises.SOUND_IN, "its faults are in side_effects.CAUGHT_BY"
    planted = [
        *(short(hook.name) for hook in (*hooks.MUTANTS, *hooks.WIRE_MUTANTS)),
        *(short(hook.name) for hook, _ in powersgd.CAUGHT_BY),
        *map(short, (*scenarios.CAUGHT_BY, *suite_hooks.CAUGHT_BY, *side_effects.CAUGHT_BY)),
        *(short(update.name) for update in scenarios.UPDATES),
        *(short(buffers.name) for buffers in scenarios.BUFFERS),
        *(one.__name__ for one in (*scenarios.LOCAL_HOOKS, *scenarios.AVERAGERS)),
    ]
    named = {name for name in re.findall(r"`(\w+)`", LISTED) if not name.startswith("test_")}
    assert named == set(planted)
