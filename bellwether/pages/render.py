"""Rendering of pages as HTML: for a site, whose pages load data files on demand, or each as one self-contained file."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import cache, lru_cache, partial
from html import escape
from importlib.resources import files
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from bellwether.errors import BellwetherError
from bellwether.figures.canvas import round_of
from bellwether.files import atomic_file
from bellwether.pages.model import Bar, Cell, Chart, Facts, Head, Page, PageTable, Text, TextEntry, Texts
from bellwether.pages.values import show_controls
from bellwether.tables.schema import DAILY

#: Content-Security-Policy: own scripts, styles and pictures only; no other requests, no forms.
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"
#: Rows of one file of a grid.
CHUNK = 250
#: Maximum of values in the list of a filter.
MOST_CHOICES = 100
#: Maximum bytes of chart data within the page; larger data is in a file.
_INLINE = 12_000
#: Lengths of texts from which a cell is wide, or may wrap.
_LONG, _WHOLE = 40, 20
#: Characters of a long text that are shown initially.
_TEXT = 3_000

#: Separator that no text of a cell contains, because control characters are replaced.
_BETWEEN = "\x1f"

#: Title and path of the areas of the site.
PARTS = (
    ("Home", "index.html"),
    ("Benchmark", "benchmark/index.html"),
    ("Trading", "trading/index.html"),
    ("Arena", "arena/index.html"),
    ("Data", "data/index.html"),
    ("Method", "method.html"),
)
#: Page for unknown addresses. A server shows it below any path: it contains its style, and its links start at the root of the server.
NOT_FOUND = "404.html"

File = tuple[str, bytes]

_banner: ContextVar[str] = ContextVar("banner", default="")


@contextmanager
def banner(text: str) -> Iterator[None]:
    """Show `text` at the top of every page rendered within the `with` block."""
    token = _banner.set(text)
    try:
        yield
    finally:
        _banner.reset(token)


class _RenderedPart(NamedTuple):
    """Part of a page, prepared for the template. data: JSON that is safe within a script element (`json_bytes`)."""

    kind: str
    part: Any
    id: str
    data: str = ""
    rows: Sequence[Sequence[Cell]] = ()
    beginning: str = ""
    rest: int = 0
    span: str = ""


def render(page: Page) -> Iterator[File]:
    """Yield the HTML of a page and its data files, each with its path from the root of the site; equal pages give equal bytes."""
    stem = page.path.removesuffix(".html")
    sections, extra, charts = _sections(page, stem, _INLINE)
    here, root = page.path.partition("/")[0], "/" if page.path == NOT_FOUND else "../" * page.path.count("/")
    parts = [(title, path, path.partition("/")[0] == here) for title, path in PARTS]
    style = _style() if page.path == NOT_FOUND else ""
    policy = POLICY.replace("style-src 'self'", f"style-src {_hash(style)}") if style else POLICY
    html = _html(page, sections, root, policy, parts=parts, banner=_banner.get(), style=style)
    yield page.path, html.encode()
    yield from extra
    if charts:
        yield f"{stem}.charts.js", b"bellwether.put(" + json_bytes(f"{stem}.charts") + b",[" + b",".join(charts) + b"]);\n"


def render_file(page: Page) -> str:
    """Render a page as one self-contained HTML file, in which tables and long texts are complete."""
    sections, _, _ = _sections(page, "", None)
    style = _style()
    scripts = [
        _static("site.js").decode(),
        *([chart_library().decode()] if any(isinstance(part, Chart) for section in page.sections for part in section.parts) else []),
    ]
    scripts.reverse()
    hashes = " ".join(_hash(one) for one in scripts)
    policy = f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    return _html(page, sections, "", policy, parts=(), style=style, scripts=scripts)


def write_page(page: Page, path: Path) -> None:
    """Write a page as one self-contained HTML file."""
    text = render_file(page)
    with atomic_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def chart_library() -> bytes:
    """Bundle Vega, Vega-Lite and Vega-Embed as one script. A separate process does this, because the bundler takes 140 MB."""
    command = [sys.executable, "-c", "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"]
    process = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    if process.returncode:
        raise BellwetherError(
            f"bundling the chart library: {process.stderr.decode(errors='replace').strip()[-500:]}; install vl-convert-python again"
        )
    return process.stdout


def _sections(page: Page, stem: str, inline: int | None) -> tuple[list[tuple[str, list[_RenderedPart], int]], list[File], list[bytes]]:
    """Prepare a page's sections for the template. Returns sections, data files, and the JSON of charts that are not within the page.

    stem: path of the page without `.html`. inline: maximum bytes of a chart within the page (None: unlimited).
    """
    count, extra, sections = 0, list[File](), []
    charts: list[bytes] = []
    for section in page.sections:
        parts = []
        for part, span in zip(section.parts, chain(section.spans, repeat(0)), strict=False):
            count += 1
            if isinstance(part, Chart):
                data = _chart(part)
                if inline is not None and len(data) > inline:
                    charts.append(data)
                    data = json_bytes({"path": f"{stem}.charts", "place": len(charts) - 1})
                shown = _RenderedPart("chart", part, f"p{count}", data.decode())
            else:
                shown, made = _render_part(part, f"p{count}", stem, whole=inline is None)
                extra.extend(made)
            parts.append(shown._replace(span=f" s{span}") if span else shown)
        sections.append((section.title, parts, section.width))
    return sections, extra, charts


def _html(page: Page, sections: Any, root: str, policy: str, **more: Any) -> str:
    return _template().render(
        page=page,
        sections=sections,
        root=root,
        policy=policy,
        lines=partial(_lines, root),
        heads=lambda heads: _heads(tuple(heads)),
        entries=_entries,
        facts=partial(_facts, root),
        **{"style": "", "scripts": (), "banner": "", **more},
    )


def _lines(root: str, heads: Sequence[Head], rows: Sequence[Sequence[Cell]], *, keyed: bool = True) -> str:
    """Render table rows as escaped HTML. keyed: include the sort keys. A template would be too slow."""
    if not rows:
        return f'<tr><td colspan="{len(heads)}">none</td></tr>'
    width = len(heads)
    assert all(len(row) == width for row in rows)
    cells = _cells(root, [one for row in rows for one in row], list(heads) * len(rows), keyed=keyed)
    return "\n".join(f"<tr>{''.join(cells[start : start + width])}</tr>" for start in range(0, len(cells), width))


@lru_cache(maxsize=256)
def _heads(heads: tuple[Head, ...]) -> str:
    """Render the heads of a table as HTML. The result is cached, because many tables have the same heads."""
    cells = []
    for head in heads:
        kind = ' class="n"' if head.number else ""
        meaning = f' title="{escape(head.meaning)}"' if head.meaning else ""
        hidden = " hidden" if head.hidden else ""
        cells.append(f'<th scope="col"{kind}{meaning}{hidden}>{escape(head.text)}</th>')
    return "".join(cells)


def _entries(entries: Sequence[TextEntry]) -> str:
    """Render each entry as a collapsed HTML element with its title; the page's script adds the texts."""
    anchors, titles = _escape_texts([one.anchor for one in entries]), _escape_texts([one.title for one in entries])
    items = [f'<details class="text" id="{name}"><summary>{title}</summary></details>' for name, title in zip(anchors, titles, strict=True)]
    return "\n".join(items)


def _facts(root: str, facts: Facts) -> str:
    """Render named values as HTML table rows."""
    cells = _cells(root, [one for _, one in facts.rows], [Head("")] * len(facts.rows))
    titles = (f' title="{escape(facts.meanings[name])}"' if facts.meanings.get(name) else "" for name, _ in facts.rows)
    names = _escape_texts([name for name, _ in facts.rows])
    return "\n".join(f'<tr><th scope="row"{title}>{name}</th>{cell}</tr>' for name, cell, title in zip(names, cells, titles, strict=True))


def _cells(root: str, cells: Sequence[Cell], heads: Sequence[Head], *, keyed: bool = True) -> list[str]:
    rendered = []
    for (raw, key, href, title, note, bar), head, escaped in zip(cells, heads, _escape_texts([one[0] for one in cells]), strict=True):
        size = len(raw)
        kind = ' class="n"' if head.number else "" if size <= _WHOLE else ' class="t"' if size > _LONG else ' class="m"'
        order, more = "", " hidden" if head.hidden else ""
        after = (f" <small>{escape(note)}</small>" if note else "") + (_bar(bar) if bar else "")
        if keyed and key is not None:
            order = f' data-key="{escaped if key == raw else escape(key) if isinstance(key, str) else key}"'
        if title:
            more += f' title="{escape(title)}"'
        rendered.append(
            f'<td{kind}{order}{more}><a href="{root}{escape(href)}">{escaped}</a>{after}</td>'
            if href
            else f"<td{kind}{order}{more}>{escaped}{after}</td>"
        )
    return rendered


def _bar(bar: Bar) -> str:
    """Render an interval as SVG, like `drawBar` of the script."""
    marks = [("r", bar.reference, bar.reference)] if bar.reference is not None else []
    marks += [("i", max(0, bar.lower), min(100, bar.upper)), ("v", bar.value, bar.value)]
    lines = "".join(
        f'<line class="{kind}" x1="{start}" x2="{end}" y1="{4 if kind == "i" else 0}" y2="{4 if kind == "i" else 8}"/>'
        for kind, start, end in marks
    )
    return f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{lines}</svg>'


def _escape_texts(texts: Sequence[str]) -> list[str]:
    """Escape texts for HTML in a single call; a call per text would dominate the time of a build."""
    parts = escape(_BETWEEN.join(texts)).split(_BETWEEN)
    return parts if len(parts) == len(texts) else [escape(one) for one in texts]


def _render_part(part: Any, name: str, stem: str, *, whole: bool) -> tuple[_RenderedPart, list[File]]:
    if isinstance(part, PageTable) and part.name and not whole and (len(part.rows) > part.size or part.leading):
        return _grid(part, name, f"{stem}.{part.name}")
    if isinstance(part, Text):
        return _text(part, name, f"{stem}.{name}")
    if isinstance(part, Texts):
        return _texts(part, name, f"{stem}.{part.name}")
    return _RenderedPart(part.kind, part, name, rows=getattr(part, "rows", ())), []


def _grid(grid: PageTable, name: str, path: str) -> tuple[_RenderedPart, list[File]]:
    """Prepare a long table or leaderboard for the template, with its data files.

    In files, a cell is its text, or a list of text, link, tooltip, note and bar.
    """
    matching = [row for row in grid.rows if all(str(row[column].key) == value for column, value in grid.chosen.items())]
    choices = {}
    for column in grid.filters:
        values = sorted({str(row[column].key) for row in grid.rows if row[column].key is not None})
        if 1 < len(values) <= MOST_CHOICES:
            choices[column] = values
    about = {
        "path": path,
        "rows": len(grid.rows),
        "chunk": CHUNK,
        "shown": grid.size,
        "chosen": grid.chosen,
        "matching": len(matching),
        "choices": choices,
        "search": list(grid.search),
        "numbers": [head.number for head in grid.heads],
        "heads": [head.text for head in grid.heads],
        "hidden": [column for column, head in enumerate(grid.heads) if head.hidden],
        "leading": grid.leading,
    }
    rows = [[[cell.text, *cell[2:5], cell.bar and [*cell.bar]] if any(cell[2:]) else cell.text for cell in row] for row in grid.rows]
    keys = [[cell[1] for cell in column] for column in zip(*grid.rows, strict=True)]
    if len(rows) <= CHUNK:
        data_files = [(f"{path}.js", data_script(path, {"rows": rows, "columns": keys}))]
    else:
        data_files = [
            (f"{path}.r{place}.js", data_script(f"{path}.r{place}", rows[start : start + CHUNK]))
            for place, start in enumerate(range(0, len(rows), CHUNK))
        ]
        data_files += [(f"{path}.c{column}.js", data_script(f"{path}.c{column}", values)) for column, values in enumerate(keys)]
    return _RenderedPart("grid", grid, name, json_bytes(about).decode(), matching[: grid.size]), data_files


def _chart(chart: Chart) -> bytes:
    """Encode a chart as JSON, in which rows are lists without field names."""
    rows = chart.rows
    fields = list(rows[0]) if rows else []
    if len({*map(len, rows)}) > 1:
        fields = list(dict.fromkeys(field for row in rows for field in row))
    values = [[row.get(field) for field in fields] for row in rows]
    dashes = {name: dash for name, colour in chart.colours.items() if (dash := round_of(colour))}
    chosen = {"by": chart.by, "first": list(chart.first), "colours": dict(chart.colours), "dashes": dashes}
    return json_bytes({"spec": chart.spec, "fields": fields, "rows": values, **chosen})


def _text(part: Text, name: str, path: str) -> tuple[_RenderedPart, list[File]]:
    body = show_controls(part.body)
    if len(body) <= _TEXT:
        return _RenderedPart("text", part, name, beginning=body), []
    about = json_bytes({"path": path}).decode()
    return _RenderedPart("text", part, name, about, beginning=body[:_TEXT], rest=len(body) - _TEXT), [
        (f"{path}.js", data_script(path, body))
    ]


def _texts(part: Texts, name: str, path: str) -> tuple[_RenderedPart, list[File]]:
    # Each distinct text is processed once; many entries share their prompt.
    bodies = {body: show_controls(body) for body in dict.fromkeys(body for entry in part.entries for _, body, _ in entry.texts)}
    places = {body: place for place, body in enumerate(dict.fromkeys(bodies.values()))}
    entries = [[[label, places[bodies[body]], rest] for label, body, rest in entry.texts] for entry in part.entries]
    about = json_bytes({"path": path}).decode()
    return _RenderedPart("texts", part, name, about), [(f"{path}.js", data_script(path, {"texts": list(places), "entries": entries}))]


def publication_file(published_at: datetime) -> File:
    """Return the stylesheet that all pages share and that alone changes with every publication: its time, and its maximum age in hours."""
    hours = DAILY // timedelta(hours=1)
    rules = f':root {{ --published: "{published_at:%Y-%m-%dT%H:%M:%SZ}"; --max-age-hours: {hours}; }}\n'
    return "static/publication.css", f'{rules}.published::after {{ content: "{published_at:%Y-%m-%d %H:%M} UTC"; }}\n'.encode()


def static_files() -> Iterator[File]:
    """Yield the files that all pages share: the stylesheet (Pico, then the site's own rules) and the script."""
    yield "static/site.css", _style().encode()
    yield "static/site.js", _static("site.js")


def _style() -> str:
    return (_static("pico.css") + b"\n" + _static("site.css")).decode()


def _static(name: str) -> bytes:
    return files("bellwether.pages").joinpath("static", name).read_bytes()


@cache
def _template() -> Template:
    loader = PackageLoader("bellwether.pages")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined).get_template(
        "page.html"
    )


#: Characters that could end the script element or the line, or start a comment, and their JSON escapes.
_ESCAPES = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))
_BREAKS = (("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))


def json_bytes(value: Any) -> bytes:
    """Encode `value` as JSON that is safe within a script element; NaN and infinity become null."""
    data = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    for character, replacement in _ESCAPES if data.isascii() else (*_ESCAPES, *_BREAKS):
        data = data.replace(character, replacement)
    return data


def data_script(name: str, value: Any) -> bytes:
    """Return a script that passes `value` to the page under `name`; pages opened from a folder cannot fetch JSON."""
    return b"bellwether.put(" + json_bytes(name) + b"," + json_bytes(value) + b");\n"
