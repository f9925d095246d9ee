"""Scatter chart of a score against another number, such as the cost, and bars of questions by outcome (answered, or why not)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from bellwether.figures.canvas import (
    BLUE,
    GREY,
    INK,
    MOST_LINES,
    Palette,
    add_title,
    colour,
    distinct_labels,
    empty_figure,
    fill_chart,
    label,
    layer_charts,
    number,
    time,
)
from bellwether.figures.canvas import points as shapes
from bellwether.formatting import floor_percent

#: Colours of the most frequent kinds of failure; other kinds share one.
_FAILURES = ("#c2562e", "#a8862b", "#7a5aa6", "#3d8361", "#9c4a6d", "#5f6b76")
_ANSWERED, _OTHER, _KNOWN, _NOT_ASKED = "answered", "other failures", "could have known", "not asked"
#: Outcomes that are not failures: excluded questions and questions that were not asked.
_APART = {_KNOWN: "#c5d3df", _NOT_ASKED: "#e6eaed"}


def scatter(x: str, y: str, names: Palette, *, log: bool = False, timed: bool = False, ticks: Sequence[float] = ()) -> alt.LayerChart:
    """Build a chart without data: named points, and a dashed line through the lowest y so far from left to right.

    The rows are filled in later: name, x, y, label, and frontier (y of a point on the dashed line, else null). ticks: values with a grid line
    (default: by Vega).
    """
    axis = alt.Axis(values=list(ticks)) if ticks else alt.Axis()
    along = time("x", x) if timed else alt.X("x:Q", title=x, scale=alt.Scale(type="log") if log else alt.Scale(zero=False), axis=axis)
    tips = [alt.Tooltip("name:N"), alt.Tooltip("x:T" if timed else "x:Q", title=x), alt.Tooltip("y:Q", title=y, format=".4f")]
    own = alt.Chart().encode(x=along, y=number("y", title=y), tooltip=tips)
    points = own.mark_point(filled=True, size=90, opacity=1).encode(color=colour(names), **shapes(names))
    front = (
        alt.Chart().transform_filter(alt.FieldValidPredicate(field="frontier", valid=True)).encode(x=along, y=number("frontier", title=y))
    )
    line = front.mark_line(interpolate="step-after", strokeDash=[4, 3], strokeWidth=1.5, color=GREY)
    return layer_charts(line, points, own.mark_text(align="left", dx=9, fontSize=10, limit=160).encode(text="label:N")).properties(
        height=300
    )


def coverage_bars(forecasts: pl.DataFrame, questions: pl.DataFrame, title: str) -> alt.LayerChart | alt.Chart:
    """Draw how many questions each forecaster answered, and how many failed, by kind of failure.

    forecasts, questions: rows of benchmark/forecasts and benchmark/questions of one release. A question is answered if any sample is; otherwise
    the failure of its first sample counts. Questions that the forecaster could have known are separate, and not in the share at the right.
    Questions without a row were not asked.
    """
    counts = _outcomes(forecasts, questions.height)
    names = counts["forecaster"].unique(maintain_order=True).to_list()
    if not names:
        return empty_figure(title, "no forecaster")
    colours = _colours(counts)
    order = {outcome: place for place, outcome in enumerate(colours)}
    drawn_names = names[:MOST_LINES]
    short = distinct_labels(drawn_names)
    rows: list[dict[str, Any]] = []
    for name in drawn_names:
        own = dict.fromkeys(colours, 0)
        for outcome, n in counts.filter(pl.col("forecaster") == name).select("outcome", "n").iter_rows():
            own[outcome if outcome in own else _OTHER] += n
        eligible = questions.height - own.get(_KNOWN, 0)
        share = floor_percent(own[_ANSWERED] / eligible) if eligible else "–"
        start = 0
        for outcome, n in own.items():
            text = share if outcome == _ANSWERED else ""
            rows.append(
                {
                    "name": short[name],
                    "outcome": _outcome_label(outcome),
                    "from": start,
                    "to": start + n,
                    "order": order[outcome],
                    "share": text,
                }
            )
            start += n
    domain, paints = [_outcome_label(outcome) for outcome in colours], list(colours.values())
    y = alt.Y("name:N", sort=None, title=None, axis=alt.Axis(labelLimit=300))
    legend = alt.Legend(orient="top", columns=5)
    bars = (
        alt.Chart()
        .mark_bar(height=16)
        .encode(
            x=alt.X("from:Q", title="questions", scale=alt.Scale(domain=[0, max(questions.height, 1)], nice=False)),
            x2="to:Q",
            y=y,
            color=alt.Color("outcome:N", scale=alt.Scale(domain=domain, range=paints), legend=legend),
            tooltip=[alt.Tooltip("name:N"), alt.Tooltip("outcome:N")],
        )
    )
    texts = alt.Chart().mark_text(align="left", fontSize=10.5, color=INK).encode(x=alt.XValue(alt.expr("width + 10")), y=y, text="share:N")
    more = f"and {len(names) - MOST_LINES} more" if len(names) > MOST_LINES else ""
    return add_title(fill_chart(layer_charts(bars, texts).properties(width=420, height=alt.Step(24)), rows), title, more)


def _outcome_label(outcome: str) -> str:
    return label(outcome.replace("_", " "), 24)


def _outcomes(forecasts: pl.DataFrame, asked: int) -> pl.DataFrame:
    """Count the questions of each forecaster by outcome: forecaster, outcome and n, the most answers first. asked: number of questions."""
    first = forecasts.sort("forecaster", "question_id", "sample").group_by("forecaster", "question_id", maintain_order=True)
    failure = pl.coalesce(pl.col("failure").drop_nulls().first(), pl.lit("failed"))
    outcome = pl.when(pl.col("p_yes").is_not_null().any()).then(pl.lit(_ANSWERED)).otherwise(failure)
    outcomes = first.agg(outcome=pl.when(pl.col("could_know").any()).then(pl.lit(_KNOWN)).otherwise(outcome))
    counts = outcomes.group_by("forecaster", "outcome").agg(n=pl.len().cast(pl.Int64))
    rest = counts.group_by("forecaster").agg(outcome=pl.lit(_NOT_ASKED), n=asked - pl.col("n").sum())
    whole = pl.concat([counts, rest.select("forecaster", "outcome", "n").filter(pl.col("n") > 0)])
    answered = pl.col("n").filter(pl.col("outcome") == _ANSWERED).sum().over("forecaster")
    return whole.sort(answered, "forecaster", "outcome", descending=[True, False, False])


def _colours(counts: pl.DataFrame) -> dict[str, str]:
    """Return the colour of each outcome in drawing order: answered, frequent failures, other failures, questions that do not count."""
    totals = counts.group_by("outcome").agg(pl.col("n").sum()).sort("n", "outcome", descending=[True, False])
    outcomes = totals["outcome"].to_list()
    failures = [kind for kind in outcomes if kind not in {_ANSWERED, _KNOWN, _NOT_ASKED}]
    own = failures if len(failures) <= len(_FAILURES) else [*failures[: len(_FAILURES) - 1], _OTHER]
    apart = {kind: shade for kind, shade in _APART.items() if kind in outcomes}
    return {_ANSWERED: BLUE, **dict(zip(own, _FAILURES, strict=False)), **apart}
