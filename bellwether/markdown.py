"""Tables of Markdown: the one place that writes them. What a cell says, and how it is escaped, is its caller's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

LEFT, RIGHT, PLAIN = ":--", "--:", "---"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], rule: Sequence[str] | None = None) -> list[str]:
    """The lines of a table. rule: `LEFT`, `RIGHT` or `PLAIN` per column; `PLAIN` everywhere when left out. Cells are Markdown already."""
    return [line(header), line(rule or [PLAIN] * len(header)), *map(line, rows)]


def line(cells: Iterable[str]) -> str:
    """The cells of a row, on one line."""
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """`text` without what would end its cell."""
    return text.replace("|", "\\|")
