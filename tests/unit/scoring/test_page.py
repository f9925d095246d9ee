"""Charts and page of a result: numbers of its tables, escaped names, no external resources, and atomic writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bellwether.calibration import reliability_bins
from bellwether.errors import ScoringError
from bellwether.pages.render import render_file
from bellwether.pages.values import text as cell
from bellwether.scoring import ScoreResult, html_page, plot_reliability, plot_scores, score
from tests.html_pages import Reader
from tests.unit.scoring.forecast_rows import HOSTILE, draw_rows, named


@pytest.fixture(scope="module")
def result() -> ScoreResult:
    return score(draw_rows(), replicates=0)


def sample() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(2)
    p = generator.random(80)
    return p, (generator.random(80) < p).astype(float)


def list_rows(chart: Any) -> list[dict[str, Any]]:
    """Return every row of data of a chart and its layers."""
    return [row for values in chart.to_dict().get("datasets", {}).values() for row in values]


def named_rows(chart: Any, name: str) -> list[dict[str, Any]]:
    return [row for row in list_rows(chart) if row.get("name") == name]


def test_points_of_the_diagram_are_the_reliability_table() -> None:
    p, y = sample()
    found = named_rows(plot_reliability(p, y, range(80), label="mine"), "mine")
    expected = reliability_bins(p, y, list(range(80))).drop_nulls("mean_forecast")
    for field, column in (("forecast", "mean_forecast"), ("observed", "yes_rate"), ("lower", "yes_rate_lower"), ("n", "n")):
        assert [row[field] for row in found] == expected[column].to_list()


def test_weights_move_the_band_as_they_move_the_points() -> None:
    p, y = np.tile([0.12, 0.18], 100), np.tile([0.0, 1.0], 100)
    weights = np.tile([1.0, 9.0], 100)
    (point,) = named_rows(plot_reliability(p, y, range(200), weights=weights, label="mine"), "mine")
    assert point["forecast"] == pytest.approx(0.174)  # (0.12 + 9 × 0.18) / 10
    assert point["low"] < 0.174 < point["high"]


def test_scores_are_best_first_with_their_intervals(result: ScoreResult) -> None:
    expected = result.scores.filter(result.scores["metric"] == "brier_skill").sort("value", descending=True)
    found = [row for row in list_rows(plot_scores(result, "brier_skill")) if "value" in row]
    for field, column in (("name", "forecaster"), ("value", "value"), ("lower", "lower"), ("upper", "upper")):
        assert [row[field] for row in found] == expected[column].to_list()
    with pytest.raises(ScoringError, match="there is no metric 'briar'"):
        plot_scores(result, "briar")


ATTRIBUTES_THAT_LOAD = {"src", "href", "srcset", "data", "action", "poster", "background", "formaction", "xlink:href"}

TAGS = {"html", "head", "meta", "title", "style", "script", "link", "noscript", "body", "main", "footer", "section", "figure", "figcaption"}
TAGS |= {"details", "summary", "h1", "h2", "h3", "p", "pre", "a", "div", "span", "table", "caption", "thead", "tbody", "tr", "th", "td"}


@pytest.fixture(scope="module")
def hostile() -> ScoreResult:
    """Hostile names of forecasters, groups, columns and files."""
    column = "</script><b>category"
    table = [
        {column if key == "category" else key: value for key, value in row.items()} for row in named(draw_rows(), HOSTILE, questions=12)
    ]
    table = [{**row, column: f"{row[column]}</td><script>alert(2)</script>"} for row in table]
    return score(table, by=column, cluster=column, replicates=0)


@pytest.fixture(scope="module")
def html(hostile: ScoreResult) -> str:
    return render_file(html_page.render_page(hostile))


@pytest.fixture(scope="module")
def parsed(html: str) -> Reader:
    return Reader(html)


def charts(parsed: Reader) -> list[dict[str, Any]]:
    """Return every chart of the page: its specification, fields and rows."""
    return [json.loads(text) for (tag, _), text in zip(scripts_of(parsed), parsed.scripts, strict=True) if tag == "application/json"]


def scripts_of(parsed: Reader) -> list[tuple[str | None, None]]:
    return [(attributes.get("type"), None) for tag, attributes in parsed.tags if tag == "script"]


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def test_no_name_becomes_a_tag_an_attribute_or_a_script(parsed: Reader) -> None:
    assert {tag for tag, _ in parsed.tags} <= TAGS
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    assert [kind for kind, _ in scripts_of(parsed)].count(None) == 2  # the chart library and the script of all pages
    shown = "".join(parsed.texts)
    for name in HOSTILE:
        assert cell(name).text in shown, name
    assert "</td><script>alert(2)</script>" in shown and "</script><b>category" in shown
    assert "{{ 7 * 7 }}" in shown


def test_names_are_in_the_data_of_charts_and_in_no_expression(parsed: Reader, hostile: ScoreResult) -> None:
    found = charts(parsed)
    assert len(found) >= 4
    names = set(hostile.forecasters) - {"market"}
    for chart in found:
        spec = json.loads(json.dumps(chart["spec"]))
        for layer in spec["layer"]:
            for channel in layer.get("encoding", {}).values():
                if isinstance(channel, dict):
                    channel.get("scale", {}).pop("domain", None)
        assert not [text for text in strings(spec) if any(name in text for name in names if len(name) > 3)]
    rows = [row[chart["fields"].index("name")] for chart in found for row in chart["rows"] if "name" in chart["fields"]]
    assert names <= set(rows)


def test_the_diagram_shows_the_reliability_table(parsed: Reader, hostile: ScoreResult) -> None:
    (chart,) = [one for one in charts(parsed) if "observed" in one["fields"]]
    drawn = [dict(zip(chart["fields"], row, strict=True)) for row in chart["rows"]]
    bins = hostile.reliability.filter(hostile.reliability["n"] > 0)
    assert [(row["name"], row["forecast"], row["observed"], row["n"]) for row in drawn] == list(
        bins.select("forecaster", "mean_forecast", "yes_rate", "n").iter_rows()
    )


def test_nothing_is_loaded_from_elsewhere(parsed: Reader, html: str) -> None:
    loading = [attributes for _, attributes in parsed.tags if ATTRIBUTES_THAT_LOAD & attributes.keys()]
    assert [attributes["href"] for attributes in loading] == ["data:,", "#main"]
    style = html.split("<style>")[1].split("</style>", maxsplit=1)[0]
    assert "@import" not in style and style.count("url(") == style.count('url("data:image/svg+xml,')
    assert "default-src &#39;none&#39;" in html
    assert html.count("</script>") == html.count("<script")


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
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>") and target.read_text(encoding="utf-8").rstrip().endswith(
        "</html>"
    )
