"""The annotated picture of the table in docs/start.md, drawn from the record of a run.

    python -m studies.terminal_svg baselines/4x-nvidia-h200-nv18-shm/0004_h200_w6.json docs/images/table.svg

A new column of the table needs a sentence in ``MEANINGS``. The script ends with a message if a column of the output
has no sentence there, or if the output lacks a column that is always shown.
"""

import re
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import escape

from fixtures.extras.page.summary import CHARACTER_PX, HEAD_PX, LINE_PX, MARGIN_PX, texts_of, window
from fixtures.matrix.plain_text import WIDTH
from fixtures.records.files import checked, read_record
from fixtures.report.card import card_of
from fixtures.report.columns import table
from fixtures.report.config_columns import COLUMNS
from fixtures.report.rows import Report, once

# The rows of the table that the picture has room for.
ROWS = (
    *("bucket_10mb", "bucket_100mb", "ddp", "ddp_default", "static_graph_bucket_view", "bucket_view", "no_comm"),
    *("bf16", "bf16-bucket_10mb", "bf16-bucket_25mb"),
    *("powersgd_rank1", "powersgd_rank1-bucket_25mb", "powersgd_rank1_same_shape"),
)

# Title of a column that is shown without -v -> what it means, in one or two sentences.
MEANINGS = {
    "config": "How the model is wrapped in DDP. The same word selects it with -k.",
    "samples a step": "Samples of all ranks in a step: the effective batch. Shown where configs differ in it.",
    "samples/s": "Samples per second of all ranks. Shown where the effective batch differs.",
    "ms/step": "Milliseconds per step on the slowest rank: the geometric mean of the launches' medians.",
    "spread %": "The slowest launch minus the fastest, in % of a step. Smaller differences mean nothing.",
    "gain vs ddp %": "Speed against naive DDP, which has one 2000 MB bucket. +50: 1.5 times as many samples/s.",
    "of limit %": "Share of the speed without any communication. Over 102: the run was disturbed.",
    "copies %": "Share of the step that copies between host and device take, against the config without them.",
    "wire MB": "What a rank sends in a step.",
    "peak MB": "Peak memory of the rank that uses the most.",
    "gradients": "lossless: rounding only. lossy: with the relative L2 error of a step. limit: nothing is sent.",
    "loss %": "Loss of a small problem trained with this hook, against no compression. Needs test_training.py.",
    "verdict": "How much slower or faster a step is than in the baselines of this kind of machine.",
}
_BADGE_PX = 30.0
_NOTE_CHARACTERS, _NOTE_LINE_PX, _NOTES_A_ROW = 46, 16.0, 2
_SANS = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
_BOLD = ("$", "limited by: ", "communication: ", "change: ", "proved: ", "verdict: ", "next: ")


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """title: the header's lines joined by a space. start, end: characters from the left."""

    title: str
    start: int
    end: int


def output_of(record: Path) -> str:
    """What the terminal shows at the end of this run, with only ROWS of its first table."""
    report = Report(record=checked(read_record(record)))
    (group, rows) = next(iter(report.tables.items()))
    command = f'pytest perf -k "throughput or scaling or buckets" --interconnect {group.interconnect}'
    # What the run says; its record does not have it.
    card = card_of(replace(report, next=f"judge the next run by this record: {command} --require-baseline"))
    lines = [
        f"$ {command} --benchmark-save=NAME",
        "...",
        group.title,
        *table(COLUMNS, [row for row in once(rows)[0] if row.config in ROWS]),
    ]
    for finding in card.best:
        if finding.code:
            lines += ["", f"{finding.config} in your training script:", *(f"    {line}" for line in finding.code)]
    lines += ["", f" ddp-perf on {report.record.instance} ".center(WIDTH, "=")]
    lines += [f"{finding.label}: {finding.text}" for finding in card.lines()]
    return "\n".join(lines)


def columns(lines: list[str]) -> tuple[int, list[Column]]:
    """The number of the first header line of the table, and its columns.

    The rule of dashes under the header gives the extent of each column. Raises ValueError without such a rule.
    """
    rule = next((number for number, line in enumerate(lines) if re.fullmatch(r"-+(  -+)+", line)), None)
    if rule is None:
        raise ValueError("the output has no table: no line of dashes")
    first = next(number for number, line in enumerate(lines[:rule]) if line.startswith("config "))
    found = []
    for match in re.finditer("-+", lines[rule]):
        words = (line[match.start() : match.end()].strip() for line in lines[first:rule])
        found.append(Column(title=" ".join(filter(None, words)), start=match.start(), end=match.end()))
    if missing := [column.title for column in found if column.title not in MEANINGS]:
        raise ValueError(f"no meaning for the column {missing[0]!r}: add it to MEANINGS")
    always = [" ".join(column.header.split()) for column in COLUMNS if column.shown == "always" and not column.rank]
    if missing := [title for title in always if title not in {column.title for column in found}]:
        raise ValueError(f"the output has no column {missing[0]!r}: save a newer one")
    return first, found


def svg(output: str) -> str:
    """The output as a picture of a terminal as wide as the table, its columns numbered and explained below."""
    _, found = columns(output.splitlines())
    lines = [part for line in output.splitlines() for part in _broken(line, found[-1].end)]
    header, _ = columns(lines)
    width = 2 * MARGIN_PX + CHARACTER_PX * found[-1].end
    body: list[str] = []
    y = HEAD_PX + LINE_PX
    for number, line in enumerate(lines):
        if number == header:
            y += _BADGE_PX - LINE_PX / 2
            body += [
                _badge(MARGIN_PX + CHARACTER_PX * (column.start + column.end) / 2, y - LINE_PX - 4, place)
                for place, column in enumerate(found, 1)
            ]
        body += texts_of(line, y, next(filter(line.startswith, _BOLD), ""), header=header <= number < header + 2)
        y += LINE_PX
    terminal_px = y + 4
    notes, height = _notes(found, terminal_px + 34, width)
    label = "The table of pytest perf with its columns explained"
    return window(label, (width, height), terminal_px, body, notes)


def _broken(line: str, width: int) -> list[str]:
    """A line as a terminal of this width shows it: a title between signs gets fewer signs, other lines are wrapped
    between words, and their continuations are indented like the line."""
    if len(line) <= width:
        return [line]
    if title := re.fullmatch("=+ (.+?) =+", line):
        return [f" {title[1]} ".center(width, "=")]
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(line, width, subsequent_indent=indent, drop_whitespace=True, break_on_hyphens=False)


def _badge(x: float, y: float, number: int) -> str:
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="9" fill="#f0883e"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" font-family="{escape(_SANS)}" font-size="11"'
        f' font-weight="bold" fill="#0d1117">{number}</text>'
    )


def _notes(found: list[Column], top: float, width: float) -> tuple[list[str], float]:
    """The columns' meanings in rows of _NOTES_A_ROW, and the height of the whole picture."""
    drawn: list[str] = []
    step = (width - 2 * MARGIN_PX) / _NOTES_A_ROW
    y = top
    for begin in range(0, len(found), _NOTES_A_ROW):
        row = found[begin : begin + _NOTES_A_ROW]
        texts = [textwrap.wrap(MEANINGS[column.title], _NOTE_CHARACTERS) for column in row]
        for place, (column, text) in enumerate(zip(row, texts, strict=True)):
            x = MARGIN_PX + place * step
            drawn.append(_badge(x + 9, y - 4, begin + place + 1))
            drawn.append(
                f'<g font-family="{escape(_SANS)}" font-size="13" fill="#1f2328">'
                f'<text x="{x + 28:.1f}" y="{y:.1f}" font-weight="bold">{escape(column.title)}</text>'
            )
            drawn += [
                f'<text x="{x + 28:.1f}" y="{y + _NOTE_LINE_PX * (1 + number):.1f}">{escape(words)}</text>'
                for number, words in enumerate(text)
            ]
            drawn.append("</g>")
        y += _NOTE_LINE_PX * (1 + max(map(len, texts))) + 14
    return drawn, y


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m studies.terminal_svg RECORD.json PICTURE.svg", file=sys.stderr)
        return 2
    source, target = map(Path, arguments)
    try:
        picture = svg(output_of(source))
    except ValueError as error:
        print(f"{source}: {error}", file=sys.stderr)
        return 1
    target.write_text(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
