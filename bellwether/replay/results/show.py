"""Prints the results tables on the console."""

from __future__ import annotations

from rich.text import Text

from bellwether.console import console, plain_grid
from bellwether.replay.results.lines import Lines

#: Least characters of a name, which is folded before any number is.
_NAME = 12


def show(lines: Lines, most: int | None = None) -> None:
    """Print a table, at most `most` rows of it, and its notes; cells are text, never markup."""
    table = plain_grid(Text(_plain(lines.title)), padding=(0, 1, 0, 0))
    table.add_column(Text(lines.header[0]), overflow="fold", min_width=_NAME)
    for place, name in enumerate(lines.header[1:], start=1):
        widest = max(map(len, (*name.split(), *(row[place] for row in lines.rows[:most]))))
        table.add_column(Text(name), justify="right", width=widest)
    for row in lines.rows[:most]:
        table.add_row(*(Text(_plain(cell)) for cell in row))
    console().print(table)
    if most is not None and len(lines.rows) > most:
        console().print(Text(f"the best {most} of {len(lines.rows)}; --out or --json has all", style="dim"))
    for note in lines.notes:
        console().print(Text(_plain(note), style="dim"))


def _plain(text: str) -> str:
    """Without control characters, which a name of anyone's may hold."""
    return "".join(one if one.isprintable() else " " for one in text)
