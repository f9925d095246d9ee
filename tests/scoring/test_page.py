"""The page: names are text in every place, nothing is loaded from elsewhere, it is written whole, and the same each time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bellwether.scoring import page, score
from bellwether.scoring.score import ScoreResult
from tests.scoring.conftest import Row
from tests.scoring.test_command import HOSTILE, named

ATTRIBUTES_THAT_LOAD = {"src", "href", "srcset", "data", "action", "poster", "background", "formaction", "xlink:href"}
TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "script",
    "body",
    "h1",
    "h2",
    "p",
    "div",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "span",
}
TAGS |= {"details", "summary", "ul", "li"}


class Parsed(HTMLParser):
    """Tags with their attributes, texts outside of scripts, and scripts, as a browser splits the page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.texts.append(data)


@pytest.fixture(scope="module")
def hostile(rows: Sequence[Row]) -> ScoreResult:
    """Hostile names of forecasters, groups, columns and files."""
    column = "</script><b>category"
    table = [{column if key == "category" else key: value for key, value in row.items()} for row in named(rows, HOSTILE, questions=12)]
    table = [{**row, column: f"{row[column]}</td><script>alert(2)</script>"} for row in table]
    return score(table, by=column, cluster=column, replicates=0)


@pytest.fixture(scope="module")
def html(hostile: ScoreResult) -> str:
    return page.page(hostile).html()


@pytest.fixture(scope="module")
def parsed(html: str) -> Parsed:
    return Parsed(html)


def figures(parsed: Parsed) -> Iterator[tuple[list[dict[str, Any]], dict[str, Any]]]:
    """Traces and layout of every plot, read from the calls of Plotly."""
    for script in parsed.scripts[1:]:
        start = script.index("Plotly.newPlot(")
        decoder, position = json.JSONDecoder(), script.index("[", start)
        traces, position = decoder.raw_decode(script, position)
        layout, _ = decoder.raw_decode(script, script.index("{", position))
        yield traces, layout


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def test_no_name_becomes_a_tag_an_attribute_or_a_script(parsed: Parsed) -> None:
    assert {tag for tag, _ in parsed.tags} <= TAGS
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    assert len(parsed.scripts) == 1 + 4  # plotly.js and four plots
    shown = "".join(parsed.texts)
    for name in HOSTILE:
        # A browser reads a carriage return as a line feed.
        assert name in shown or name.replace("\r", "\n") in shown, name
    assert "</td><script>alert(2)</script>" in shown and "</script><b>category" in shown
    assert "{{ 7 * 7 }}" in shown


def test_names_in_plots_are_escaped_for_the_markup_that_plotly_reads(parsed: Parsed) -> None:
    found = list(figures(parsed))
    assert len(found) == 4
    allowed = re.compile(r"<(/?(br|extra|b|i|sup|sub))>")
    for text in (text for figure in found for part in figure for text in strings(part)):
        assert "<" not in allowed.sub("", text), text
    assert any("&lt;script&gt;alert(1)&lt;/script&gt;" in text for figure in found for text in strings(figure[0]))


def test_axes_of_names_are_categories_whatever_the_names_look_like(rows: Sequence[Row]) -> None:
    """Plotly takes 2024-01-01 for a date and 7 for a number, unless told otherwise."""
    found = list(figures(Parsed(page.page(score(named(rows, ["7", "2024-01-01"]), replicates=0)).html())))
    assert [layout["yaxis"]["type"] for _, layout in found if layout["yaxis"].get("type")] == ["category", "category"]


def test_nothing_is_loaded_from_elsewhere(parsed: Parsed, html: str) -> None:
    assert not [attributes for _, attributes in parsed.tags if ATTRIBUTES_THAT_LOAD & attributes.keys()]
    assert (
        "@import" not in html.split("<style>")[1].split("</style>", maxsplit=1)[0]
        and "url(" not in html.split("<style>")[1].split("</style>", maxsplit=1)[0]
    )
    own = "".join(parsed.scripts[1:])
    assert not re.search(r"https?:|\bimport\b|fetch\(|XMLHttpRequest", own)


def test_the_page_shows_the_numbers_of_the_scores(hostile: ScoreResult, parsed: Parsed) -> None:
    shown = "".join(parsed.texts)
    for row in hostile.scores.filter(hostile.scores["metric"] == "brier").iter_rows(named=True):
        assert f"{row['value']:.3f}" in shown


def test_the_same_result_gives_the_same_page(rows: Sequence[Row], html: str, hostile: ScoreResult) -> None:
    assert page.page(hostile).html() == html
    first, second = (page.page(score(list(rows), replicates=200, seed=3)).html() for _ in range(2))
    assert first == second


def test_a_page_that_fails_leaves_the_old_one(hostile: ScoreResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "page.html"
    target.write_text("old")

    def interrupted(path: Path, *_: Any, **__: Any) -> int:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hostile.write_html(target)
    monkeypatch.undo()
    assert (target.read_text(), [path.name for path in tmp_path.iterdir()]) == ("old", ["page.html"])
    hostile.write_html(str(target))
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>") and target.read_text(encoding="utf-8").endswith("</html>")


def test_figures_that_fail_leave_the_old_ones(hostile: ScoreResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scores.png").write_text("old")

    def interrupted(path: Path, data: bytes) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hostile.write_figures(tmp_path)
    assert (tmp_path / "scores.png").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["scores.png"]
