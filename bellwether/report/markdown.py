"""Markdown whose tables and lines no text can break: what others wrote is shown as it is, never as markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from bellwether.calibration.comparison import p_text
from bellwether.formatting import LEFT, NOTHING, RIGHT, markdown_table
from bellwether.untrusted_text import one_line

#: Characters of a text that a cell shows.
MOST = 160

_MARKUP = re.compile(r"[\\`*_{}\[\]<>|&~$@]|:(?=//)|(?<=www)\.", re.IGNORECASE)

#: What makes a heading, a list or a rule of a line that begins so.
_BLOCK = re.compile(r"^((?:\d+(?=[.)](?:\s|$)))?)([#+=.)-])")


def text(value: object, most: int = MOST) -> str:
    """A text of anyone's as one line of Markdown that shows its characters: no markup, HTML, link or table cell begins in it.

    Line breaks and what cannot be printed become spaces; what exceeds `most` characters is cut.
    """
    if value is None:
        return NOTHING
    line = _MARKUP.sub(lambda found: "\\" + found[0], one_line(str(value), most))
    return _BLOCK.sub(lambda found: found[1] + "\\" + found[2], line)


def p_value(value: float | None, digits: int = 4) -> str:
    """A p-value: never 0, but below the least number with so many decimals."""
    return NOTHING if value is None else text(p_text(value, digits))


def when(value: datetime | str | None) -> str:
    """An instant (a text in ISO format will do) as people read it, to the minute, in UTC."""
    if value is None:
        return NOTHING
    instant = datetime.fromisoformat(value) if isinstance(value, str) else value
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> list[str]:
    """A table whose first `texts` columns are text and whose others are numbers, with an empty line after it; "Nothing." without a row.

    Cells are Markdown already, made by the functions of this module.
    """
    cells = list(rows)
    if not cells:
        return ["Nothing.", ""]
    return [*markdown_table(header, cells, [LEFT] * texts + [RIGHT] * (len(header) - texts)), ""]
