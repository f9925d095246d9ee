"""Figures of the benchmark: numbers equal those of the frames, small and reproducible PNGs, and untrusted text as text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.calibration import reliability_bins
from bellwether.figures.intervals import difference_matrix, score_comparison
from bellwether.figures.reliability import reliability_diagram
from bellwether.figures.statistics import calibration_overlays, select_answered
from tests.unit.figures.chart_contents import chart_png, chart_rows, chart_texts


def bins(*names: str, n: int = 400) -> pl.DataFrame:
    """Return reliability rows of overconfident forecasters."""
    frames = []
    for seed, name in enumerate(names):
        generator = np.random.default_rng(seed)
        p = generator.random(n)
        frames.append(reliability_bins(p, generator.random(n) < 0.25 + 0.5 * p).with_columns(forecaster=pl.lit(name)))
    return pl.concat(frames)


def board(*lines: tuple[str, int | None, float | None]) -> pl.DataFrame:
    """Return leaderboard rows from name, rank and Brier score."""
    rows = [
        {"release": "r1", "forecaster": name, "rank": rank, "kind": "constant", "brier": brier, "brier_lower": brier and brier - 0.02}
        | {"brier_upper": brier and brier + 0.02, "coverage": 1.0 if rank else 0.5}
        for name, rank, brier in lines
    ]
    floats = dict.fromkeys(("brier", "brier_lower", "brier_upper", "coverage"), pl.Float64())
    return pl.DataFrame(rows, schema={"release": pl.String(), "forecaster": pl.String(), "rank": pl.Int32(), "kind": pl.String(), **floats})


def make_questions(n: int = 120) -> pl.DataFrame:
    """Return questions q0, q1, … over four months, three per cluster. A third resolve yes."""
    start = datetime(2025, 1, 15, tzinfo=UTC)
    rows = [
        {"id": f"q{index}", "cluster": f"c{index // 3}", "ground_truth": "no" if index % 3 else "yes"}
        | {"close_time": start + timedelta(days=index), "settled_at": start + timedelta(days=index) if index % 2 else None}
        for index in range(n)
    ]
    return pl.DataFrame(rows)


def make_forecasts(*names: str, n: int = 120, failure: str | None = None, could_know: bool = False) -> pl.DataFrame:
    """Return forecasts of `asked` with the columns that the figures read. With a `failure`, every tenth fails."""
    rows = []
    for seed, name in enumerate(names):
        generator = np.random.default_rng(seed)
        for index, p in enumerate(generator.random(n).round(3).tolist()):
            failed = failure is not None and index % 10 == 0
            rows.append(
                {"release": "r1", "forecaster": name, "question_id": f"q{index}", "sample": 0, "p_yes": None if failed else p}
                | {"answer": None if failed else "yes" if p >= 0.5 else "no", "failure": failure if failed else None, "combine": None}
                | {"as_of": None, "could_know": could_know, "knowledge_cutoff": None}
            )
    nulls = {
        "combine": pl.String(),
        "failure": pl.String(),
        "as_of": pl.Datetime("us", "UTC"),
        "knowledge_cutoff": pl.Datetime("us", "UTC"),
    }
    return pl.DataFrame(rows, schema_overrides=nulls, infer_schema_length=None)


def draw_all(*names: str) -> dict[str, Any]:
    """Draw every figure of `agent_names`."""
    questions, forecasts = make_questions(), make_forecasts(*names, failure="refusal")
    bands, curves = calibration_overlays(forecasts, questions)
    lines = board(*((name, place + 1, 0.2) for place, name in enumerate(names)))
    return {
        "reliability": reliability_diagram(bins(*names), "Reliability", bands=bands, curves=curves),
        "scores": score_comparison(lines),
    }


def test_the_points_of_a_diagram_are_the_reliability_table() -> None:
    frame = bins("north", "south")
    bands, curves = calibration_overlays(make_forecasts("north", "south"), make_questions())
    drawn = chart_rows(reliability_diagram(frame, "x", bands=bands, curves=curves))
    points = [(row["forecast"], row["observed"], row["n"]) for row in drawn if row.get("name") == "south"]
    known = frame.filter(pl.col("forecaster") == "south", pl.col("n") > 0).sort("bin")
    assert points == list(known.select("mean_forecast", "yes_rate", "n").iter_rows())
    joined = known.join(bands.filter(forecaster="south"), on="bin", how="left", suffix="_band").sort("bin")
    assert [row["low"] for row in drawn if row.get("name") == "south"] == joined["lower"].to_list()
    assert sum("recalibrated" in row for row in drawn) == curves.height


def test_what_could_be_known_is_not_drawn() -> None:
    assert select_answered(make_forecasts("a", could_know=True), make_questions()).is_empty()


UNTRUSTED = "$\\frac{1}{0}$ <b>datum.x" + "x" * 1_000


@pytest.mark.parametrize(
    "draw",
    [
        lambda: reliability_diagram(bins(UNTRUSTED, "b"), UNTRUSTED),
        lambda: score_comparison(board((UNTRUSTED, 1, 0.2)).with_columns(kind=pl.lit(UNTRUSTED), release=pl.lit(UNTRUSTED))),
    ],
    ids=["reliability", "scores"],
)
def test_untrusted_text_is_drawn_as_text(draw: Callable[[], Any]) -> None:
    chart = draw()
    carrying = [text for text in chart_texts(chart) if UNTRUSTED[:6] in text]
    assert len(carrying) >= 2
    assert all(len(text) < 160 for text in carrying)


def test_the_comparison_writes_scores_with_intervals_and_the_coverage_of_the_unranked() -> None:
    table = board(("best", 1, 0.2), ("choosy", None, 0.1), ("silent", None, None)).with_columns(group=pl.Series(["ab", None, None]))
    written = set(chart_texts(score_comparison(table)))
    names = {"best", "choosy (50% scored)", "silent (50% scored)"}
    assert names | {"ab", "0.2000  [0.180, 0.220]", "0.1000  [0.080, 0.120]", "no score", "not ranked"} <= written


@pytest.mark.nightly
def test_every_figure_is_small() -> None:
    for chart in draw_all("one", "two", "three").values():
        chart_png(chart)


def test_a_reliability_diagram_does_not_depend_on_the_order_of_rows() -> None:
    assert reliability_diagram(bins("f", "g"), "x").to_dict() == reliability_diagram(bins("f", "g").reverse(), "x").to_dict()


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
    chart = difference_matrix(pairs, ["a", "b", "c"], "Differences")
    found = {(row["name"], row["other"]): (row["value"], row["mark"]) for row in chart_rows(chart)}
    assert found == {("a", "b"): (-0.1, 1), ("b", "a"): (0.1, 1), ("a", "c"): (0.02, 0), ("c", "a"): (-0.02, 0)}
    chart_png(chart)
    assert "no pair has a difference" in chart_texts(difference_matrix(pairs.tail(1), ["b", "c"], "Differences"))
