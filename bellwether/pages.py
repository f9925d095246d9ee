"""Self-contained HTML pages: tables, and plots that answer the mouse. A page loads nothing from elsewhere, and all text in it is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from bellwether.files import atomic_file

if TYPE_CHECKING:
    import plotly.graph_objects as go

GREY = "#7a8691"

#: Colours of lines, distinguishable with colour blindness.
COLOURS = ("#1f5a91", "#c2562e", "#3d8361", "#7a5aa6", "#a8862b", "#4c9aa8", "#9c4a6d", "#5f6b76")


@dataclass(frozen=True, slots=True)
class Cell:
    """Text of a cell, the ends of its interval, and what it says when pointed at."""

    value: str
    ends: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """Cells under heads; the first `texts` columns are text, the others numbers."""

    heads: tuple[str, ...]
    rows: list[list[Cell]]
    texts: int = 1


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: a table, a text, a plot as `plot` returns it, and tables behind a title each."""

    title: str
    table: Rows | None = None
    text: str = ""
    plot: str = ""
    details: list[tuple[str, Rows]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Page:
    """A page: title, a sentence below it, facts by name, sections, and notes at the end."""

    title: str
    lead: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    notes: Sequence[str] = ()

    def html(self) -> str:
        """The page as text: the same for the same content."""
        from jinja2 import Environment
        from plotly.offline import get_plotlyjs

        template = Environment(autoescape=True, trim_blocks=True).from_string(files("bellwether").joinpath("page.html").read_text("utf-8"))
        return template.render(
            title=self.title, lead=self.lead, facts=self.facts, sections=self.sections, notes=self.notes, library=get_plotlyjs()
        )

    def write(self, path: Path) -> None:
        """Write the page whole."""
        text = self.html()
        with atomic_file(path) as draft:
            draft.write_text(text, encoding="utf-8")


def plot(figure: go.Figure, name: str) -> str:
    """A figure as HTML for a section. `name` tells it from other plots of the page. Texts within it are HTML: escape them before."""
    figure.update_layout(template="plotly_white", font={"family": "system-ui, sans-serif", "size": 12}, hovermode="closest")
    return str(figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config={"displaylogo": False, "responsive": True}))


def translucent(colour: str, opacity: float) -> str:
    """A colour #rrggbb as plotly's rgba."""
    red, green, blue = (int(colour[index : index + 2], 16) for index in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"
