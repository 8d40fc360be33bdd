"""Tables of columns: one entry a column, empty ones left out, never over 100 characters without -v."""

from typing import Literal

from fixtures.matrix.plain_text import WIDTH
from fixtures.report.columns import Colour, Column, legend, table, wrapped

NAME: Column[dict[str, object]] = Column("name", lambda row: row["name"])
MS: Column[dict[str, object]] = Column("step", lambda row: row.get("ms"), "ms", ".2f", "mean over the steps.")
NOTE: Column[dict[str, object]] = Column("note", lambda row: row.get("note", ""), shown="below")
ROWS: list[dict[str, object]] = [{"name": "ddp", "ms": 12.345}, {"name": "bf16"}]


def wide(width: int, rank: int = 1, shown: Literal["always", "-v"] = "always") -> Column[dict[str, object]]:
    return Column("x" * width, lambda row: 1, format="d", shown=shown, rank=rank)


def test_numbers_stand_on_the_right_and_a_new_column_is_one_entry() -> None:
    assert table([NAME, MS], ROWS) == ["name   step", "         ms", "----  -----", "ddp   12.35", "bf16      -"]
    # Its header, its cells, their format and alignment, and its sentence in the legend.
    peak: Column[dict[str, object]] = Column("peak", lambda row: 1000, "MB", ".0f", "of the fullest rank.")
    _, _, _, *rows = table([NAME, peak, MS], ROWS)
    assert [row.split() for row in rows] == [["ddp", "1000", "12.35"], ["bf16", "1000", "-"]]
    assert legend([NAME, peak, MS], ROWS) == ["peak MB: of the fullest rank.", "step ms: mean over the steps."]


def test_a_column_that_no_row_fills_is_left_out_with_its_meaning() -> None:
    assert table([NAME, MS], ROWS[1:]) == ["name", "----", "bf16"]
    assert legend([NAME, MS], ROWS[1:]) == []
    assert table([NAME, MS], ROWS[1:], verbose=True) == ["name", "----", "bf16"]


def test_a_column_is_shown_if_it_fits_and_with_v_or_on_a_wide_terminal_all_are() -> None:
    room = WIDTH - len("name") - 2
    assert len(table([NAME, wide(room)], ROWS)[0]) == WIDTH
    assert table([NAME, wide(room + 1)], ROWS)[0] == "name"
    assert table([NAME, wide(room + 1), wide(room)], ROWS)[0].endswith("  " + "x" * room)
    columns = [NAME, wide(90), wide(90, 0, "-v"), MS]
    assert table(columns, ROWS)[0].split() == ["name", "step"]
    assert len(table(columns, ROWS, verbose=True)[0].split()) == 4
    columns = [NAME, wide(90), wide(40, 0, "-v")]
    assert [len(table(columns, ROWS, width=width)[0].split()) for width in (160, 130, 80)] == [3, 2, 1]


def test_a_note_is_a_line_below_that_names_its_rows() -> None:
    first, second = table([NAME, NOTE, MS], [*ROWS, {"name": "slow", "ms": 1.0, "note": "word " * 30}])[-2:]
    assert first.startswith("slow: word word")
    assert second.startswith("  word")
    assert len(first) <= WIDTH
    alike: list[dict[str, object]] = [{"name": name, "note": "throttled"} for name in ("a", "b")]
    assert table([NAME, NOTE], alike)[-1] == "all: throttled"
    assert table([NAME, NOTE], [*alike, ROWS[1]])[-1] == "a, b: throttled"


def test_a_long_name_is_wrapped_between_its_words_or_in_its_column() -> None:
    name = "-".join(["graph", "int8_all_to_all_compiled", "bucket_25mb", "x" * 60, "end"])
    rows: list[dict[str, object]] = [{"name": name}]
    lines = table([NAME, wide(30, 0)], rows)
    assert [line.split()[0] for line in lines[2:]] == ["graph-int8_all_to_all_compiled-bucket_25mb-", f"{'x' * 60}-end"]
    lines = table([NAME, MS], [{"name": "n" * 150, "ms": 1.0}])
    assert max(map(len, lines)) == WIDTH
    assert "".join(line.split()[0] for line in lines[3:]) == "n" * 150


def test_rows_have_the_colour_of_their_verdict_and_the_header_none() -> None:
    def colour(row: dict[str, object]) -> Colour:
        return "red" if row["name"] == "bf16" else ""

    columns: list[Column[dict[str, object]]] = [NAME]
    assert [getattr(line, "colour", "") for line in table(columns, ROWS, colour=colour)] == ["", "", "", "red"]


def test_a_wrapped_line_goes_on_indented_and_parts_no_number_from_its_unit() -> None:
    first, second = wrapped("word " * 21, "    ")
    assert (len(first), first[:9], second) == (98, "    word ", "      word word")
    assert wrapped("one\ntwo") == ["one", "two"]
    for number in ("14.4 %", "1.25 us"):
        assert wrapped(f"{'x' * 95} {number}") == ["x" * 95, f"  {number}"]
