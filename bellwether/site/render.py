"""Pages as HTML, with the files that a page loads when it is asked for more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from html import escape
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from bellwether.site.model import Cell, Chart, Grid, Head, Page, Text
from bellwether.site.script import json_bytes, script
from bellwether.site.values import visible

#: Nothing but the site's own scripts, styles and pictures; no address outside can be asked, and no form sent.
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"
#: Rows of a grid that its page holds, and those of one file.
SHOWN = 25
CHUNK = 250
#: Values of a column beyond which it gets no list to choose from.
MOST_CHOICES = 100
#: Larger data of charts stands in a file of its own.
_INLINE = 12_000
#: Cells of longer texts are wide.
_LONG = 40
#: Longer texts are shown by their beginning.
_TEXT = 3_000

#: The parts of the site: title, path.
PARTS = (
    ("Home", "index.html"),
    ("Benchmark", "benchmark/index.html"),
    ("Trading", "trading/index.html"),
    ("Arena", "arena/index.html"),
    ("Data", "data/index.html"),
)

File = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class _Shown:
    """A part of a page with what the template needs besides it. data: JSON that may stand within a script element (`script.json_bytes`)."""

    kind: str
    part: Any
    id: str
    data: str = ""
    rows: Sequence[Sequence[Cell]] = ()
    beginning: str = ""
    rest: int = 0


def render(page: Page) -> Iterator[File]:
    """The page and the files beside it, by path from the root of the site; the same page gives the same bytes."""
    count, extra, sections = 0, [], []
    stem = page.path.removesuffix(".html")
    for section in page.sections:
        parts = []
        for part in section.parts:
            count += 1
            shown, made = _part(part, f"p{count}", stem)
            parts.append(shown)
            extra.extend(made)
        sections.append((section.title, parts))
    here = page.path.partition("/")[0]
    html = _template().render(
        page=page,
        sections=sections,
        root="../" * page.path.count("/"),
        policy=POLICY,
        lines=partial(_lines, "../" * page.path.count("/")),
        parts=[(title, path, path.partition("/")[0] == here) for title, path in PARTS],
    )
    yield page.path, html.encode()
    yield from extra


def _lines(root: str, heads: Sequence[Head], rows: Sequence[Sequence[Cell]]) -> str:
    """Rows of a table as HTML, every text escaped: the many cells of a big table are slow in a template."""
    if not rows:
        return f'<tr><td colspan="{len(heads)}">none</td></tr>'
    made = []
    for row in rows:
        cells = []
        for head, one in zip(heads, row, strict=True):
            shown = escape(one.text)
            if one.href:
                shown = f'<a href="{root}{escape(one.href)}">{shown}</a>'
            kind = ' class="n"' if head.number else ' class="t"' if len(one.text) > _LONG else ""
            key = f' data-key="{escape(str(one.key))}"' if one.key is not None else ""
            title = f' title="{escape(one.title)}"' if one.title else ""
            cells.append(f"<td{kind}{key}{title}>{shown}</td>")
        made.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join(made)


def _part(part: Any, name: str, stem: str) -> tuple[_Shown, list[File]]:
    if isinstance(part, Grid):
        return _grid(part, name, f"{stem}.{part.name}")
    if isinstance(part, Chart):
        return _chart(part, name, f"{stem}.{name}")
    if isinstance(part, Text):
        return _text(part, name, f"{stem}.{name}")
    return _Shown(part.kind, part, name, rows=getattr(part, "rows", ())), []


def _grid(grid: Grid, name: str, path: str) -> tuple[_Shown, list[File]]:
    """A grid whose rows all stand in the page is a table."""
    if len(grid.rows) <= SHOWN:
        return _Shown("table", grid, name, rows=grid.rows), []
    choices = {}
    for column in grid.filters:
        values = sorted({str(row[column].key) for row in grid.rows if row[column].key is not None})
        if len(values) <= MOST_CHOICES:
            choices[column] = values
    about = {
        "path": path,
        "rows": len(grid.rows),
        "chunk": CHUNK,
        "shown": SHOWN,
        "choices": choices,
        "search": list(grid.search),
        "numbers": [head.number for head in grid.heads],
        "heads": [head.text for head in grid.heads],
    }
    rows = [[_packed(cell) for cell in row] for row in grid.rows]
    keys = [[row[column].key for row in grid.rows] for column in range(len(grid.heads))]
    if len(rows) <= CHUNK:
        made = [(f"{path}.js", script(path, {"rows": rows, "columns": keys}))]
    else:
        made = [
            (f"{path}.r{place}.js", script(f"{path}.r{place}", rows[start : start + CHUNK]))
            for place, start in enumerate(range(0, len(rows), CHUNK))
        ]
        made += [(f"{path}.c{column}.js", script(f"{path}.c{column}", values)) for column, values in enumerate(keys)]
    return _Shown("grid", grid, name, json_bytes(about).decode(), grid.rows[:SHOWN]), made


def _packed(cell: Cell) -> Any:
    """Text; or text, link, title."""
    if cell.href or cell.title:
        return [cell.text, cell.href, cell.title]
    return cell.text


def _chart(chart: Chart, name: str, path: str) -> tuple[_Shown, list[File]]:
    data = json_bytes({"spec": chart.spec, "by": chart.by, "first": list(chart.first)})
    if len(data) <= _INLINE:
        return _Shown("chart", chart, name, data.decode()), []
    return _Shown("chart", chart, name, json_bytes({"path": path}).decode()), [
        (f"{path}.js", b"bellwether.put(" + json_bytes(path) + b"," + data + b");\n")
    ]


def _text(part: Text, name: str, path: str) -> tuple[_Shown, list[File]]:
    body = visible(part.body)
    if len(body) <= _TEXT:
        return _Shown("text", part, name, beginning=body), []
    about = json_bytes({"path": path}).decode()
    return _Shown("text", part, name, about, beginning=body[:_TEXT], rest=len(body) - _TEXT), [(f"{path}.js", script(path, body))]


def static() -> Iterator[File]:
    """The stylesheet and the script of all pages."""
    folder = files("bellwether.site").joinpath("static")
    for name in ("site.css", "site.js"):
        yield f"static/{name}", folder.joinpath(name).read_bytes()


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    return environment.from_string(files("bellwether.site").joinpath("templates", "page.html").read_text("utf-8"))
