"""The card advises what the record says to use, and nothing else."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.machine.cpu import HostLoad
from fixtures.records.measurement import Measurement
from fixtures.report.card import Card, card_of
from fixtures.report.rows import Report
from fixtures.session.run_record import record_so_far
from fixtures.stats.difference import Turns
from tests.builders import launch, measured, run_of

STEP_MS = st.lists(st.sampled_from([80, 89, 90, 90.2, 99.5, 100, 100.5, 130]), min_size=1, max_size=3)
CONFIGS = ["single", "ddp", "ddp_default", "static_graph", "bucket_10mb", "bf16", "fp16", "powersgd_rank1", "no_comm"]
WORLDS = ["1cpu", "2cpu"]


def of(config: str, world: str, step_ms: list[float]) -> Measurement:
    return measured(config, 0, world=world, launches=tuple(launch(ms / 1e3) for ms in step_ms))


TABLES = st.dictionaries(st.tuples(st.sampled_from(CONFIGS), st.sampled_from(WORLDS)), STEP_MS, min_size=1)
# Config -> seconds of a step in each round.
IN_TURNS = st.dictionaries(st.sampled_from(CONFIGS[1:]), st.lists(st.floats(0.08, 0.1), min_size=6, max_size=6))


@given(TABLES, IN_TURNS, st.booleans())
@settings(max_examples=150, deadline=None)
def test_the_card_advises_a_config_if_and_only_if_the_record_says_to_use_it(
    table: dict[tuple[str, str], list[float]], in_turns: dict[str, list[float]], busy: bool
) -> None:
    run = run_of(*(of(*place, step_ms) for place, step_ms in table.items()))
    took = {config: [rounds] for config, rounds in in_turns.items() if (config, "2cpu") in table}
    some = next(case.measurement for case in run.cases.values())
    run.turns = {(some.workload.name, "2cpu", some.interconnect.name): Turns(block_s=took, on_gpu=False)}
    run.host_load = HostLoad(others=1.5 if busy else 0, cores=2)
    report = Report(record=record_so_far(run, None))
    card, bests = card_of(report), report.record.best or []
    named = {(one.group, one.label, one.config) for one in (*card.best, *card.others) if one.code}
    pasted = [best for best in bests if best.lines]
    assert {(group and group.world, label, config) for group, label, config in named} == {
        (best.world, f"best {best.fidelity}", best.use) for best in pasted
    }
    main = card.best[0].group if card.best else None
    assert advised_by(card) == {best.use for best in bests if best.use and main and best.world == main.world}
    assert all((best.gain_percent or 0) >= 1 for best in pasted)


def advised_by(card: Card) -> set[str]:
    """The configs that the line ``change`` names to be used."""
    text = "" if card.change is None else card.change.text
    if "train without DDP" in text:
        return {"single"}
    return set(re.findall(r"(?:^use|; use|or) (\w+), [+-]", text))
