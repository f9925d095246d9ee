"""Reliability diagrams of a report. Pictures are cached."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import polars as pl

from bellwether.figures.statistics import calibration_overlays

#: Maximum number of cached pictures, less than 100 kB each.
MAX_CACHED = 256
_cache: OrderedDict[bytes, bytes] = OrderedDict()


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
