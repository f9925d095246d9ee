"""Preview of a table as safe Markdown, in which untrusted text cannot create formatting or links."""

from __future__ import annotations

import polars as pl

from bellwether.formatting import markdown_table

#: Maximum characters of a text.
WIDTH = 40
#: Maximum number of columns.
COLUMNS = 12


def preview_markdown(frame: pl.DataFrame) -> str:
    """Render the first columns of `frame` as a Markdown table, every text truncated and formatted as code."""
    shown = frame.select(frame.columns[:COLUMNS])
    lines = markdown_table(
        [_render_code(name) for name in shown.columns], ([_render_cell(value) for value in row] for row in shown.iter_rows())
    )
    left = frame.width - shown.width
    return "\n".join([*lines, "", f"{left} more columns"] if left else lines)


def _render_cell(value: object) -> str:
    return "" if value is None else _render_code(str(value))


def _render_code(text: str) -> str:
    cut = text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
    plain = "".join(character if character.isprintable() else " " for character in cut)
    return f"`{plain.replace('`', chr(39)).replace('|', '¦')}`" if plain.strip() else ""
