"""Text that goes into a spreadsheet: a cell that a program would run as a formula is written as text."""

from __future__ import annotations

import polars as pl

#: First characters that spreadsheets take for the beginning of a formula (OWASP, CSV injection).
FORMULA = r"^([=+\-@\t\r])"


def neutralised(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with an apostrophe before every text that begins like a formula; numbers and times stay as they are."""
    return frame.with_columns(pl.col(pl.String).str.replace(FORMULA, "'${1}"))


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with lists as texts in brackets, which are no formula: CSV has no lists."""
    lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    texts = [pl.format("[{}]", pl.col(name).cast(pl.List(pl.String)).list.join("; ", ignore_nulls=True)).alias(name) for name in lists]
    return frame.with_columns(texts)
