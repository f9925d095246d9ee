"""Preview and filled cells of a table as Markdown in which text from outside cannot create formatting or links."""

from __future__ import annotations

import polars as pl

from bellwether.formatting import floor_percent, markdown_table

#: Maximum characters of a text.
WIDTH = 40
#: Maximum number of columns.
COLUMNS = 12
#: Characters of a full bar.
BAR = 20


def preview_markdown(frame: pl.DataFrame) -> str:
    """Render the first columns of `frame` as a Markdown table. Every text is shortened and formatted as code."""
    columns = frame.columns[:COLUMNS]
    rows = (["" if value is None else _render_code(str(value)) for value in row] for row in frame.select(columns).iter_rows())
    lines = markdown_table([*map(_render_code, columns)], rows)
    omitted = frame.width - len(columns)
    return "\n".join([*lines, "", f"{omitted} more columns"] if omitted else lines)


def filled_cells_markdown(frame: pl.DataFrame) -> str:
    """Render a Markdown table with a bar for the share of cells of each column that are not null."""
    if frame.is_empty():
        return "no rows"
    shares = {name: 1 - count / frame.height for name, count in frame.null_count().row(0, named=True).items()}
    rows = ([_render_code(name), f"{'█' * round(BAR * share):░<{BAR}} {floor_percent(share)}"] for name, share in shares.items())
    return "\n".join(markdown_table(["column", "cells with a value"], rows))


def _render_code(text: str) -> str:
    cut = text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
    plain = "".join(character if character.isprintable() else " " for character in cut)
    return f"`{plain.replace('`', chr(39)).replace('|', '¦')}`" if plain.strip() else ""
