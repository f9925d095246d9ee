"""Output of commands: text tables for users, JSON for programs, and the progress and remaining time of a command."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from textwrap import wrap
from typing import IO, TYPE_CHECKING, Any, Protocol

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table as Grid
from rich.text import Text

from bellwether.formatting import visible

if TYPE_CHECKING:
    import polars as pl

#: Control characters of terminals and text direction that JSON may contain unescaped.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: Seconds within which a command shows nothing.
PATIENCE = 2.0
#: Seconds between plain lines about the same stage.
INTERVAL = 10.0
#: Receives the number of parts of a stage that are finished since the last call.
Advance = Callable[[int], None]


@lru_cache(maxsize=1)
def console() -> Console:
    """Return the console for text on standard output."""
    return Console(highlight=False)


def emit(value: Any) -> None:
    """Print `value` as JSON. Times are in ISO format, decimals are texts that keep all digits, and NaN and infinity are null."""
    finite = json.loads(json.dumps(value, default=_plain), parse_constant=lambda name: None)
    text = json.dumps(finite, indent=2, ensure_ascii=False)
    sys.stdout.write(_UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")
    sys.stdout.flush()


@contextmanager
def output_to_stderr() -> Iterator[None]:
    """Redirect standard output, also of started processes, to standard error until the block ends, so that messages do not mix with results."""
    sys.stdout.flush()
    former = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(former, 1)
        os.close(former)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else str(value)


def grid(frame: pl.DataFrame, *, title: str | None = None, most: int = 100) -> TextTable:
    """Convert a frame to a text table of its first `most` rows. Cells are shown as plain text, never as markup."""
    rows = [[visible(_cell(value), "\n") for value in row] for row in frame.head(most).iter_rows()]
    caption = f"{most} of {frame.height} rows" if frame.height > most else ""
    return TextTable(
        title or "", [visible(name) for name in frame.columns], caption, [dtype.is_numeric() for dtype in frame.schema.values()], rows
    )


@dataclass(slots=True)
class TextTable:
    """Rows of a frame as text for the terminal.

    A table that is too wide loses its rules, and its column names are broken after underscores; if it is still too wide, each row becomes a block with
    a line per column. numeric: which columns are aligned at the right.
    """

    title: str
    columns: Sequence[str]
    caption: str
    numeric: Sequence[bool]
    rows: Sequence[Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
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
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table

    def _widths(self, room: int, heads: list[list[str]]) -> list[int] | None:
        """Return the width of each column, at least that of its longest word; None if the columns do not fit into `room`.
        heads: parts of the column names.
        """
        cells = [[row[index] for row in self.rows] for index in range(len(heads))]
        minimum = [
            max((cell_len(word) for text in (*head, *column) for word in text.split()), default=1) or 1
            for head, column in zip(heads, cells, strict=True)
        ]
        wanted = [
            max((cell_len(line) for text in ("".join(head), *column) for line in text.split("\n")), default=1) or 1
            for head, column in zip(heads, cells, strict=True)
        ]
        free = room - sum(minimum)
        if free < 0:
            return None
        # Columns that need little more get it first; long texts share the rest.
        widths = list(minimum)
        for index in sorted(range(len(minimum)), key=lambda index: wanted[index] - minimum[index]):
            more = min(wanted[index] - minimum[index], free)
            widths[index] += more
            free -= more
        return widths

    def _blocks(self, room: int) -> Iterator[Text]:
        """Yield the lines for a narrow terminal: a block per row, with a line for each column, wrapped to `room` characters."""
        edge = min(max(map(cell_len, self.columns), default=0) + 2, max(room // 2, 1))
        if self.title:
            yield Text(self.title)
        for place, row in enumerate(self.rows, start=1):
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
    """Split the name of a column after underscores."""
    return re.findall(r"[^_]*_+|[^_]+", name) or [name]


def _folded(parts: list[str], width: int) -> str:
    """Join the parts of a column name to lines of at most `width` characters."""
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
    """Create an empty Rich table in the common style. left: columns aligned at the left; all others at the right."""
    table = Grid(title=title, title_justify="left", box=SIMPLE_HEAD, padding=padding, show_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return table


def named_grid(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Grid:
    """Build a Rich table whose first column has names, which take several lines if the table is too wide. Control characters become visible symbols."""
    table = plain_grid(Text(visible(title), style="italic"))
    for place, name in enumerate(columns):
        is_name = place == 0
        table.add_column(Text(visible(name, "\n")), justify="left" if is_name else "right", no_wrap=not is_name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return table


class Progress(Protocol):
    """Display of a command's progress, in stages."""

    def say(self, text: str) -> None:
        """Show what the command is doing now."""

    def stage(self, name: str, total: int) -> AbstractContextManager[Advance]:
        """Show a stage with `total` equal parts until the block ends.
        Yields the function to call with the number of parts just finished. Stages may be nested.
        """


class Silent:
    """Progress that shows nothing."""

    def say(self, text: str) -> None:
        """Show nothing."""
        return

    def stage(self, name: str, total: int) -> AbstractContextManager[Advance]:
        """Show nothing."""
        return nullcontext(lambda parts: None)


@dataclass
class _Stage:
    """Stage with a number of equal parts, and its estimated remaining time."""

    name: str
    total: int
    clock: Callable[[], float]
    began: float
    done: int = 0

    def advance(self, parts: int) -> None:
        self.done += parts

    def __str__(self) -> str:
        left = (self.clock() - self.began) / self.done * (self.total - self.done) if 0 < self.done < self.total else 0
        return visible(f"{self.name}: {self.done} of {self.total}{f', about {_span(left)} left' if left else ''}")


class Lines:
    """Progress as lines of text, at most one per `interval` seconds. The end of a long stage is always written.

    now: monotonic clock, in seconds.
    """

    def __init__(self, stream: IO[str], *, interval: float = INTERVAL, now: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._interval, self._now = stream, interval, now
        self._stages: list[_Stage] = []
        self._activity, self._since = "", now()
        self._due = now() + PATIENCE
        self._lock = threading.RLock()

    def say(self, text: str) -> None:
        """Set the current activity, and write a line if one is due."""
        with self._lock:
            self._activity, self._since = text, self._now()
            self.tick()

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        """Include a stage of `total` parts in the lines until the block ends. Yields the function to call with the number of parts just finished."""
        stage = _Stage(name, total, self._now, self._now())

        def advance(parts: int) -> None:
            with self._lock:
                stage.advance(parts)
                self.tick()

        with self._lock:
            self._stages.append(stage)
        try:
            yield advance
        finally:
            with self._lock:
                self._stages.remove(stage)
        if (seconds := self._now() - stage.began) >= PATIENCE and stage.done == total:
            self._write(f"{name}: {total} of {total} in {_span(seconds)}")

    def tick(self) -> None:
        """Write a line if one is due."""
        with self._lock:
            now = self._now()
            if now >= self._due and (self._stages or self._activity):
                duration = f", for {_span(now - self._since)}" if now - self._since >= self._interval else ""
                self._write("; ".join([*map(str, self._stages), *([f"{self._activity}{duration}"] if self._activity else [])]))

    def _write(self, line: str) -> None:
        """Write a line; the next is due after the interval."""
        with self._lock:
            self._due = self._now() + self._interval
            self._stream.write(f"{visible(line)}\n")
            self._stream.flush()


@contextmanager
def shown(stream: IO[str] | None = None) -> Iterator[Progress]:
    """Yield a progress display on standard error, or on `stream`, until the block ends."""
    stream = stream or sys.stderr
    if stream.isatty():
        with _live(stream) as live:
            yield live
        return
    lines, ended = Lines(stream), threading.Event()

    def tick() -> None:
        while not ended.wait(1.0):
            lines.tick()

    clock = threading.Thread(target=tick, daemon=True, name="progress")
    clock.start()
    try:
        yield lines
    finally:
        ended.set()
        clock.join()


@contextmanager
def _live(stream: IO[str]) -> Iterator[Progress]:
    columns = (SpinnerColumn(), TextColumn("{task.fields[line]}", markup=False), BarColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(file=stream), transient=True) as bars:
        yield _Live(bars)


class _Live:
    """Live display in a terminal: a bar for each open stage, and a line with the current activity."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._activity = bars.add_task("", total=None, line="starting")

    def say(self, text: str) -> None:
        self._bars.update(self._activity, line=visible(text))

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        """Show a bar for a stage of `total` parts until the block ends. Yields the function to call with the number of parts just finished."""
        stage = _Stage(name, total, time.monotonic, time.monotonic())
        task = self._bars.add_task("", total=total, line=stage)

        def advance(parts: int) -> None:
            stage.advance(parts)
            self._bars.advance(task, parts)

        try:
            yield advance
        finally:
            self._bars.remove_task(task)


def _span(seconds: float) -> str:
    """Format a duration in seconds with a suitable unit."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    return f"{round(whole / 60)} min" if whole < 5400 else f"{whole // 3600} h {whole % 3600 // 60} min"
