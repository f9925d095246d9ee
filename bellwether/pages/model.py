"""Parts of a page before it becomes HTML: cells, tables, charts, long texts, sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: What a cell is sorted by.
SortKey = float | int | str | None


class Cell(NamedTuple):
    """A value as it is shown: its text, what it is sorted by, where it leads (from the root of the site), and more of it on pointing."""

    text: str
    key: SortKey = None
    href: str = ""
    title: str = ""


class Head(NamedTuple):
    """The head of a column, its meaning, and whether it holds numbers."""

    text: str
    meaning: str = ""
    number: bool = False


@dataclass(frozen=True, slots=True)
class PageTable:
    """Rows under heads, whole in the page; a click on a head sorts. folded: shown when its caption is clicked."""

    caption: str
    heads: Sequence[Head]
    rows: Sequence[Sequence[Cell]]
    folded: bool = False
    kind: str = "table"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of any length: the page has its first rows, files next to the page have all of them.

    filters: columns with a list to choose a value from. search: columns that a search looks at. chosen: filters at the start, by column.
    size: rows of a page.
    """

    name: str
    caption: str
    heads: Sequence[Head]
    rows: Sequence[Sequence[Cell]]
    filters: Sequence[int] = ()
    search: Sequence[int] = ()
    chosen: Mapping[int, str] = field(default_factory=dict)
    size: int = 25
    kind: str = "grid"


@dataclass(frozen=True, slots=True)
class Chart:
    """A Vega-Lite chart and its rows. `by` names the field whose values can be chosen, `first` are those chosen at the start, `colours` their colours."""

    title: str
    description: str
    spec: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    by: str = ""
    first: Sequence[str] = ()
    colours: Mapping[str, str] = field(default_factory=dict)
    kind: str = "chart"


@dataclass(frozen=True, slots=True)
class Text:
    """A verbatim text, with its line breaks."""

    title: str
    body: str
    open: bool = True
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class TextEntry:
    """Texts that belong together under a title, with the anchor that leads to them: label, text, and the path of a file with the end of the text."""

    anchor: str
    title: str
    texts: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts that are loaded on demand, verbatim, from one file next to the page; equal texts are stored once."""

    name: str
    entries: Sequence[TextEntry]
    kind: str = "texts"


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence of ours."""

    body: str
    kind: str = "note"


@dataclass(frozen=True, slots=True)
class Code:
    """Text to copy into a terminal or an editor."""

    body: str
    kind: str = "code"


@dataclass(frozen=True, slots=True)
class Facts:
    """Values by name. meanings: of names, shown on pointing."""

    rows: Sequence[tuple[str, Cell]]
    meanings: Mapping[str, str] = field(default_factory=dict)
    kind: str = "facts"


@dataclass(frozen=True, slots=True)
class Stats:
    """Headline numbers, each in a tile: name, value, and a short remark."""

    rows: Sequence[tuple[str, Cell, str]]
    kind: str = "stats"


@dataclass(frozen=True, slots=True)
class Links:
    """Links to other pages."""

    rows: Sequence[Cell]
    kind: str = "links"


Part = Stats | Links | PageTable | Grid | Chart | Text | Texts | Note | Code | Facts


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page under a heading, on a grid of twelve columns. spans: columns of each part on a wide screen, all twelve when left out. width: its own on the page.

    Sections narrower than the page are side by side.
    """

    title: str
    parts: Sequence[Part]
    spans: Sequence[int] = ()
    width: int = 12

    @classmethod
    def even(cls, title: str, parts: Sequence[Part]) -> Section:
        """A section whose one to four parts are side by side, equally wide."""
        return cls(title, parts, [12 // len(parts)] * len(parts) if parts else ())


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its path from the root of the site, title, a sentence below it, the pages above it, and sections."""

    path: str
    title: str
    lead: str
    sections: Sequence[Section]
    above: Sequence[tuple[str, str]] = field(default=())
