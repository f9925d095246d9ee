"""Preview of a table as Markdown in which text from outside cannot create formatting or links."""

from __future__ import annotations

import polars as pl

from bellwether.formatting import markdown_table

#: Maximum characters of a text.
WIDTH = 40
#: Maximum number of columns.
COLUMNS = 12


def preview_markdown(frame: pl.DataFrame) -> str:
    """Render the first columns of `frame` as a Markdown table. Every text is shortened and formatted as code."""
    columns = frame.columns[:COLUMNS]
    rows = (["" if value is None else _render_code(str(value)) for value in row] for row in frame.select(columns).iter_rows())
    lines = markdown_table([*map(_render_code, columns)], rows)
    omitted = frame.width - len(columns)
    return "\n".join([*lines, "", f"{omitted} more columns"] if omitted else lines)


def _render_code(text: str) -> str:
    cut = text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
    plain = "".join(character if character.isprintable() else " " for character in cut)
    return f"`{plain.replace('`', chr(39)).replace('|', '¦')}`" if plain.strip() else ""
