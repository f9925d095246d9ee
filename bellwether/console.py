"""Output of the command line: text tables, and JSON for programs."""

from __future__ import annotations

import json
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from bellwether.untrusted_text import visible

if TYPE_CHECKING:
    import polars as pl

#: Minimum width of a shortened name.
_LEAST = 5
#: Between two names in one cell.
_BETWEEN = " – "


@lru_cache(maxsize=1)
def console() -> Console:
    """Return the text console on standard output."""
    return Console(highlight=False)


def emit(value: Any) -> None:
    """Print `value` as JSON: times in ISO format, decimals as text so that no digit is lost."""
    sys.stdout.write(_UNPRINTABLE.sub(_escaped, json.dumps(value, default=_plain, indent=2, ensure_ascii=False)) + "\n")
    sys.stdout.flush()


@contextmanager
def output_to_stderr() -> Iterator[None]:
    """Send what agents and forecasters print, also in processes that they start, to standard error: standard output has the results alone."""
    sys.stdout.flush()
    former = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(former, 1)
        os.close(former)


#: Control characters of terminals and text direction that JSON may contain unescaped.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    return str(value)


def grid(frame: pl.DataFrame, *, title: str | None = None, most: int = 100) -> TextTable:
    """Convert a frame to a table of at most `most` rows; cells are text, never markup."""
    table = TextTable(
        title or "",
        [visible(name) for name in frame.columns],
        f"{most} of {frame.height} rows" if frame.height > most else "",
        numeric=[dtype.is_numeric() for dtype in frame.schema.values()],
    )
    table.rows = [((), [visible(_cell(value), "\n") for value in row]) for row in frame.head(most).iter_rows()]
    return table


@dataclass(slots=True)
class TextTable:
    """A table of text; control characters are shown, never sent to the terminal.

    Printed alone it breaks no word: a table that is too wide is drawn without rules, its column names broken after underscores, and if it is still too
    wide, each row becomes a block with a line per column. `print_tables` prints tables whose rows have names, shortened alike in all of them.

    columns: heads of all columns, with a line break where the head may take two lines. wraps: the last column is text that may take several lines.
    shortens: the first column has names that are shortened where they do not fit; else it may take several lines too. numeric: columns aligned at the
    right; none for a table of named rows. rows: names of the row, then its other cells.
    """

    title: str
    columns: Sequence[str]
    caption: str = ""
    wraps: bool = False
    shortens: bool = True
    numeric: Sequence[bool] = ()
    rows: list[tuple[tuple[str, ...], list[str]]] = field(default_factory=list)

    def add(self, names: str | tuple[str, ...], *cells: str) -> None:
        """Append a row."""
        several = (names,) if isinstance(names, str) else names
        self.rows.append((tuple(map(visible, several)), [visible(cell) for cell in cells]))

    def room(self, width: int) -> int:
        """Return the characters for each name in a table of `width`; `width` if all names fit."""
        cells = self.columns[1:-1] if self.wraps else self.columns[1:]
        taken = sum(1 + max(_longest(head.split("\n")), _longest(row[index] for _, row in self.rows)) for index, head in enumerate(cells))
        least = 1 + _longest(self.columns[-1].split()) if self.wraps else 0
        names = max((len(names) for names, _ in self.rows), default=1)
        free = width - taken - least
        if _longest(_BETWEEN.join(names) for names, _ in self.rows) <= free:
            return width
        return (free - len(_BETWEEN) * (names - 1)) // names

    def grid(self, names: Mapping[str, str]) -> Grid:
        """Build the table without its caption. names: shortened names."""
        shown = [_BETWEEN.join(names.get(name, name) if self.shortens else name for name in row) for row, _ in self.rows]
        table = plain_grid(Text(visible(self.title), style="italic"))
        for index, name in enumerate(self.columns):
            last = index == len(self.columns) - 1
            folds = (index == 0 and not self.shortens) or (last and self.wraps)
            table.add_column(
                Text(visible(name, "\n")), justify="left" if index == 0 or folds else "right", no_wrap=not folds, overflow="fold"
            )
        for name, (_, cells) in zip(shown, self.rows, strict=True):
            table.add_row(Text(name), *(Text(cell) for cell in cells))
        return table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.numeric:
            yield self.grid({})
            return
        heads, count = [_parts(name) for name in self.columns], len(self.columns)
        # Every column has a space on both sides and a line on its left; the last one on its right too.
        if widths := self._widths(options.max_width - 3 * count - 1, [[name] for name in self.columns]):
            yield self._table(self.columns, widths)
        elif widths := self._widths(options.max_width - count + 1, heads):
            folded = [_folded(head, width) for head, width in zip(heads, widths, strict=True)]
            yield self._table(folded, widths, box=SIMPLE_HEAD, padding=0, show_edge=False)
        else:
            yield from self._blocks(options.max_width)

    def _table(self, heads: Sequence[str], widths: list[int], **look: Any) -> Grid:
        table = Grid(title=Text(self.title) if self.title else None, title_justify="left", caption=self.caption or None, **look)
        for name, width, numeric in zip(heads, widths, self.numeric, strict=True):
            table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold", width=width)
        for _, row in self.rows:
            table.add_row(*map(Text, row))
        return table

    def _widths(self, room: int, heads: list[list[str]]) -> list[int] | None:
        """Return the width of each column, at least its longest word or part of its head; None if they do not fit."""
        cells = [[row[index] for _, row in self.rows] for index in range(len(heads))]
        least = [
            max((cell_len(word) for text in (*head, *column) for word in text.split()), default=1) or 1
            for head, column in zip(heads, cells, strict=True)
        ]
        wanted = [
            max((cell_len(line) for text in ("".join(head), *column) for line in text.split("\n")), default=1) or 1
            for head, column in zip(heads, cells, strict=True)
        ]
        free = room - sum(least)
        if free < 0:
            return None
        # Columns that want least get all of it first: a text takes what the others leave.
        widths = list(least)
        for index in sorted(range(len(least)), key=lambda one: wanted[one] - least[one]):
            more = min(wanted[index] - least[index], free)
            widths[index] += more
            free -= more
        return widths

    def _blocks(self, room: int) -> Iterator[Text]:
        """Yield a block per row: names and texts of columns, wrapped between words."""
        edge = min(max(map(cell_len, self.columns), default=0) + 2, max(room // 2, 1))
        if self.title:
            yield Text(self.title)
        for place, (_, row) in enumerate(self.rows, start=1):
            yield Text(f"row {place}", style="dim")
            for name, text in zip(self.columns, row, strict=True):
                first, *others = [
                    part
                    for line in (text.split("\n") or [""])
                    for part in (wrap(line, max(room - edge, 1), break_long_words=False) or [""])
                ]
                yield Text(f"{name:<{edge}}{first}", no_wrap=True, overflow="ignore")
                for part in others:
                    yield Text(" " * edge + part, no_wrap=True, overflow="ignore")
        if self.caption:
            yield Text(self.caption, style="dim")


def _parts(name: str) -> list[str]:
    """Split a column's name after underscores."""
    return re.findall(r"[^_]*_+|[^_]+", name) or [name]


def _folded(parts: list[str], width: int) -> str:
    """Join the parts of a name to lines of at most `width` characters."""
    lines = [parts[0]]
    for part in parts[1:]:
        if cell_len(lines[-1] + part) <= width:
            lines[-1] += part
        else:
            lines.append(part)
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:z.6g}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def plain_grid(
    title: Text, columns: Sequence[str] = (), left: Collection[str] = (), *, padding: int | tuple[int, int, int, int] = 0
) -> Grid:
    """Create an empty table in the common style. left: names of left-aligned columns."""
    table = Grid(title=title, title_justify="left", box=SIMPLE_HEAD, padding=padding, show_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return table


def print_tables(console: Console, tables: Sequence[TextTable], names: Sequence[str]) -> None:
    """Print tables that share `names`, each shortened alike in all of them, with a legend where names are shortened."""
    width = console.width
    short = shortened(
        [visible(name) for name in names], min((table.room(width) for table in tables if table.rows and table.shortens), default=width)
    )
    legend = [f"{shown} = {name}" for name, shown in short.items() if shown != name]
    if legend:
        console.print(Text(f"Names: {'; '.join(legend)}\n", style="dim"))
    for table in tables:
        console.print(table.grid(short))
        if table.caption:
            console.print(Text(visible(table.caption, "\n"), style="dim"))
        console.print()


def _longest(texts: Iterable[str]) -> int:
    return max((cell_len(text) for text in texts), default=0)


def shortened(names: Sequence[str], width: int) -> Mapping[str, str]:
    """Each of `names`, distinct, at most `width` columns wide where that leaves them distinct: `GPT-5.2-XHigh` in 9 is `GPT-…High`.

    Names keep their beginning and their end; where several come out alike, their ends get more room, and at last each gets its number.
    """
    distinct = list(dict.fromkeys(names))
    room = max(width, _LEAST)
    for tail in range((room - 1) // 2, room):
        short = [name if cell_len(name) <= room else f"{_beginning(name, room - 1 - tail)}…{_end(name, tail)}" for name in distinct]
        if len(set(short)) == len(distinct):
            return dict(zip(distinct, short, strict=True))
    return {name: name if cell_len(name) <= room and not _numbers(name) else f"#{index}" for index, name in enumerate(distinct, 1)}


def _beginning(name: str, width: int) -> str:
    """Return the beginning of a name in at most `width` columns; East Asian letters take two."""
    taken = list(accumulate(map(cell_len, name)))
    return name[: bisect_right(taken, width)]


def _end(name: str, width: int) -> str:
    taken = list(accumulate(map(cell_len, reversed(name))))
    return name[len(name) - bisect_right(taken, width) :]


def _numbers(name: str) -> bool:
    """Return whether a name looks like a row number of this table."""
    return name.startswith("#")
