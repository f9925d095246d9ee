"""Bands and curves of the reliability diagrams of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import polars as pl

from bellwether.calibration.consistency import bands_and_curve
from bellwether.scoring.sheet import scored

if TYPE_CHECKING:
    from bellwether.scoring.result import Progress, ScoreTables

_DRAWN: WeakKeyDictionary[ScoreTables, tuple[pl.DataFrame, pl.DataFrame]] = WeakKeyDictionary()


def bands_and_curves(result: ScoreTables, progress: Progress | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Consistency bands of the bins (forecaster, bin, lower, upper) and CORP curves (forecaster, forecast, n, recalibrated, lower, upper).

    Drawn once for a result: the figures and the page show the same.
    """
    if result not in _DRAWN:
        _DRAWN[result] = _drawn(result, progress or (lambda done, of, what: None))
    return _DRAWN[result]


def _drawn(result: ScoreTables, tell: Progress) -> tuple[pl.DataFrame, pl.DataFrame]:
    bands, curves = [], []
    for done, name in enumerate(result.forecasters):
        tell(done, len(result.forecasters), f"consistency bands of {name}")
        forecasts, clusters = scored(result.forecasts.filter(pl.col("forecaster") == name))
        bins, curve = bands_and_curve(forecasts, clusters, result.bins, level=result.plan.level, seed=result.plan.seed)
        forecaster = pl.lit(name).alias("forecaster")
        bands.append(bins.select(forecaster, "bin", "lower", "upper").drop_nulls())
        curves.append(curve.select(forecaster, pl.all()))
    tell(len(result.forecasters), len(result.forecasters), "")
    return pl.concat(bands), pl.concat(curves)
