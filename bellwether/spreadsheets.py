"""Text that goes into a spreadsheet: a cell that a program would run as a formula is written as text."""

from __future__ import annotations

import polars as pl

#: First characters that spreadsheets take for the beginning of a formula (OWASP, CSV injection).
FORMULA = r"^([=+\-@\t\r])"


def neutralised(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with an apostrophe before every text that begins like a formula; numbers and times stay as they are."""
    return frame.with_columns(pl.col(pl.String).str.replace(FORMULA, "'${1}"))
