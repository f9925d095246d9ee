"""Figures of calibration: reliability diagrams with intervals and bands, calibration curves, and histograms of confidence."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from bellwether.figures.canvas import (
    BLUE,
    GREY,
    INK,
    MOST_PANELS,
    ORANGE,
    PALE,
    Palette,
    Rows,
    chart_rows,
    colour,
    dashes,
    empty_figure,
    fill_chart,
    layer_charts,
    panels,
)  # fmt: skip

FORECAST, OBSERVED = "forecast probability of yes", "observed frequency of yes"
_UNIT = alt.Scale(domain=[0, 1])


def diagram_rows(bins: pl.DataFrame, name: str = "forecaster") -> Rows:
    """Convert rows of benchmark/reliability to rows of `diagram`; empty bins are left out. name: column with the names of the lines.

    Columns low and high are the band of a calibrated forecaster.
    """
    columns: dict[str, Any] = {
        "name": pl.col(name),
        "forecast": "mean_forecast",
        "observed": "yes_rate",
        "lower": "yes_rate_lower",
        "upper": "yes_rate_upper",
        "n": "n",
        **{end: end for end in ("low", "high") if end in bins.columns},
    }
    known = bins.filter(pl.col("mean_forecast").is_finite() & pl.col("yes_rate").is_finite())
    return chart_rows(known.select(**columns))


def diagram(names: Palette, *, banded: bool = False) -> alt.LayerChart:
    """Build a chart without data: observed frequency against forecast, a line per name, with intervals. banded: shade the band of calibrated
    forecasts.

    The rows, from `diagram_rows`, are filled in later.
    """
    tips = [alt.Tooltip("name:N"), *(alt.Tooltip(f"{one}:Q", format=".3f") for one in ("forecast", "observed", "lower", "upper"))]
    tips.append(alt.Tooltip("n:Q", title="forecasts"))
    x = alt.X("forecast:Q", title=FORECAST, scale=_UNIT)
    own = alt.Chart().encode(x=x, color=colour(names), tooltip=tips)
    observed = alt.Y("observed:Q", title=OBSERVED, scale=_UNIT)
    band = own.mark_area(opacity=0.16).encode(y=alt.Y("low:Q", title=OBSERVED, scale=_UNIT), y2="high:Q")
    bars = (
        own.transform_filter(alt.FieldValidPredicate(field="lower", valid=True))
        .mark_rule()
        .encode(y=alt.Y("lower:Q", title=OBSERVED), y2="upper:Q")
    )
    line = own.mark_line(strokeWidth=1.5).encode(y=observed, **dashes(names))
    points = own.mark_point(filled=True, opacity=1).encode(y=observed, size=alt.Size("n:Q", legend=None, scale=alt.Scale(range=[20, 220])))
    return layer_charts(*([band] if banded else []), _diagonal(), bars, line, points)


def curves(names: Palette) -> alt.LayerChart:
    """Build a chart without data: calibration curves without bins (CORP). Shaded is where the curve of a calibrated forecaster would lie.

    The rows are filled in later: name, forecast, recalibrated, and lower and upper of the band.
    """
    tips = [alt.Tooltip("name:N"), *(alt.Tooltip(f"{one}:Q", format=".3f") for one in ("forecast", "recalibrated"))]
    own = alt.Chart().encode(x=alt.X("forecast:Q", title=FORECAST, scale=_UNIT), color=colour(names))
    band = own.mark_area(opacity=0.13).encode(y=alt.Y("lower:Q", title=OBSERVED, scale=_UNIT), y2="upper:Q")
    line = own.mark_line(interpolate="step").encode(y=alt.Y("recalibrated:Q", title=OBSERVED, scale=_UNIT), tooltip=tips)
    return layer_charts(band, _diagonal(), line)


def _diagonal() -> alt.Chart:
    mark = alt.Chart().mark_line(strokeDash=[4, 4], color=GREY, strokeWidth=1)
    return fill_chart(mark.encode(x=alt.X("at:Q", title=FORECAST), y=alt.Y("at:Q", title=OBSERVED)), [{"at": 0}, {"at": 1}])


def reliability_diagram(
    reliability: pl.DataFrame,
    title: str,
    *,
    bands: pl.DataFrame | None = None,
    curves: pl.DataFrame | None = None,
    level: float = 0.95,
) -> alt.LayerChart | alt.ConcatChart | alt.VConcatChart | alt.Chart:
    """Draw the observed frequency of yes against the forecast, one panel per forecaster, with the number of forecasts per bin below.

    Args:
        reliability: Rows of benchmark/reliability.
        title: Title of the figure.
        bands: Ranges of a calibrated forecaster's points: forecaster, bin, lower, upper.
        curves: Calibration curves without bins: forecaster, forecast, recalibrated. `calibration_overlays` returns bands and curves.
        level: Level of the intervals and of the bands.
    """
    drawn = reliability.filter(pl.col("n") > 0).sort("forecaster", "bin")
    if bands is not None:
        drawn = drawn.join(
            bands.select("forecaster", "bin", low="lower", high="upper"), on=["forecaster", "bin"], how="left", maintain_order="left"
        )
    names = reliability["forecaster"].unique().sort().to_list()
    if drawn.is_empty():
        return empty_figure(title, "no forecast")
    alone = len(names) == 1
    charts = []
    for name in names[:MOST_PANELS]:
        bins = drawn.filter(pl.col("forecaster") == name)
        curve = [] if curves is None else chart_rows(curves.filter(pl.col("forecaster") == name).select("forecast", "recalibrated"))
        charts.append((name, _panel(bins, curve, 380 if alone else 200, banded=bands is not None)))
    notes = f"points: observed, with {100 * level:.4g} % intervals; bars: gap to perfect calibration"
    notes += f"; grey: {100 * level:.4g} % of calibrated ones" * (bands is not None) + "; line: isotonic (CORP)" * (curves is not None)
    return panels(charts, title, notes, left_out=len(names) - MOST_PANELS)


def _panel(bins: pl.DataFrame, curve: Rows, size: int, *, banded: bool) -> alt.VConcatChart:
    rows = diagram_rows(bins)
    x = alt.X("forecast:Q", title=None, scale=_UNIT)
    own = alt.Chart().encode(x=x)
    band = own.mark_rule(strokeWidth=size / 18, color="#e3e8ec").encode(y=alt.Y("low:Q", title=OBSERVED, scale=_UNIT), y2="high:Q")
    gap = own.mark_rule(strokeWidth=5, color=ORANGE, opacity=0.75).encode(y="forecast:Q", y2="observed:Q")
    bars = (
        own.transform_filter(alt.FieldValidPredicate(field="lower", valid=True))
        .mark_rule(color=BLUE, strokeWidth=1.2)
        .encode(y="lower:Q", y2="upper:Q")
    )
    points = own.mark_point(filled=True, opacity=1, size=34, color=BLUE).encode(y=alt.Y("observed:Q", title=OBSERVED, scale=_UNIT))
    line = alt.Chart().mark_line(interpolate="step", color=INK, strokeWidth=1.2).encode(x=x, y=alt.Y("recalibrated:Q", title=OBSERVED))
    layers = [band] if banded else []
    layers += [_diagonal(), gap, *([fill_chart(line, curve)] if curve else []), bars, points]
    upper = fill_chart(layer_charts(*layers).properties(width=size, height=size), rows)
    counts = bins.select(
        "n", at=(pl.col("lower_edge") + pl.col("upper_edge")) / 2, shown=pl.col("n").map_elements(short_count, return_dtype=pl.String)
    )
    most = max(counts["n"].to_list(), default=1)
    place = alt.Chart().encode(
        x=alt.X("at:Q", title=FORECAST, scale=_UNIT),
        y=alt.Y("n:Q", title="count", axis=alt.Axis(labels=False, ticks=False, grid=False), scale=alt.Scale(domain=[0, most * 1.4])),
    )
    lower = layer_charts(
        place.mark_bar(color=PALE, width=size / 13), place.mark_text(dy=-5, fontSize=8, color=GREY).encode(text="shown:N")
    ).properties(width=size, height=size / 5)
    return alt.vconcat(upper, fill_chart(lower, counts.to_dicts()), spacing=8)


def short_count(count: int) -> str:
    """Format a count below a billion in at most four characters: 999, 12k, 3.4M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}".removesuffix(".0") + unit if count < 10 * size else f"{count // size}{unit}"
    return str(count)


def distribution(colour: str) -> alt.Chart:
    """Build a chart without data: number of forecasts per bin as bars.

    The rows are filled in later: low, high, n.
    """
    tips = [alt.Tooltip("low:Q", title="from"), alt.Tooltip("high:Q", title="to"), alt.Tooltip("n:Q", title="forecasts")]
    x = alt.X("low:Q", title="forecast probability of yes", scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("n:Q", title="forecasts", scale=alt.Scale(zero=True))
    bars = alt.Chart().mark_rect(color=colour, opacity=0.85).encode(x=x, x2="high:Q", y=y, y2=alt.datum(0), tooltip=tips)
    return bars.properties(height=320)
