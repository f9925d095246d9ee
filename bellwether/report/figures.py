"""Figures of a report with their captions. Pictures of a forecaster's calibration are cached."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from bellwether.figures.statistics import calibration_overlays
from bellwether.report.inputs import ReportInputs

#: Maximum number of cached pictures, less than 100 kB each.
MAX_CACHED = 256
_cache: OrderedDict[bytes, bytes] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Figure:
    """Figure of a report, which is drawn later.

    name: prefix of its file name. draw: returns the PNG. about: description in the list of files (default: the caption).
    """

    name: str
    caption: str
    draw: Callable[[], bytes]
    about: str = ""

    def file(self, stamp: str) -> str:
        """Return the file name of the figure in a report with the given stamp."""
        return f"{self.name}_{stamp}.png"

    @classmethod
    def of(cls, name: str, caption: str, chart: Callable[..., Any], *arguments: Any, about: str = "", **options: Any) -> Figure:
        """Build a figure from a function that returns an Altair chart; `arguments` and `options` are passed to it."""

        def draw() -> bytes:
            from bellwether.figures.canvas import png

            return png(chart(*arguments, **options))

        return cls(name, caption, draw, about)


def release_figures(inputs: ReportInputs) -> Iterator[Figure]:
    """Yield the figures that compare all forecasters. The one by distance from the knowledge cutoff needs a forecaster that has a cutoff."""
    from bellwether.figures import costs, intervals

    release, rows = inputs.release, (inputs.forecasts, inputs.questions)
    caption = "Brier scores with 95 % intervals over clusters; letters are significance groups."
    yield Figure.of("scores", caption, intervals.score_comparison, inputs.leaderboard)
    yield Figure.of("coverage", "Each forecaster's questions by result.", costs.coverage_bars, *rows, f"Questions answered: {release}")
    caption = "Mean Brier score by the month in which the questions were resolved, with intervals."
    title = f"Brier score over time: {release}"
    yield Figure.of("brier_over_time", caption, intervals.brier_over_time, *rows, title, names=inputs.forecasters)
    if inputs.scores["scope"].str.starts_with("distance:").any():
        caption = "Brier score by the time from the knowledge cutoff to the resolution."
        title = f"Brier score by distance from the cutoff: {release}"
        yield Figure.of("score_by_distance", caption, intervals.score_by_distance, inputs.scores, title, names=inputs.forecasters)


def forecaster_figures(inputs: ReportInputs, forecaster: str, file: str) -> Iterator[Figure]:
    """Yield the figures of one forecaster. file: the forecaster's name in file names."""
    bins = inputs.reliability.filter(pl.col("forecaster") == forecaster)
    forecasts = inputs.forecasts.filter(pl.col("forecaster") == forecaster)
    title = f"{forecaster} on {inputs.release}"
    yield Figure(
        f"reliability_{file}",
        "Reliability: observed frequency of yes against the forecast, with intervals, counts, the CORP curve, and the band"
        " of calibrated forecasts.",
        lambda: reliability_picture(bins, forecasts, inputs.questions, title),
        f"{forecaster}: reliability diagram",
    )
    yield Figure(
        f"confidence_{file}",
        "Share of right decisions at each confidence.",
        lambda: confidence_picture(forecasts, inputs.questions, title),
        f"{forecaster}: how often it was right at each confidence",
    )


def reliability_picture(bins: pl.DataFrame, forecasts: pl.DataFrame, questions: pl.DataFrame, title: str) -> bytes:
    """Draw the reliability diagram of one forecaster as a PNG, with consistency band and CORP curve. bins: rows of benchmark/reliability."""

    def draw() -> Any:
        from bellwether.figures.reliability import reliability_diagram

        bands, curves = calibration_overlays(forecasts, questions)
        return reliability_diagram(bins, title, bands=bands, curves=curves)

    return _render_cached(draw, "reliability", title, bins, forecasts, questions)


def confidence_picture(forecasts: pl.DataFrame, questions: pl.DataFrame, title: str) -> bytes:
    """Draw how often one forecaster was right at each level of confidence, as a PNG, from rows of benchmark/forecasts and
    benchmark/questions.
    """

    def draw() -> Any:
        from bellwether.figures.reliability import confidence_histograms

        return confidence_histograms(forecasts, questions, title)

    return _render_cached(draw, "confidence", title, forecasts, questions)


def _render_cached(draw: Callable[[], Any], kind: str, title: str, *frames: pl.DataFrame) -> bytes:
    """Render a chart as a PNG, or return the cached one. kind, title, and the rows of `frames` in any order identify a picture."""
    from bellwether.figures.canvas import png

    key = hashlib.sha256(repr((kind, title, [(frame.schema, frame.height) for frame in frames])).encode())
    for frame in frames:
        key.update(frame.hash_rows().sort().to_numpy().tobytes())
    cached = _cache.pop(key.digest(), None)
    _cache[key.digest()] = picture = png(draw()) if cached is None else cached
    while len(_cache) > MAX_CACHED:
        _cache.popitem(last=False)
    return picture
