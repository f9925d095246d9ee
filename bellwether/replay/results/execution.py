"""Metrics of orders and fills, computed from exact integers. Arrays have one entry per order or fill."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bellwether.replay.units import BUY
from bellwether.units import Lots, MicroDollars


class Slippage(NamedTuple):
    """Total cost of fills relative to the mid price. micros: micro-dollars paid beyond the mid price; negative for better prices. lots:
    total size of the fills that have a mid price.
    """

    micros: MicroDollars
    lots: Lots


def fill_ratio(requested: np.ndarray, filled: np.ndarray) -> float | None:
    """Return the filled lots of all accepted orders divided by their requested lots; null if nothing was requested."""
    total = int(requested.sum())
    return int(filled.sum()) / total if total else None


def slippage(action: np.ndarray, price: np.ndarray, lots: np.ndarray, mid2: np.ndarray) -> Slippage:
    """Compute the total cost of taker fills, without fees, relative to the mid price at the arrival of their orders. price: price of the
    order's side, $0.0001. mid2: best bid plus best ask of that side, $0.0001. Fills with -1 (an empty side) are left out.
    """
    has_mid = mid2 >= 0
    signed = np.where(action == BUY, 1, -1) * (2 * price - mid2) * lots
    return Slippage(MicroDollars(int(signed[has_mid].sum()) // 2), Lots(int(lots[has_mid].sum())))


def notional(price: np.ndarray, lots: np.ndarray) -> MicroDollars:
    """Return the sum of price times size over all fills, whether purchases or sales, in micro-dollars."""
    return MicroDollars(int((price * lots).sum()))


def weighted_mean(values: np.ndarray, weights: np.ndarray) -> float | None:
    """Return the mean of int64 values weighted by non-negative int64 weights, from exact sums; null if all weights are 0."""
    total = int(weights.sum())
    if not total:
        return None
    if int(np.abs(values).max()) * total < 2**63:
        return int(values @ weights) / total
    return sum(value * weight for value, weight in zip(values.tolist(), weights.tolist(), strict=True)) / total


def mean(values: np.ndarray) -> float | None:
    """Return the mean of int64 values from their exact sum; null if empty."""
    return int(values.sum()) / len(values) if len(values) else None


def median(values: np.ndarray) -> float | None:
    """Return the median of int64 values; null if empty."""
    return float(np.median(values)) if len(values) else None
