"""Text that goes into a spreadsheet: a cell that a program would run as a formula is written as text, and control characters as signs."""

from __future__ import annotations

import polars as pl

#: First characters that spreadsheets take for the beginning of a formula (OWASP, CSV injection).
FORMULA = r"^([=+\-@\t\r])"
#: Control characters but tabs and ends of lines, which CSV quotes: a terminal that shows the file obeys them.
_CONTROLS = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\u009f]"
_SIGNS = {
    **{chr(code): chr(ord("\N{SYMBOL FOR NULL}") + code) for code in range(0x20) if chr(code) not in "\t\n\r"},
    "\x7f": "\N{SYMBOL FOR DELETE}",
    **{chr(code): "\N{REPLACEMENT CHARACTER}" for code in range(0x80, 0xA0)},
}


def neutralised(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with an apostrophe before every text that begins like a formula, and a sign in place of every control character.

    An escape becomes `␛`; tabs and ends of lines stay, and so do numbers and times.
    """
    frame = frame.with_columns(pl.col(pl.String).str.replace(FORMULA, "'${1}"))
    odd = [name for name, dtype in frame.schema.items() if dtype == pl.String and frame[name].str.contains(_CONTROLS).any()]
    return frame.with_columns(pl.col(odd).str.replace_many(list(_SIGNS), list(_SIGNS.values())))


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with lists as texts in brackets, which are no formula: CSV has no lists."""
    lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    texts = [pl.format("[{}]", pl.col(name).cast(pl.List(pl.String)).list.join("; ", ignore_nulls=True)).alias(name) for name in lists]
    return frame.with_columns(texts)
