"""Charts of calibration: reliability diagrams with intervals and bands, calibration curves, and histograms of forecasts."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from bellwether.calibration.answers import combine_samples
from bellwether.calibration.reliability import reliability_bands
from bellwether.figures.canvas import GREY, Palette, Rows, chart_rows, colour, dashes, fill_chart, layer_charts

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


def select_answered(forecasts: pl.DataFrame, questions: pl.DataFrame) -> pl.DataFrame:
    """Combine the samples of each forecaster's answers. One row per forecaster and question, without questions whose outcome the forecaster could
    know.

    Columns: forecaster, id, p, y and cluster.
    """
    truth = questions.select("id", "cluster", y=pl.col("ground_truth") == "yes")
    return (
        combine_samples(forecasts)
        .filter(pl.col("p").is_not_null() & ~pl.col("said_could_know"))
        .join(truth, on="id")
        .select("forecaster", "id", "p", "y", "cluster")
        .sort("forecaster", "id")
    )


def consistency_bands(forecasts: pl.DataFrame, questions: pl.DataFrame, resamples: int = 200) -> pl.DataFrame:
    """Compute where the observed frequency of each reliability bin would lie if the forecasts were calibrated: forecaster, bin, low and high.

    For a calibrated forecaster, 95 % of the frequencies of yes lie between low and high. A bin without forecasts has no row. `forecasts` and
    `questions` are rows of benchmark/forecasts and benchmark/questions.
    """
    parts = [pl.DataFrame(schema={"forecaster": pl.String, "bin": pl.Int32, "low": pl.Float64, "high": pl.Float64})]
    for (name,), part in select_answered(forecasts, questions).group_by("forecaster", maintain_order=True):
        bands = reliability_bands(part["p"], part["cluster"], resamples=resamples).drop_nulls("lower")
        parts.append(bands.select(pl.lit(name).alias("forecaster"), "bin", low="lower", high="upper"))
    return pl.concat(parts)


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


def distribution(colour: str) -> alt.Chart:
    """Build a chart without data: number of forecasts per bin as bars.

    The rows are filled in later: low, high, n.
    """
    tips = [alt.Tooltip("low:Q", title="from"), alt.Tooltip("high:Q", title="to"), alt.Tooltip("n:Q", title="forecasts")]
    x = alt.X("low:Q", title="forecast probability of yes", scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("n:Q", title="forecasts", scale=alt.Scale(zero=True))
    bars = alt.Chart().mark_rect(color=colour, opacity=0.85).encode(x=x, x2="high:Q", y=y, y2=alt.datum(0), tooltip=tips)
    return bars.properties(height=320)
