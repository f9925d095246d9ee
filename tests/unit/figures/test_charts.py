"""Charts: their rows equal those of the frames, untrusted names are drawn as text, and pictures are reproducible."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
import vl_convert

from bellwether.calibration import reliability_bins
from bellwether.figures.equity import MOST_POINTS, extremes
from bellwether.figures.intervals import difference_cells
from bellwether.figures.reliability import consistency_bands, diagram_rows, select_answered
from bellwether.pages import charts
from bellwether.pages.model import Chart
from bellwether.replay.results.tear_sheet import book_chart, book_rows

UNTRUSTED = "$\\frac{1}{0}$ <b>datum.x" + "x" * 1_000


def bins(*names: str, n: int = 400) -> pl.DataFrame:
    """Return reliability rows of overconfident forecasters."""
    frames = []
    for seed, name in enumerate(names):
        generator = np.random.default_rng(seed)
        p = generator.random(n)
        frames.append(reliability_bins(p, generator.random(n) < 0.25 + 0.5 * p).with_columns(forecaster=pl.lit(name)))
    return pl.concat(frames)


def make_questions(n: int = 120) -> pl.DataFrame:
    """Return questions q0, q1, …, three per cluster. A third resolve yes."""
    return pl.DataFrame(
        [{"id": f"q{index}", "cluster": f"c{index // 3}", "ground_truth": "no" if index % 3 else "yes"} for index in range(n)]
    )


def make_forecasts(name: str, n: int = 120, *, could_know: bool = False) -> pl.DataFrame:
    """Return forecasts of a model with the columns that charts read."""
    rows = [
        {"release": "r1", "forecaster": name, "question_id": f"q{index}", "sample": 0, "p_yes": p, "answer": "yes" if p >= 0.5 else "no"}
        | {"combine": None, "as_of": None, "could_know": could_know, "knowledge_cutoff": None}
        for index, p in enumerate(np.random.default_rng(0).random(n).round(3).tolist())
    ]
    nulls = {"combine": pl.String(), "as_of": pl.Datetime("us", "UTC"), "knowledge_cutoff": pl.Datetime("us", "UTC")}
    return pl.DataFrame(rows, schema_overrides=nulls)


def chart_texts(chart: Chart) -> list[str]:
    """Return every text of the chart's SVG."""
    root = ElementTree.fromstring(vl_convert.vegalite_to_svg({**chart.spec, "data": {"values": list(chart.rows)}, "title": chart.title}))
    return ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_points_of_a_diagram_are_the_reliability_table_with_the_bands_of_calibrated_forecasts() -> None:
    known = bins("south").filter(pl.col("n") > 0).sort("bin")
    bands = consistency_bands(make_forecasts("south"), make_questions())
    rows = diagram_rows(known.join(bands, on=["forecaster", "bin"], how="left", maintain_order="left"))
    assert [(row["forecast"], row["observed"], row["n"]) for row in rows] == known.select("mean_forecast", "yes_rate", "n").rows()
    by_bin = dict(bands.select("bin", "low").iter_rows())
    assert [row["low"] for row in rows] == [by_bin.get(number) for number in known["bin"]]


def test_what_could_be_known_is_not_drawn() -> None:
    assert select_answered(make_forecasts("a", could_know=True), make_questions()).is_empty()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: charts.reliability(UNTRUSTED[:60], diagram_rows(bins("a")), {"a": charts.LINE}),
        lambda: charts.intervals(
            "Brier", "Brier", [{"name": UNTRUSTED, "value": 0.2, "lower": 0.1, "upper": 0.3}], {UNTRUSTED: charts.LINE}
        ),
    ],
    ids=["title", "name"],
)
def test_untrusted_text_is_drawn_as_text(draw: Callable[[], Chart]) -> None:
    chart = draw()
    assert [text for text in chart_texts(chart) if UNTRUSTED[:6] in text]
    picture = charts.png(chart)
    assert picture.startswith(b"\x89PNG") and picture == charts.png(draw())


def test_a_difference_is_in_both_triangles_and_marked_if_it_is_significant() -> None:
    pairs = pl.DataFrame(
        {
            "forecaster": ["a", "a", "b"],
            "other": ["b", "c", "c"],
            "difference": [-0.1, 0.02, None],
            "p_holm": [0.001, 0.5, None],
            "reason": [None, None, "no common question"],
        }
    )
    found = {(row["name"], row["other"]): (row["value"], row["mark"]) for row in difference_cells(pairs, "forecaster")}
    assert found == {("a", "b"): (-0.1, 1), ("b", "a"): (0.1, 1), ("a", "c"): (0.02, 0), ("c", "a"): (-0.02, 0)}


def test_a_fill_is_marked_where_it_was_made_in_prices_of_yes() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    sides = {f"{side}_{kind}": [[value]] * 2 for side, value in (("bid", 0.3), ("ask", 0.4)) for kind in ("prices", "sizes")}
    book = pl.DataFrame({"ticker": "M", "at": [at, at + timedelta(minutes=1)], **sides, "traded": [0.0, 2.0], "trade_price": [None, 0.4]})
    fill = {"ticker": "M", "side": "no", "action": "buy", "role": "maker", "price": 0.3, "size": 2.0, "agent": "a"}
    chart = book_chart("Book", ["M"], book_rows(book), [{**fill, "filled_at": at + timedelta(seconds=25)}])
    (mark,) = [row for row in chart.rows if row["fill"] is not None]
    assert (mark["way"], mark["x"], mark["fill"]) == ("sold", "2026-01-01T00:00:25.000Z", 0.7)


def test_a_long_curve_keeps_its_extremes() -> None:
    values = np.random.default_rng(0).normal(size=100_000)
    kept = extremes(values, most=MOST_POINTS)
    assert len(kept) < 2_000
    assert (values[kept].min(), values[kept].max(), kept[0], kept[-1]) == (values.min(), values.max(), 0, 99_999)
    assert all(early < late for early, late in pairwise(kept.tolist()))
