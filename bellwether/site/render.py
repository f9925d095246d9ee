"""Pages as HTML, with the files that a page loads when it is asked for more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache, partial
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined, Template

from bellwether.site.model import Cell, Chart, Entry, Grid, Head, Page, Text, Texts
from bellwether.site.script import json_bytes, script
from bellwether.site.values import visible

#: Nothing but the site's own scripts, styles and pictures; no address outside can be asked, and no form sent.
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"
#: Rows of a grid that its page holds, and those of one file.
SHOWN = 25
CHUNK = 250
#: Values of a column beyond which it gets no list to choose from.
MOST_CHOICES = 100
#: Larger data of charts stand in a file beside the page, that of all its charts.
_INLINE = 12_000
#: Cells of longer texts are wide, and those of longer ones than a time may break.
_LONG, _WHOLE = 40, 20
#: Longer texts are shown by their beginning.
_TEXT = 3_000

#: Stands in no text of a cell: it is shown as a symbol.
_BETWEEN = "\x1f"

#: The parts of the site: title, path.
PARTS = (
    ("Home", "index.html"),
    ("Benchmark", "benchmark/index.html"),
    ("Trading", "trading/index.html"),
    ("Arena", "arena/index.html"),
    ("Data", "data/index.html"),
)

File = tuple[str, bytes]


class _Shown(NamedTuple):
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
    charts: list[bytes] = []
    for section in page.sections:
        parts = []
        for part in section.parts:
            count += 1
            if isinstance(part, Chart):
                shown, data = _chart(part, f"p{count}")
                if data:
                    shown = shown._replace(data=json_bytes({"path": f"{stem}.charts", "place": len(charts)}).decode())
                    charts.append(data)
            else:
                shown, made = _part(part, f"p{count}", stem)
                extra.extend(made)
            parts.append(shown)
        sections.append((section.title, parts))
    here = page.path.partition("/")[0]
    html = _template().render(
        page=page,
        sections=sections,
        root="../" * page.path.count("/"),
        policy=POLICY,
        lines=partial(_lines, "../" * page.path.count("/")),
        heads=lambda heads: _heads(tuple(heads)),
        entries=_entries,
        facts=partial(_facts, "../" * page.path.count("/")),
        parts=[(title, path, path.partition("/")[0] == here) for title, path in PARTS],
    )
    yield page.path, html.encode()
    yield from extra
    if charts:
        yield f"{stem}.charts.js", b"bellwether.put(" + json_bytes(f"{stem}.charts") + b",[" + b",".join(charts) + b"]);\n"


def _lines(root: str, heads: Sequence[Head], rows: Sequence[Sequence[Cell]], *, keyed: bool = True) -> str:
    """Rows of a table as HTML, every text escaped: the many cells of a big table are slow in a template. keyed: with what they are sorted by."""
    if not rows:
        return f'<tr><td colspan="{len(heads)}">none</td></tr>'
    width = len(heads)
    assert all(len(row) == width for row in rows)
    cells = _cells(root, [one for row in rows for one in row], [head.number for head in heads] * len(rows), keyed=keyed)
    return "\n".join(f"<tr>{''.join(cells[start : start + width])}</tr>" for start in range(0, len(cells), width))


@lru_cache(maxsize=256)
def _heads(heads: tuple[Head, ...]) -> str:
    """The heads of a table as HTML: most tables of a site share theirs."""
    made = []
    for head in heads:
        kind = ' class="n"' if head.number else ""
        meaning = f' title="{escape(head.meaning)}"' if head.meaning else ""
        made.append(f'<th scope="col"{kind}{meaning}>{escape(head.text)}</th>')
    return "".join(made)


def _entries(entries: Sequence[Entry]) -> str:
    """Closed texts as HTML."""
    anchors, titles = _escaped([one.anchor for one in entries]), _escaped([one.title for one in entries])
    made = [f'<details class="text" id="{name}"><summary>{title}</summary></details>' for name, title in zip(anchors, titles, strict=True)]
    return "\n".join(made)


def _facts(root: str, rows: Sequence[tuple[str, Cell]]) -> str:
    """Values by name as rows of HTML."""
    cells = _cells(root, [one for _, one in rows], [False] * len(rows))
    names = _escaped([name for name, _ in rows])
    return "\n".join(f'<tr><th scope="row">{name}</th>{cell}</tr>' for name, cell in zip(names, cells, strict=True))


def _cells(root: str, cells: Sequence[Cell], numbers: Sequence[bool], *, keyed: bool = True) -> list[str]:
    made = []
    for (raw, key, href, title), is_number, shown in zip(cells, numbers, _escaped([one[0] for one in cells]), strict=True):
        size = len(raw)
        kind = ' class="n"' if is_number else "" if size <= _WHOLE else ' class="t"' if size > _LONG else ' class="m"'
        order = more = ""
        if keyed and key is not None:
            order = f' data-key="{shown if key == raw else escape(key) if isinstance(key, str) else key}"'
        if title:
            more = f' title="{escape(title)}"'
        made.append(
            f'<td{kind}{order}{more}><a href="{root}{escape(href)}">{shown}</a></td>' if href else f"<td{kind}{order}{more}>{shown}</td>"
        )
    return made


def _escaped(texts: Sequence[str]) -> list[str]:
    """The texts with what HTML would read as markup written so that it does not; all at once, as one call per text takes most of a build."""
    found = escape(_BETWEEN.join(texts)).split(_BETWEEN)
    return found if len(found) == len(texts) else [escape(one) for one in texts]


def _part(part: Any, name: str, stem: str) -> tuple[_Shown, list[File]]:
    if isinstance(part, Grid):
        return _grid(part, name, f"{stem}.{part.name}")
    if isinstance(part, Text):
        return _text(part, name, f"{stem}.{name}")
    if isinstance(part, Texts):
        return _texts(part, name, f"{stem}.{part.name}")
    return _Shown(part.kind, part, name, rows=getattr(part, "rows", ())), []


def _grid(grid: Grid, name: str, path: str) -> tuple[_Shown, list[File]]:
    """A grid whose rows all stand in the page is a table. A cell in its files is a text; or text, link and title."""
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
    rows = [[[cell[0], cell[2], cell[3]] if cell[2] or cell[3] else cell[0] for cell in row] for row in grid.rows]
    keys = [[cell[1] for cell in column] for column in zip(*grid.rows, strict=True)]
    if len(rows) <= CHUNK:
        made = [(f"{path}.js", script(path, {"rows": rows, "columns": keys}))]
    else:
        made = [
            (f"{path}.r{place}.js", script(f"{path}.r{place}", rows[start : start + CHUNK]))
            for place, start in enumerate(range(0, len(rows), CHUNK))
        ]
        made += [(f"{path}.c{column}.js", script(f"{path}.c{column}", values)) for column, values in enumerate(keys)]
    return _Shown("grid", grid, name, json_bytes(about).decode(), grid.rows[:SHOWN]), made


def _chart(chart: Chart, name: str) -> tuple[_Shown, bytes]:
    """A chart and its data, which are empty where they stand in the page.

    The rows are written under one list of their fields: the names of fields are most of the bytes otherwise.
    """
    rows = chart.spec["data"]["values"]
    fields = list(rows[0]) if rows else []
    if len({*map(len, rows)}) > 1:
        fields = list(dict.fromkeys(field for row in rows for field in row))
    values = [[row.get(field) for field in fields] for row in rows]
    about = {"spec": {**chart.spec, "data": {}}, "fields": fields, "rows": values, "by": chart.by, "first": list(chart.first)}
    data = json_bytes(about)
    return (_Shown("chart", chart, name, data.decode()), b"") if len(data) <= _INLINE else (_Shown("chart", chart, name), data)


def _text(part: Text, name: str, path: str) -> tuple[_Shown, list[File]]:
    body = visible(part.body)
    if len(body) <= _TEXT:
        return _Shown("text", part, name, beginning=body), []
    about = json_bytes({"path": path}).decode()
    return _Shown("text", part, name, about, beginning=body[:_TEXT], rest=len(body) - _TEXT), [(f"{path}.js", script(path, body))]


def _texts(part: Texts, name: str, path: str) -> tuple[_Shown, list[File]]:
    # Of a text that many entries share, as that of a prompt, the characters are looked at once.
    bodies = {body: visible(body) for body in dict.fromkeys(body for entry in part.entries for _, body, _ in entry.texts)}
    places = {body: place for place, body in enumerate(dict.fromkeys(bodies.values()))}
    entries = [[[label, places[bodies[body]], rest] for label, body, rest in entry.texts] for entry in part.entries]
    about = json_bytes({"path": path}).decode()
    return _Shown("texts", part, name, about), [(f"{path}.js", script(path, {"texts": list(places), "entries": entries}))]


def static() -> Iterator[File]:
    """The stylesheet and the script of all pages."""
    folder = files("bellwether.site").joinpath("static")
    for name in ("site.css", "site.js"):
        yield f"static/{name}", folder.joinpath(name).read_bytes()


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    return environment.from_string(files("bellwether.site").joinpath("templates", "page.html").read_text("utf-8"))
