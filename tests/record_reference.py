"""docs/reference/record.md, whose tables are made of ``fixtures.records.schema``.

``python -m tests.record_reference`` writes the tables anew. To show another key there, name it in ``SHOWN``.
"""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from fixtures.extras.schema.keys import keys_of
from fixtures.records.schema import BenchmarkRecord, BestRecord, FullRecord, StatsRecord, TestRecord
from fixtures.stats.step_limit import StepLimit
from fixtures.stats.verdict import Verdict
from fixtures.trace.profile import StepParts, Work

DOCUMENT = Path(__file__).parent.parent / "docs/reference/record.md"
_BEGIN, _END = "<!-- keys: written by python -m tests.record_reference -->", "<!-- end of keys -->"
_WORDS: dict[Any, str] = {str: "text", float: "number", int: "whole number", bool: "true or false", Any: "any"}
# Object -> the keys that scripts read; the JSON schema has all.
SHOWN: Mapping[type, str] = {
    FullRecord: """schema instance environment finished quick interrupted failed not_run not_comparable wrong_hooks
        disturbed doubts best references canaries common_shift benchmarks""",
    BenchmarkRecord: "fullname stats extra_info",
    StatsRecord: "data",
    TestRecord: """workload config world world_size interconnect instance launch_medians_s remeasured_launch_medians_s
        steps_per_s samples_per_s spread_percent of_limit_percent scaling_efficiency_percent mfu_percent fidelity
        gradient_error gradient_error_steps wire_bytes_per_rank buckets peak_memory_bytes phases_ms bus_gb_per_s verdict
        found_percent cause against step_limit advice breakdown_ms communication_ms ledger kernels work""",
    Verdict: "word change_percent threshold_percent p_value history reason",
    BestRecord: "workload world interconnect fidelity config use reason lines among gain_percent gain_interval_percent",
    StepLimit: "by percent rank line line_ms step_ms most_gain_percent why",
    StepParts: "compute exposed_communication exposed_copy idle",
    Work: "kernels collectives copies calls",
}


def in_words(kind: Any) -> str:
    """``list of number``, with a link for an object that is shown."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return f"[{_title(kind)}](#{_title(kind).replace(' ', '-')})" if kind in SHOWN else "object"
    if get_origin(kind) is Annotated:
        return in_words(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(in_words(one) for one in [one for one in get_args(kind) if one is not type(None)])
    if get_origin(kind) is Literal:
        return "text"
    if get_origin(kind) in (list, tuple):
        return f"list of {in_words(get_args(kind)[0])}"
    if get_args(kind):
        return f"by name: {in_words(get_args(kind)[1])}"
    return "text" if isinstance(kind, type) and issubclass(kind, str) else _WORDS[kind]


def _title(part: type) -> str:
    return (
        "run" if part is FullRecord else re.sub(r"(?<!^)([A-Z])", r" \1", part.__name__.removesuffix("Record")).lower()
    )


def tables() -> str:
    """All of them, in Markdown. KeyError for a key that no record has."""
    lines: list[str] = []
    for part, names in SHOWN.items():
        keys = {key.name: key for key in keys_of(part)}
        lines += ["", f"### {_title(part)}", "", "| key | type | meaning |", "|---|---|---|"]
        for key in (keys[name] for name in names.split()):
            name = f"**{key.name}**" if key.always else key.name
            lines.append(f"| {name} | {in_words(key.kind)} | {' '.join(key.meaning.split())} |")
    return "\n".join(lines)


def with_tables(text: str) -> str:
    """A document with its tables written anew; ValueError without the two markers."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"no {_BEGIN!r} and {_END!r} in the document")
    return f"{before}{begin}\n{tables()}\n\n{end}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text()))
