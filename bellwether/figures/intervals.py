"""Figures of values with intervals: a line per name, or a point per month, per distance from the knowledge cutoff, or per time after a fill."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from bellwether.figures.canvas import (
    BLUE,
    GREY,
    INK,
    MOST_LINES,
    ORANGE,
    Palette,
    Rows,
    add_title,
    distinct_labels,
    empty_figure,
    fill_chart,
    label,
    layer_charts,
    number,
    palette,
    points,
    rule_at,
)  # fmt: skip
from bellwether.formatting import floor_percent, p_value

#: Maximum of dots of an agent; more episodes are thinned evenly in the order of P&L.
_MOST_DOTS = 300
_UNRANKED = "not ranked"
#: Maximum rows of a matrix whose columns are all labelled.
_MOST_LABELS = 30


def intervals(
    axis: str,
    names: Palette,
    *,
    by: str = "name",
    reference: float | None = None,
    texts: Sequence[str] = (),
    domain: tuple[float, float] | None = None,
) -> alt.LayerChart:
    """Build a chart without data: values with intervals, one line per name in the order of the rows.

    The page adds the rows: name, value, lower, upper.

    Args:
        axis: Title of the values.
        names: Colours of the values of the column `by`.
        by: Column that selects the colour.
        reference: Value of a dotted line.
        texts: Columns written at the right of the axis; the row with the name "" contains their heads.
        domain: Range of the axis, which cuts longer intervals (default: all are visible).
    """
    tips = [alt.Tooltip("name:N"), *(alt.Tooltip(f"{one}:Q", format=".4f") for one in ("value", "lower", "upper"))]
    scale = alt.Scale(domain=[name for name, _ in names], range=[one for _, one in names])
    legend: Any = alt.Legend(orient="top") if by != "name" and len(names) > 1 else None
    own = alt.Chart().encode(
        y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(labelLimit=300)),
        color=alt.Color(f"{by}:N", scale=scale, legend=legend),
        tooltip=tips,
    )
    ends = own.transform_calculate(lower=_end_or_value("lower"), upper=_end_or_value("upper"))
    limits: dict[str, Any] = {} if domain is None else {"domain": list(domain), "nice": False}
    bars = ends.mark_rule(strokeWidth=2, clip=domain is not None).encode(x=number("lower", alt.X, title=axis, **limits), x2="upper:Q")
    dots = own.mark_point(filled=True, size=70, opacity=1).encode(
        x=number("value", alt.X, title=axis, **limits), **(points(names) if by == "name" else {})
    )
    dotted = [] if reference is None else [rule_at(reference, "x")]
    return layer_charts(*dotted, _axis_padding(axis), bars, dots, *_text_columns(texts))


def _end_or_value(end: str) -> str:
    """Return a Vega expression for an interval's end, or for the value if the end is missing. Without any ends, Vega would label the axis wrongly."""
    return f"isValid(datum.{end}) ? datum.{end} : datum.value"


def _axis_padding(axis: str) -> alt.Chart:
    """Return an invisible layer that widens the axis by a tenth on both sides if there is only one value."""
    room = "datum.least == datum.most ? abs(datum.most) / 10 || 0.1 : 0"
    return (
        alt.Chart()
        .transform_aggregate(least="min(value)", most="max(value)")
        .transform_calculate(left=f"datum.least - ({room})", right=f"datum.most + ({room})")
        .mark_rule(opacity=0)
        .encode(x=number("left", alt.X, title=axis), x2="right:Q")
    )


def _text_columns(columns: Sequence[str]) -> list[alt.Chart]:
    """Return one layer per column that writes the column's texts at the right of the axis."""
    layers, right = [], 12
    for column in columns:
        mark = alt.Chart().mark_text(align="left", fontSize=10.5, color=INK, limit=190)
        place = alt.XValue(alt.expr(f"width + {right}"))
        layers.append(mark.encode(y=alt.Y("name:N", sort=None), x=place, text=f"{column}:N"))
        right += 150
    return layers


def interval_list(rows: Rows, axis: str, names: Palette = (("", BLUE),), **options: Any) -> alt.LayerChart:
    """Draw values with intervals from rows (name, value, lower, upper). names: colour of each value of the field `kind`."""
    short = distinct_labels([row["name"] for row in rows])
    shown = [{"kind": "", **row, "name": short[row["name"]]} for row in rows]
    return fill_chart(intervals(axis, names, by="kind", **options).properties(width=380, height=alt.Step(24)), shown)


def score_comparison(leaderboard: pl.DataFrame) -> alt.LayerChart | alt.Chart:
    """Draw the Brier scores of a leaderboard with their intervals, the best first.

    `leaderboard` contains rows of benchmark/leaderboard. The letters at the right are significance groups. Unranked forecasters are last, in
    grey, with the share of their questions that are scored; the dotted line is the score of always forecasting 0.5.
    """
    table = leaderboard.sort("release", "rank", "brier", "forecaster", nulls_last=True)
    title = "Brier score: " + ", ".join(table["release"].unique().sort())
    shown = table.head(MOST_LINES)
    if shown.is_empty():
        return empty_figure(title, "no forecaster")
    grouped = "group" in shown.columns and shown["group"].count() > 0
    rows = [_score(row) for row in shown.iter_rows(named=True)]
    kinds = palette(sorted({row["kind"] for row in rows} - {_UNRANKED}))
    names = (*kinds, *([(_UNRANKED, GREY)] if any(row["kind"] == _UNRANKED for row in rows) else []))
    chart = interval_list(rows, "Brier score; lower is better", names, reference=0.25, texts=["shown", *(["group"] if grouped else [])])
    note = "bars: 95 % intervals over clusters; dotted: always 0.5" + "; the same letter: no significant difference" * grouped
    more = f"and {table.height - MOST_LINES} more" if table.height > MOST_LINES else ""
    return add_title(chart, title, note, more)


def _score(row: Mapping[str, Any]) -> dict[str, Any]:
    ranked, brier, lower, upper = row["rank"] is not None, row["brier"], row["brier_lower"], row["brier_upper"]
    ends = "" if lower is None else f"  [{lower:.3f}, {upper:.3f}]"
    return {
        "name": row["forecaster"] if ranked else f"{label(row['forecaster'], 28)} ({floor_percent(row['coverage'])} scored)",
        "kind": label(row["kind"], 24).replace("_", " ") if ranked else _UNRANKED,
        "value": brier,
        "lower": lower,
        "upper": upper,
        "shown": "no score" if brier is None else f"{brier:.4f}{ends}",
        "group": label(row.get("group") or "", 8),
    }


def pnl_distribution(backtests: pl.DataFrame, summary: pl.DataFrame, title: str) -> alt.LayerChart | alt.Chart:
    """Draw the P&L of every episode as a dot, on one line per agent and set of simulator rules, the best mean first.

    `backtests` and `summary` contain rows of replay/backtests and replay/summary. Episodes that left a position unsettled have no dot.
    """
    ordered = summary.drop_nulls("pnl_mean").sort("pnl_mean", "agent", "rules", descending=[True, False, False])
    if ordered.is_empty():
        return empty_figure(title, "no backtest")
    shown, several = ordered.head(MOST_LINES), ordered["rules"].n_unique() > 1
    settled = backtests.filter(~pl.col("unsettled"))
    names = [f"{row['agent']} ({row['rules']})" if several else row["agent"] for row in shown.iter_rows(named=True)]
    short = distinct_labels(names)
    rows: Rows = []
    dots: Rows = []
    for name, row in zip(names, shown.iter_rows(named=True), strict=True):
        own = (
            settled.filter((pl.col("agent") == row["agent"]) & (pl.col("rules") == row["rules"]))["pnl"].cast(pl.Float64).sort().to_numpy()
        )
        kept = np.unique(np.linspace(0, len(own) - 1, min(len(own), _MOST_DOTS)).round().astype(int)) if len(own) else np.zeros(0, int)
        dots += [{"name": short[name], "pnl": float(own[place])} for place in kept]
        rows.append({"name": name, "value": row["pnl_mean"], "median": row["pnl_median"], "shown": f"n = {row['episodes']:,}"})
    axis = "P&L of an episode ($)"
    y = alt.Y("name:N", sort=None, title=None)
    each = alt.Chart().mark_point(filled=True, color=BLUE, opacity=0.3, size=22).encode(y=y, x=number("pnl", alt.X, title=axis))
    main = interval_list(rows, axis, (("", INK),), reference=0.0, texts=["shown"])
    median = alt.Chart().mark_tick(color=ORANGE, thickness=2.5, size=16).encode(y=y, x=number("median", alt.X, title=axis))
    chart = layer_charts(*main.layer[:1], fill_chart(each, dots), *main.layer[1:], median).properties(width=380, height=alt.Step(24))
    more = f"and {ordered.height - MOST_LINES} more" if ordered.height > MOST_LINES else ""
    chart.data = main.data
    return add_title(chart, title, "pale: episodes; dark: mean; orange: median", more)


def matrix(value: str, count: int, *, middle: float | None = None, domain: tuple[float, float] | None = None) -> alt.LayerChart:
    """Build a chart without data: a matrix with a row per name and a column per other, in the order set by `cells`.

    The page adds the rows: those of `cells`; `mark` 1 draws a dot. value: title of the values. count: number of names. middle: value between
    the two colours. domain: range of the colours, whose ends other values get.
    """
    # No sort lists of names: Vega-Lite would put them into an expression.
    limits: dict[str, Any] = {} if domain is None else {"domain": list(domain), "clamp": True}
    scale = alt.Scale(scheme="blues", **limits) if middle is None else alt.Scale(scheme="blueorange", domainMid=middle, **limits)
    tips = [alt.Tooltip("name:N"), alt.Tooltip("other:N"), alt.Tooltip("value:Q", title=value, format=".4f"), alt.Tooltip("note:N")]
    own = alt.Chart().encode(
        x=alt.X(
            "other:N",
            sort=alt.EncodingSortField("column", op="min"),
            title=None,
            axis=alt.Axis(labelAngle=-60, labelOverlap=count > _MOST_LABELS),
        ),
        y=alt.Y("name:N", sort=alt.EncodingSortField("row", op="min"), title=None),
        tooltip=tips,
    )
    squares = own.mark_rect().encode(color=alt.Color("value:Q", title=value, scale=scale, legend=alt.Legend(orient="top")))
    dots = own.transform_filter(alt.FieldEqualPredicate(field="mark", equal=1)).mark_point(filled=True, size=14, color="#14191e", opacity=1)
    return layer_charts(squares, dots).properties(height=max(36, 18 * count))


def cells(rows: Rows, names: Sequence[str], others: Sequence[str]) -> Rows:
    """Add to each cell of a matrix the positions of its row and column. rows: name, other, value, note, mark. names, others: order of rows and
    columns.
    """
    down, across = ({name: place for place, name in enumerate(dict.fromkeys(order))} for order in (names, others))
    return [{**row, "row": down.get(row["name"], len(down)), "column": across.get(row["other"], len(across))} for row in rows]


def difference_cells(pairs: pl.DataFrame, name: str) -> Rows:
    """Build the cells of a matrix of differences, row minus column. A dot marks p below 0.05 after Holm's correction.

    pairs: rows of benchmark/comparisons or arena/rankings. name: column of a pair's first member.
    """
    rows: Rows = []
    for pair in pairs.filter(pl.col("difference").is_finite()).iter_rows(named=True):
        value, p = pair["difference"], pair["p_holm"]
        has_p = p is not None and math.isfinite(p)
        shared = {"note": f"p {p_value(p)} after Holm" if has_p else (pair["reason"] or ""), "mark": int(has_p and p < 0.05)}
        rows.append({"name": pair[name], "other": pair["other"], "value": value, **shared})
        rows.append({"name": pair["other"], "other": pair[name], "value": -value, **shared})
    return rows


def difference_matrix(comparisons: pl.DataFrame, names: Sequence[str], title: str) -> Any:
    """Draw the matrix of Brier score differences between forecasters, in the order of `names`. comparisons: rows of benchmark/comparisons."""
    rows = difference_cells(comparisons, "forecaster")
    if not rows:
        return empty_figure(title, "no pair has a difference")
    chart = fill_chart(matrix("difference", len(names), middle=0), cells(rows, names, names))
    return add_title(chart.properties(width=18 * len(names)), title, "row minus column; dot: p after Holm's correction is below 0.05")


def differences(pairs: pl.DataFrame, axis: str) -> alt.LayerChart:
    """Draw the difference of each pair of forecasters with its interval; below 0, the first of the pair is better.

    pairs: forecaster, other, difference, lower, upper. axis: title of the differences.
    """
    known = pairs.filter(pl.col("difference").is_not_null())
    short = distinct_labels([*known["forecaster"], *known["other"]], 24)
    rows = [
        {"name": f"{short[one]} – {short[other]}", "value": value, "lower": lower, "upper": upper}
        for one, other, value, lower, upper in known.select("forecaster", "other", "difference", "lower", "upper").iter_rows()
    ]
    return interval_list(rows, axis, reference=0.0)
