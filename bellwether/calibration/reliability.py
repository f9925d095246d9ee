"""Reliability: forecast against observed frequency in ten equal-width bins, with Wilson intervals."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bellwether.calibration.binning import BINS, EDGES
from bellwether.calibration.forecasts import Floats, Forecasts
from bellwether.calibration.sufficient import total

if TYPE_CHECKING:
    import polars as pl


def reliability_bins(p: ArrayLike, y: ArrayLike) -> pl.DataFrame:
    """The reliability table of forecasts `p` of yes against outcomes `y`: ten rows, empty bins with nulls.

    Columns bin, lower_edge, upper_edge, n, mean_forecast, yes_rate, gap (mean_forecast - yes_rate), yes_rate_lower and yes_rate_upper,
    as in the table benchmark/reliability. Raises `ScoringError` for what cannot be scored.
    """
    return bins_of(Forecasts.of(p, y))


def bins_of(forecasts: Forecasts) -> pl.DataFrame:
    """`reliability_bins` of forecasts that are already validated."""
    import polars as pl

    sums = total(forecasts)
    count = sums["bin_n"]
    some = count > 0
    mean_forecast = np.divide(sums["bin_p"], count, out=np.full(BINS, np.nan), where=some)
    yes_rate = np.divide(sums["bin_yes"], count, out=np.full(BINS, np.nan), where=some)
    lower, upper = wilson(sums["bin_yes"], count)
    filled = {
        "mean_forecast": mean_forecast,
        "yes_rate": yes_rate,
        "gap": mean_forecast - yes_rate,
        "yes_rate_lower": lower,
        "yes_rate_upper": upper,
    }
    return pl.DataFrame(
        {
            "bin": np.arange(BINS, dtype=np.int32),
            "lower_edge": EDGES[:-1],
            "upper_edge": EDGES[1:],
            "n": count.astype(np.int64),
            **{name: pl.Series(values, nan_to_null=True) for name, values in filled.items()},
        }
    )


def wilson(successes: Floats, trials: Floats, level: float = 0.95) -> tuple[Floats, Floats]:
    """Wilson's score interval of a proportion (E. B. Wilson, JASA 22, 1927), NaN without a trial. It takes trials as independent."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    n = np.where(trials > 0, trials, np.nan)
    rate = successes / n
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    return np.clip(centre - half, 0, rate), np.clip(centre + half, rate, 1)
