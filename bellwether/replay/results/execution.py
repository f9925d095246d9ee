"""Metrics of orders and fills from exact integers: lots, prices in $0.0001, micro-dollars; one entry per order or fill."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bellwether.replay.units import BUY
from bellwether.units import Lots, MicroDollars


class Slippage(NamedTuple):
    """Slippage of fills.

    micros: micro-dollars paid beyond the mid price, negative for better prices. lots: total size of the fills with a mid price.
    """

    micros: MicroDollars
    lots: Lots


def fill_ratio(requested: np.ndarray, filled: np.ndarray) -> float | None:
    """Return lots filled over lots requested; null if nothing was requested.

    Both are int64 (n,), with one entry per accepted order, filled or not.
    """
    asked = int(requested.sum())
    return int(filled.sum()) / asked if asked else None


def fill_ratio_pmb(requested: np.ndarray, taken: np.ndarray, maker_orders: np.ndarray, maker_lots: np.ndarray) -> float:
    """Compute the fill ratio as PredictionMarketBench does (rules `pmb-2026-01`); 1 if nothing was requested.

    requested, taken: int64 (n,), lots of every order that were requested and filled as taker. maker_orders, maker_lots: int64 (m,), order
    and lots of every maker fill. An order with a taker fill adds its request; each maker fill adds its order's whole request again; other
    orders add nothing.
    """
    asked = int(requested[taken > 0].sum()) + int(requested[maker_orders].sum())
    return (int(taken.sum()) + int(maker_lots.sum())) / asked if asked else 1.0


def slippage(action: np.ndarray, price: np.ndarray, lots: np.ndarray, mid2: np.ndarray) -> Slippage:
    """Compute the total cost of taker fills relative to the mid price at order arrival, without fees. Arguments: int64 (m,), one entry per fill.

    price: of the order's side. mid2: best bid plus best ask of that side, $0.0001; fills with -1 (an empty side) count in neither number.
    """
    known = mid2 >= 0
    signed = np.where(action == BUY, 1, -1) * (2 * price - mid2) * lots
    return Slippage(MicroDollars(int(signed[known].sum()) // 2), Lots(int(lots[known].sum())))


def notional(price: np.ndarray, lots: np.ndarray) -> MicroDollars:
    """Return the sum of price times size over all fills, purchases and sales, in micro-dollars."""
    return MicroDollars(int((price * lots).sum()))


def weighted_mean(values: np.ndarray, weights: np.ndarray) -> float | None:
    """Return the mean of int64 values by non-negative int64 weights, from exact sums; null if all weights are 0."""
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
