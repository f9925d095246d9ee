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
    """Yield the figure that compares all forecasters."""
    from bellwether.figures import intervals

    caption = "Brier scores with 95 % intervals over clusters; letters are significance groups."
    yield Figure.of("scores", caption, intervals.score_comparison, inputs.leaderboard)


def forecaster_figures(inputs: ReportInputs, forecaster: str, file: str) -> Iterator[Figure]:
    """Yield the figure of one forecaster. file: the forecaster's name in file names."""
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


def reliability_picture(bins: pl.DataFrame, forecasts: pl.DataFrame, questions: pl.DataFrame, title: str) -> bytes:
    """Draw the reliability diagram of one forecaster as a PNG, with consistency band and CORP curve, or return the cached one.

    bins: rows of benchmark/reliability. The title and the rows of the frames, in any order, identify a picture.
    """
    from bellwether.figures.canvas import png
    from bellwether.figures.reliability import reliability_diagram

    frames = (bins, forecasts, questions)
    key = hashlib.sha256(repr((title, [(frame.schema, frame.height) for frame in frames])).encode())
    for frame in frames:
        key.update(frame.hash_rows().sort().to_numpy().tobytes())
    picture = _cache.pop(key.digest(), None)
    if picture is None:
        bands, curves = calibration_overlays(forecasts, questions)
        picture = png(reliability_diagram(bins, title, bands=bands, curves=curves))
    _cache[key.digest()] = picture
    while len(_cache) > MAX_CACHED:
        _cache.popitem(last=False)
    return picture
