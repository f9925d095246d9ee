"""The first rows of a table as Markdown that is safe to show: untrusted text can neither format nor link."""

from __future__ import annotations

import polars as pl

from bellwether.formatting import markdown_table

#: Characters of a text that are shown.
WIDTH = 40
#: Columns that are shown.
COLUMNS = 12


def markdown(frame: pl.DataFrame) -> str:
    """`frame` and its first columns as a Markdown table; every text is cut and set in code."""
    shown = frame.select(frame.columns[:COLUMNS])
    lines = markdown_table([_code(name) for name in shown.columns], ([_cell(value) for value in row] for row in shown.iter_rows()))
    left = frame.width - shown.width
    return "\n".join([*lines, "", f"{left} more columns"] if left else lines)


def _cell(value: object) -> str:
    return "" if value is None else _code(str(value))


def _code(text: str) -> str:
    cut = text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
    plain = "".join(character if character.isprintable() else " " for character in cut)
    return f"`{plain.replace('`', chr(39)).replace('|', '¦')}`" if plain.strip() else ""
