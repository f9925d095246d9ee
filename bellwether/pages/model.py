"""Parts of a page: sections with tables, charts, texts and headline numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: Sort key of a cell.
SortKey = float | int | str | None


class Bar(NamedTuple):
    """Interval drawn below the text of a cell. All positions are percentages of the width; an interval that reaches beyond 0 or 100 is cut.

    reference: position of a thin line, such as that of zero.
    """

    lower: float
    value: float
    upper: float
    reference: float | None = None


class Cell(NamedTuple):
    """Displayed value: text, sort key, link from the root of the site, tooltip, small text after it, and interval drawn below it."""

    text: str
    key: SortKey = None
    href: str = ""
    title: str = ""
    note: str = ""
    bar: Bar | None = None


class Head(NamedTuple):
    """Head of a column: title, definition, whether its cells are numbers, and whether readers must pick the column to see it."""

    text: str
    meaning: str = ""
    number: bool = False
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class PageTable:
    """Sortable table. Of a long table with a name, the page contains the first rows, and files next to the page contain all rows.

    Attributes:
        folded: Until it is clicked, only the caption is visible.
        name: File name of the rows of a long table.
        filters: Columns that can be filtered by value.
        search: Searched columns.
        chosen: Initial filters by column.
        size: Rows per page.
        leading: Columns of a leaderboard that a narrow screen shows at first; 0 for other tables.
    """

    caption: str
    heads: Sequence[Head]
    rows: Sequence[Sequence[Cell]]
    folded: bool = False
    name: str = ""
    filters: Sequence[int] = ()
    search: Sequence[int] = ()
    chosen: Mapping[int, str] = field(default_factory=dict)
    size: int = 25
    leading: int = 0
    kind: str = "table"


@dataclass(frozen=True, slots=True)
class Chart:
    """Vega-Lite chart and its rows. by: field by whose values readers select rows. first: values selected at first. colours: colour of each value."""

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
    """Verbatim text with its line breaks."""

    title: str
    body: str
    open: bool = True
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class TextEntry:
    """Texts under one title and anchor. texts: triples of label, text, and the path of a file with the rest of the text (or empty)."""

    anchor: str
    title: str
    texts: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Texts:
    """Verbatim texts, which the page loads on demand from a file. Equal texts are stored once."""

    name: str
    entries: Sequence[TextEntry]
    kind: str = "texts"


@dataclass(frozen=True, slots=True)
class Note:
    """Paragraph of a page."""

    body: str
    kind: str = "note"


@dataclass(frozen=True, slots=True)
class Facts:
    """Pairs of a name and a value. meanings: tooltips by name."""

    rows: Sequence[tuple[str, Cell]]
    meanings: Mapping[str, str] = field(default_factory=dict)
    kind: str = "facts"


@dataclass(frozen=True, slots=True)
class Stats:
    """Headline numbers, each shown in a tile: name, value, and a remark."""

    rows: Sequence[tuple[str, Cell, str]]
    kind: str = "stats"


@dataclass(frozen=True, slots=True)
class Links:
    """Links to other pages."""

    rows: Sequence[Cell]
    kind: str = "links"


Part = Stats | Links | PageTable | Chart | Text | Texts | Note | Facts


@dataclass(frozen=True, slots=True)
class Section:
    """Part of a page under a heading, on a grid of twelve columns.

    spans: columns of each part on a wide screen (default: twelve). width: columns of the section; narrower sections are placed side by side.
    """

    title: str
    parts: Sequence[Part]
    spans: Sequence[int] = ()
    width: int = 12

    @classmethod
    def even(cls, title: str, parts: Sequence[Part]) -> Section:
        """Build a section of one to four equally wide parts side by side."""
        return cls(title, parts, [12 // len(parts)] * len(parts) if parts else ())


@dataclass(frozen=True, slots=True)
class Page:
    """Page of the site. path: from the root of the site. lead: introduction. above: titles and paths of the parent pages."""

    path: str
    title: str
    lead: str
    sections: Sequence[Section]
    above: Sequence[tuple[str, str]] = field(default=())
