"""What forecasts add to the market's price at the time of the forecast.

The encompassing test regresses the outcome on the logits of price and forecast (Fair and Shiller, American Economic Review 80, 1990, with a logistic
link): with a coefficient of 0, the price contains all that the forecast knows. The pool w p + (1 - w) q of forecast and price has its least Brier
score at w = sum (p - q)(y - q) / sum (p - q)^2, and then scores mean (p - q)^2 w^2 less than the price. Paper bets buy one contract of the side
that the forecast values above its cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bellwether.calibration.forecasts import Bools, Floats, Forecasts

#: Distance from 0 and 1 to which price and forecast are clipped before their logits.
LOGIT_CLIP = 0.01
#: Reason of missing values for forecasts that copy the price.
COPIES = "the forecasts equal the market's prices"
#: Maximum difference of a copy from the price.
_EQUAL = 1e-9
_STEPS, _CONVERGED, _SEPARATED = 50, 1e-10, 30.0

#: Numerator and denominator of each forecast, (N,) each.
Ratio = tuple[Floats | Bools, Floats | Bools]


@dataclass(frozen=True, slots=True, eq=False)
class AddedValue:
    """Terms of N forecasts with prices, from which ratios of weighted sums follow. Create it with `AddedValue.of`.

    priced: bool (N,), whether there is a price. gap: forecast minus price, 0 without one. score, curvature: of the regression, direction in which an
    outcome changes the coefficient, and its second derivative; zeros without a fit. slope, fitted: coefficient of the forecast's logit, and the
    fitted probability.
    """

    forecasts: Forecasts
    priced: Bools
    gap: Floats
    score: Floats
    curvature: Floats
    slope: float
    fitted: Floats

    @classmethod
    def of(cls, forecasts: Forecasts) -> AddedValue:
        """Compute the terms."""
        priced = ~np.isnan(forecasts.market)
        gap = np.where(priced, forecasts.p - forecasts.market, 0.0)
        gap = np.where(np.abs(gap) > _EQUAL, gap, 0.0)
        return cls(forecasts, priced, gap, *_regress(forecasts, priced, gap))

    @property
    def reason(self) -> str | None:
        """Reason why no value exists although there are prices; None without such a reason."""
        return COPIES if self.priced.any() and not self.gap.any() else None

    def terms(self, y: Floats) -> dict[str, Ratio]:
        """Return the terms of each metric. y: outcomes, float64 (N,), those of the forecasts or possible other ones."""
        error = np.where(self.priced, y - self.forecasts.market, 0.0)
        return {
            "encompassing": (self.score * (y - self.fitted) + self.slope * self.curvature, self.curvature),
            "pool_weight": (self.gap * error, np.square(self.gap)),
            "paper_return": bet(self.forecasts, y),
        }

    def gain(self, pool_weight: float) -> float:
        """Return the reduction of the price's Brier score by the best pool with a weight of the forecast between 0 and 1; NaN for a weight of NaN.

        pool_weight: the best weight without these bounds.
        """
        if not pool_weight > 0:
            return float("nan") if np.isnan(pool_weight) else 0.0
        weight, bounded = self.forecasts.weight, min(pool_weight, 1.0)
        return math.fsum(weight * np.square(self.gap)) / math.fsum(weight[self.priced]) * bounded * (2 * pool_weight - bounded)


def bet(forecasts: Forecasts, y: Floats) -> tuple[Floats, Floats]:
    """Return profit and cost in dollars of one contract per forecast, float64 (N,) each: of yes if the forecast is above the cost of buying it, of
    no if it is below the proceeds of selling yes; 0 and 0 without a bet.
    """
    with np.errstate(invalid="ignore"):
        buys, sells = forecasts.p > forecasts.buy, forecasts.p < forecasts.sell
    profit = np.where(buys, y - forecasts.buy, np.where(sells, forecasts.sell - y, 0.0))
    return profit, np.where(buys, forecasts.buy, np.where(sells, 1 - forecasts.sell, 0.0))


def _regress(forecasts: Forecasts, priced: Bools, gap: Floats) -> tuple[Floats, Floats, float, Floats]:
    """Fit the outcome to a constant and the logits of price and forecast by Newton's method.

    Returns score, curvature, slope and fitted of `AddedValue`, zeros if the coefficient does not exist. The forecast's logit is taken as its residual on the constant and the price's, so
    that slope = sum (score (y - fitted) + slope curvature) / sum curvature.
    """
    size = len(gap)
    nothing = np.zeros(size), np.zeros(size), 0.0, np.zeros(size)
    if not gap.any():
        return nothing
    rows = np.flatnonzero(priced)
    # In a fixed order, so that the rounding of sums does not depend on that of the forecasts.
    rows = rows[np.lexsort([column[rows] for column in (forecasts.weight, forecasts.y, forecasts.p, forecasts.market)])]
    design = np.stack([np.ones(len(rows)), _logit(forecasts.market[rows]), _logit(forecasts.p[rows])], axis=1)
    y, weight, beta = forecasts.y[rows], forecasts.weight[rows], np.zeros(3)
    for _ in range(_STEPS):
        fitted = 1 / (1 + np.exp(-(design * beta).sum(axis=1)))
        spread = weight * fitted * (1 - fitted)
        information = np.einsum("ni,n,nj->ij", design, spread, design)
        try:
            step = np.linalg.solve(information, (design * (weight * (y - fitted))[:, None]).sum(axis=0))
        except np.linalg.LinAlgError:
            return nothing
        beta = beta + step
        if not np.isfinite(beta).all() or np.abs(beta).max() > _SEPARATED:
            return nothing
        if np.abs(step).max() < _CONVERGED:
            break
    else:
        return nothing
    fitted = 1 / (1 + np.exp(-(design * beta).sum(axis=1)))
    spread = fitted * (1 - fitted)
    price = design[:, :2]
    projection = np.linalg.solve(
        np.einsum("ni,n,nj->ij", price, weight * spread, price), (price * (weight * spread * design[:, 2])[:, None]).sum(axis=0)
    )
    residual = design[:, 2] - (price * projection).sum(axis=1)
    score, curvature, everywhere = np.zeros(size), np.zeros(size), np.zeros(size)
    score[rows], curvature[rows], everywhere[rows] = residual, spread * np.square(residual), fitted
    return score, curvature, float(beta[2]), everywhere


def _logit(p: Floats) -> Floats:
    clipped = np.clip(p, LOGIT_CLIP, 1 - LOGIT_CLIP)
    return np.log(clipped / (1 - clipped))
