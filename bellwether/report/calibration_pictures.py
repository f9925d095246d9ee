"""The pictures of a forecaster's calibration, which its scores and every report show: drawn once per process for the same rows."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable

import polars as pl

from bellwether.report import plots

#: Pictures that are kept; each has less than 100 kB.
MOST_KEPT = 256
_kept: OrderedDict[bytes, bytes] = OrderedDict()


def reliability_picture(bins: pl.DataFrame, forecasts: pl.DataFrame, questions: pl.DataFrame, title: str) -> bytes:
    """The reliability diagram with its overlays as a PNG, from rows of benchmark/reliability, benchmark/forecasts and benchmark/questions."""

    def draw() -> bytes:
        bands, curves = plots.calibration_overlays(forecasts, questions)
        return plots.reliability_diagram(bins, title, bands=bands, curves=curves)

    return _once(draw, "reliability", title, bins, forecasts, questions)


def confidence_picture(forecasts: pl.DataFrame, questions: pl.DataFrame, title: str) -> bytes:
    """How often the forecaster was right at each confidence as a PNG, from rows of benchmark/forecasts and benchmark/questions."""
    return _once(lambda: plots.confidence_histograms(forecasts, questions, title), "confidence", title, forecasts, questions)


def _once(draw: Callable[[], bytes], kind: str, title: str, *frames: pl.DataFrame) -> bytes:
    """What `draw` makes; it is called for the first of equal titles and rows only. No picture depends on the order of the rows."""
    key = hashlib.sha256(repr((kind, title, [(frame.schema, frame.height) for frame in frames])).encode())
    for frame in frames:
        key.update(frame.hash_rows().sort().to_numpy().tobytes())
    found = _kept.pop(key.digest(), None)
    _kept[key.digest()] = picture = draw() if found is None else found
    while len(_kept) > MOST_KEPT:
        _kept.popitem(last=False)
    return picture
