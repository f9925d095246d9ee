"""What the command line shows: tables and progress for people, JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from bellwether.numbers import number
from bellwether.text_tables import plain_grid, visible
from bellwether.units import floor_percent

if TYPE_CHECKING:
    import polars as pl

#: Contaminated forecasters that are named below a leaderboard.
_CONTAMINATED = 4


@lru_cache(maxsize=1)
def console() -> Console:
    """The console for people, on standard output."""
    return Console(highlight=False)


def emit(value: Any) -> None:
    """Print `value` as JSON: times in ISO format, decimals as text so that no digit is lost."""
    sys.stdout.write(_UNPRINTABLE.sub(_escaped, json.dumps(value, default=_plain, indent=2, ensure_ascii=False)) + "\n")
    sys.stdout.flush()


#: Characters that steer a terminal or turn the direction of writing, which JSON may hold as they are.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    return str(value)


def grid(frame: pl.DataFrame, *, title: str | None = None, most: int = 100) -> Rows:
    """A frame as a table of at most `most` rows that breaks no word; cells are text, never markup.

    A table that is too wide is drawn without rules, its column names broken after underscores. If it is still too wide, each row becomes a block
    with a line per column.
    """
    names = [visible(name) for name in frame.columns]
    cells = [[visible(_cell(value), "\n") for value in row] for row in frame.head(most).iter_rows()]
    numeric = [dtype.is_numeric() for dtype in frame.schema.values()]
    return Rows(names, cells, numeric, title, f"{most} of {frame.height} rows" if frame.height > most else None)


class Rows:
    """Rows as rich draws them in the width that it has."""

    def __init__(self, names: list[str], cells: list[list[str]], numeric: list[bool], title: str | None, caption: str | None) -> None:
        self._names, self._cells, self._numeric = names, cells, numeric
        self._title, self._caption = title, caption

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads, count = [_parts(name) for name in self._names], len(self._names)
        # Every column has a space on both sides and a line on its left; the last one on its right too.
        if widths := self._widths(options.max_width - 3 * count - 1, [[name] for name in self._names]):
            yield self._table(self._names, widths)
        elif widths := self._widths(options.max_width - count + 1, heads):
            folded = [_folded(head, width) for head, width in zip(heads, widths, strict=True)]
            yield self._table(folded, widths, box=SIMPLE_HEAD, padding=0, show_edge=False)
        else:
            yield from self._blocks(options.max_width)

    def _table(self, heads: list[str], widths: list[int], **look: Any) -> Grid:
        table = Grid(title=Text(self._title) if self._title else None, title_justify="left", caption=self._caption, **look)
        for name, width, numeric in zip(heads, widths, self._numeric, strict=True):
            table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold", width=width)
        for row in self._cells:
            table.add_row(*map(Text, row))
        return table

    def _widths(self, room: int, heads: list[list[str]]) -> list[int] | None:
        """Characters for each column, of which none is shorter than its longest word or part of its head; None where there is no room for these."""
        cells = [[row[index] for row in self._cells] for index in range(len(heads))]
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
        """A block per row: the column's name, and its text from a common edge on, broken between words."""
        edge = min(max(map(cell_len, self._names), default=0) + 2, max(room // 2, 1))
        if self._title:
            yield Text(self._title)
        for place, row in enumerate(self._cells, start=1):
            yield Text(f"row {place}", style="dim")
            for name, text in zip(self._names, row, strict=True):
                first, *others = [
                    part
                    for line in (text.split("\n") or [""])
                    for part in (wrap(line, max(room - edge, 1), break_long_words=False) or [""])
                ]
                yield Text(f"{name:<{edge}}{first}", no_wrap=True, overflow="ignore")
                for part in others:
                    yield Text(" " * edge + part, no_wrap=True, overflow="ignore")
        if self._caption:
            yield Text(self._caption, style="dim")


def _parts(name: str) -> list[str]:
    """A column's name in parts that each end with an underscore, but for the last."""
    return re.findall(r"[^_]*_+|[^_]+", name) or [name]


def _folded(parts: list[str], width: int) -> str:
    """The parts of a name in lines of at most so many characters."""
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
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def _known(frame: pl.DataFrame) -> str:
    """A sentence about what was excluded; nothing where nothing was."""
    some = frame.filter(frame["could_know"] > 0).sort("could_know", "forecaster", descending=[True, False])
    if some.is_empty():
        return ""
    most = [f"{row['could_know']} of {row['forecaster']}" for row in some.head(_CONTAMINATED).iter_rows(named=True)]
    others = [f"some of {some.height - _CONTAMINATED} more"] if some.height > _CONTAMINATED else []
    said = f"Questions that do not count, because the model could know the outcome: {', '.join(most + others)}."
    return "".join(f"\n{line}" for line in wrap(said, 80))


def _without_interval(frame: pl.DataFrame) -> str:
    """Why Brier scores have no interval, one line per reason; nothing where all have one."""
    reasons = Counter(frame.filter(frame["brier"].is_not_null())["brier_reason"].drop_nulls().sort())
    return "".join(f"\nNo interval for {count} of {frame.height}: {reason}." for reason, count in reasons.items())


def leaderboard_table(release: str, frame: pl.DataFrame) -> Group:
    """Rows of benchmark/leaderboard as people read them, 80 characters wide; the Brier score with its 95 % interval."""
    columns = ("", "forecaster", "Brier [95 %]", "grp", "skill", "vs mkt", "ECE", "p", "cov.")
    title = Text(f"{release}: {max(frame['n_questions'], default=0)} questions")
    table = plain_grid(title, columns, ("forecaster", "grp"))
    for row in frame.iter_rows(named=True):
        # Too few questions for an interval: the market had no price when most were asked.
        over_market = row["skill_vs_market"] if row["skill_vs_market_lower"] is not None else None
        skill = [number(row["brier_skill"], 2, none=""), number(over_market, 2, none="")]
        calibration = [_short(row["ece"], 3), _short_p(row["ece_p_calibrated"])]
        rank = "–" if row["rank"] is None else str(row["rank"])
        table.add_row(
            rank, Text(row["forecaster"]), _interval(row, "brier"), row["group"] or "", *skill, *calibration, floor_percent(row["coverage"])
        )
    explained = (
        "Lower Brier is better. grp: forecasters that share a letter do not differ\n"
        "significantly. skill: over the base rate; vs mkt: over the market's price at the\n"
        "same time (blank: too few had one); p: of a test of calibration by ECE; cov.:\n"
        "share of questions scored (–: too little to be ranked)." + _without_interval(frame) + _known(frame)
    )
    return Group(table, Text(f"\n{explained}", style="dim"))


def _short(value: float | None, digits: int) -> str:
    """A number below 1 without its leading zero."""
    return number(value, digits, none="").removeprefix("0")


def _short_p(value: float | None) -> str:
    return "" if value is None else "<.01" if value < 0.01 else _short(value, 2)


def _interval(row: dict[str, Any], metric: str) -> str:
    if row[metric] is None or row[f"{metric}_lower"] is None:
        return _short(row[metric], 3)
    lower, upper = (_short(row[f"{metric}_{end}"], 3) for end in ("lower", "upper"))
    return f"{_short(row[metric], 3)} [{lower}, {upper}]"
