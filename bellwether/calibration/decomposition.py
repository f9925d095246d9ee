"""Decompositions of the Brier score: each says where the score comes from, and adds up to it exactly.

Murphy (J. Appl. Meteorol. 12, 1973) over the ten bins, with the within-bin terms that make it exact (Stephenson, Coelho & Jolliffe,
Weather and Forecasting 23, 2008):

    brier = reliability - resolution + uncertainty + within-bin variance - within-bin covariance

Yates' covariance decomposition (Organizational Behavior and Human Performance 30, 1982):

    brier = uncertainty + bias^2 + min variance + excess variance - 2 covariance

CORP (Dimitriadis, Gneiting & Jordan, PNAS 118, 2021), with the forecasts' own isotonic recalibration in place of bins:

    brier = miscalibration - discrimination + uncertainty

Uncertainty is the variance of the outcomes in all three. With outcomes of one class it is 0, and so is all that tells classes apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from bellwether.calibration.forecasts import Floats, Forecasts
from bellwether.calibration.isotonic import explained
from bellwether.calibration.ordered import Ordered
from bellwether.calibration.sufficient import Sums, ratio, total


@dataclass(frozen=True, slots=True)
class Murphy:
    """`brier = reliability - resolution + uncertainty + within_bin_variance - within_bin_covariance`; all None without a forecast."""

    brier: float | None
    reliability: float | None
    reliability_debiased: float | None
    resolution: float | None
    resolution_debiased: float | None
    uncertainty: float | None
    within_bin_variance: float | None
    within_bin_covariance: float | None


@dataclass(frozen=True, slots=True)
class Yates:
    """`brier = uncertainty + bias_squared + min_variance + excess_variance - 2 covariance`; all None without a forecast."""

    brier: float | None
    uncertainty: float | None
    bias_squared: float | None
    min_variance: float | None
    excess_variance: float | None
    covariance: float | None


@dataclass(frozen=True, slots=True)
class Corp:
    """`brier = miscalibration - discrimination + uncertainty`; all None without a forecast."""

    brier: float | None
    miscalibration: float | None
    discrimination: float | None
    uncertainty: float | None


def murphy(p: ArrayLike, y: ArrayLike) -> Murphy:
    """Murphy's decomposition of forecasts `p` of yes on outcomes `y` over the ten bins. Raises `ScoringError` for what cannot be scored."""
    sums = total(Forecasts.of(p, y))
    return Murphy(**_fields(Murphy, "murphy", sums, murphy_terms(sums)))


def yates(p: ArrayLike, y: ArrayLike) -> Yates:
    """Yates' covariance decomposition of forecasts `p` of yes on outcomes `y`. Raises `ScoringError` for what cannot be scored."""
    sums = total(Forecasts.of(p, y))
    return Yates(**_fields(Yates, "yates", sums, yates_terms(sums)))


def corp(p: ArrayLike, y: ArrayLike) -> Corp:
    """CORP decomposition of forecasts `p` of yes on outcomes `y`. Raises `ScoringError` for what cannot be scored."""
    forecasts = Forecasts.of(p, y)
    sums = total(forecasts)
    return Corp(**_fields(Corp, "corp", sums, corp_terms(sums, explained(*Ordered.of(forecasts).tally()))))


def decompose(sums: Sums, isotonic: Floats) -> dict[str, Floats]:
    """Every term by the name of its metric, from sums of shape (..., WIDTH) and what `isotonic.explained` gives of the same forecasts."""
    return {"uncertainty": uncertainty(sums), **murphy_terms(sums), **corp_terms(sums, isotonic), **yates_terms(sums)}


def uncertainty(sums: Sums) -> Floats:
    """b (1 - b), b being the base rate."""
    base_rate = ratio(sums["yes"], sums["n"])
    return base_rate * (1 - base_rate)


def murphy_terms(sums: Sums) -> dict[str, Floats]:
    """Murphy's terms by metric, reliability and resolution also less their bias (Ferro & Fricker, Q. J. R. Meteorol. Soc. 138, 2012)."""
    n, count = sums["n"], sums["bin_n"]
    forecast, yes = (_per_forecast(sums[name], count) for name in ("bin_p", "bin_yes"))
    base_rate = ratio(sums["yes"], n)
    gap, apart = np.square(forecast - yes), np.square(yes - base_rate[..., None])
    shared = np.where(count > 1, count, 0.0)  # one forecast alone says nothing of its noise
    noise = np.divide(yes * (1 - yes), count - 1, out=np.zeros(gap.shape), where=count > 1)
    debiased = [np.where(shared.any(axis=-1), ratio((shared * (term - noise)).sum(axis=-1), n), np.nan) for term in (gap, apart)]
    of_base_rate = ratio(base_rate * (1 - base_rate), n - 1)
    return {
        "murphy_reliability": ratio((count * gap).sum(axis=-1), n),
        "murphy_reliability_debiased": debiased[0],
        "murphy_resolution": ratio((count * apart).sum(axis=-1), n),
        "murphy_resolution_debiased": debiased[1] + of_base_rate,
        "within_bin_variance": _not_below_zero(ratio(sums["p_squared"] - (count * np.square(forecast)).sum(axis=-1), n)),
        "within_bin_covariance": 2 * ratio(sums["p_yes"] - (count * forecast * yes).sum(axis=-1), n),
    }


def yates_terms(sums: Sums) -> dict[str, Floats]:
    """Yates' terms by metric."""
    n, yes = sums["n"], sums["yes"]
    mean, base_rate = ratio(sums["p"], n), ratio(yes, n)
    covariance = ratio(sums["p_yes"], n) - mean * base_rate
    variance = ratio(sums["p_squared"], n) - np.square(mean)
    # slope^2 b (1 - b), where slope = covariance / (b (1 - b)); without both outcomes the forecasts need not vary
    least = np.where(n > 0, np.nan_to_num(ratio(np.square(covariance), base_rate * (1 - base_rate))), np.nan)
    return {
        "yates_bias_squared": np.square(mean - base_rate),
        "yates_min_variance": least,
        "yates_excess_variance": _not_below_zero(variance - least),
        "yates_covariance": covariance,
    }


def corp_terms(sums: Sums, isotonic: Floats) -> dict[str, Floats]:
    """CORP's terms by metric; `isotonic` is the sum of squares of the isotonic recalibration, which has the Brier score (yes - isotonic) / n."""
    n, yes = sums["n"], sums["yes"]
    return {
        "corp_miscalibration": _not_below_zero(ratio(sums["squared_error"] - yes + isotonic, n)),
        "corp_discrimination": _not_below_zero(ratio(isotonic, n) - np.square(ratio(yes, n))),
    }


def _per_forecast(bin_sum: Floats, count: Floats) -> Floats:
    """Mean of each bin, 0 in an empty one, which counts nothing."""
    return np.divide(bin_sum, count, out=np.zeros(bin_sum.shape), where=count > 0)


def _not_below_zero(value: Floats) -> Floats:
    """A term that is at least 0 by its definition, without the rounding error below."""
    return np.maximum(value, 0.0)


def _fields(kind: type, prefix: str, sums: Sums, terms: Mapping[str, Floats]) -> dict[str, float | None]:
    """The terms under the names of the fields of `kind`, None where undefined."""
    known = {"brier": ratio(sums["squared_error"], sums["n"]), "uncertainty": uncertainty(sums), **terms}
    values = {field.name: float(known.get(field.name, known.get(f"{prefix}_{field.name}", np.nan))) for field in fields(kind)}
    return {name: None if np.isnan(value) else value for name, value in values.items()}
