"""Previews: short, and safe for untrusted text."""

from __future__ import annotations

import polars as pl
import pytest

from bellwether.lake.preview import COLUMNS, WIDTH, filled_cells_markdown, preview_markdown


def cell(text: str) -> str:
    return preview_markdown(pl.DataFrame({"a": [text]})).splitlines()[2].removeprefix("| ").removesuffix(" |")


def test_rows_are_a_table() -> None:
    frame = pl.DataFrame({"a": [1, 2], "b": ["x", None]})
    assert preview_markdown(frame) == "| `a` | `b` |\n| --- | --- |\n| `1` | `x` |\n| `2` |  |"


@pytest.mark.parametrize(
    "text", ["a|b", "`code`", "line\nbreak", "<script>alert(1)</script>", "[link](http://x)", "\x00\x1b[31m", "a\\|b", "``|``"]
)
def test_text_stays_in_its_cell(text: str) -> None:
    shown = cell(text)
    assert shown.startswith("`")
    assert shown.endswith("`")
    assert not set(shown[1:-1]) & set("`|\n\x00\x1b")


def test_long_text_is_cut() -> None:
    assert cell("x" * 100_000) == f"`{'x' * (WIDTH - 1)}…`"


def test_blank_text_is_an_empty_cell() -> None:
    assert cell(" \n ") == ""


def test_wide_tables_say_how_much_is_left_out() -> None:
    shown = preview_markdown(pl.DataFrame({f"c{number}": [number] for number in range(COLUMNS + 3)}))
    assert shown.splitlines()[0].count("`c") == COLUMNS
    assert shown.endswith("\n\n3 more columns")


def test_each_column_has_a_bar_of_its_cells_with_a_value() -> None:
    frame = pl.DataFrame({"key": ["a", "b", "c", "d"], "price": [None, None, None, 0.5], "never": [None] * 4})
    assert filled_cells_markdown(frame).splitlines()[2:] == [
        f"| `key` | {'█' * 20} 100% |",
        f"| `price` | {'█' * 5}{'░' * 15} 25% |",
        f"| `never` | {'░' * 20} 0% |",
    ]
    assert filled_cells_markdown(frame.clear()) == "no rows"
