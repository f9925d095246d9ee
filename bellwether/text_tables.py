"""Text tables whose first column holds names, drawn so that the names stay distinct at the width of the terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from bellwether.short_names import shortened

#: Between two names in one cell.
_BETWEEN = " – "


@dataclass(slots=True)
class TextTable:
    """A table with a row per name or pair of names, and cells; control characters are shown, never sent to the terminal.

    columns: heads of all columns, with a line break where the head may take two lines. wraps: the last column is text that may take several lines.
    shortens: the first column holds names that are shortened where they do not fit; else it may take several lines too.
    """

    title: str
    columns: Sequence[str]
    caption: str = ""
    wraps: bool = False
    shortens: bool = True
    rows: list[tuple[tuple[str, ...], list[str]]] = field(default_factory=list)

    def add(self, names: str | tuple[str, ...], *cells: str) -> None:
        """Append a row."""
        several = (names,) if isinstance(names, str) else names
        self.rows.append((tuple(map(visible, several)), [visible(cell) for cell in cells]))

    def room(self, width: int) -> int:
        """Characters that a table of `width` leaves for each name; `width` where all fit as they are."""
        cells = self.columns[1:-1] if self.wraps else self.columns[1:]
        taken = sum(1 + max(_longest(head.split("\n")), _longest(row[index] for _, row in self.rows)) for index, head in enumerate(cells))
        least = 1 + _longest(self.columns[-1].split()) if self.wraps else 0
        names = max((len(names) for names, _ in self.rows), default=1)
        free = width - taken - least
        if _longest(_BETWEEN.join(names) for names, _ in self.rows) <= free:
            return width
        return (free - len(_BETWEEN) * (names - 1)) // names

    def grid(self, names: Mapping[str, str]) -> Grid:
        """The table without its caption, each name as `names` shortens it."""
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


def plain_grid(
    title: Text, columns: Sequence[str] = (), left: Collection[str] = (), *, padding: int | tuple[int, int, int, int] = 0
) -> Grid:
    """A table without rows in the style of all tables: columns whose names are in `left` are aligned there, the others at the right."""
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


def visible(text: str, kept: str = "") -> str:
    r"""Text with a sign in place of every control character but those `kept`: `\x1b[31m` in a name shows as `␛[31m` and colours nothing."""
    return text if text.isprintable() else "".join(letter if letter in kept else _sign(letter) for letter in text)


def _sign(letter: str) -> str:
    if letter < " ":
        return chr(ord("\N{SYMBOL FOR NULL}") + ord(letter))
    # Controls, marks that turn the direction of writing, separators of lines, and what no terminal can show.
    return letter if unicodedata.category(letter) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} else "\N{REPLACEMENT CHARACTER}"


def _longest(texts: Iterable[str]) -> int:
    return max((cell_len(text) for text in texts), default=0)
