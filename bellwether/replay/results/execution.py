"""Metrics of orders and fills, exact integers in: lots, prices in $0.0001, micro-dollars; one entry per order or per fill."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bellwether.replay.units import BUY
from bellwether.units import Lots, MicroDollars


class Slippage(NamedTuple):
    """micros: paid beyond the middle of the book, micro-dollars, negative when better than it. lots: of the fills that had a middle."""

    micros: MicroDollars
    lots: Lots


def fill_ratio(requested: np.ndarray, filled: np.ndarray) -> float | None:
    """Lots filled over lots requested, int64 (n,) each, one entry per accepted order, filled or not; null when nothing was requested."""
    asked = int(requested.sum())
    return int(filled.sum()) / asked if asked else None


def fill_ratio_pmb(requested: np.ndarray, taken: np.ndarray, maker_orders: np.ndarray, maker_lots: np.ndarray) -> float:
    """The fill ratio as PredictionMarketBench counts it (rules `pmb-2026-01`); 1 when nothing was requested.

    requested, taken: int64 (n,), lots of every order that were requested and filled as taker. maker_orders, maker_lots: int64 (m,), order and lots
    of every maker fill. An order with a taker fill adds what it requested; each maker fill adds its order's whole request again; other orders
    add nothing.
    """
    asked = int(requested[taken > 0].sum()) + int(requested[maker_orders].sum())
    return (int(taken.sum()) + int(maker_lots.sum())) / asked if asked else 1.0


def slippage(action: np.ndarray, price: np.ndarray, lots: np.ndarray, mid2: np.ndarray) -> Slippage:
    """Cost of taker fills relative to the mid price at order arrival, without fees; int64 (m,) each.

    price of the side as sent, mid2 its best bid plus best ask, $0.0001, -1 where a side was empty: such fills count in neither number.
    """
    known = mid2 >= 0
    signed = np.where(action == BUY, 1, -1) * (2 * price - mid2) * lots
    return Slippage(MicroDollars(int(signed[known].sum()) // 2), Lots(int(lots[known].sum())))


def notional(price: np.ndarray, lots: np.ndarray) -> MicroDollars:
    """Price times size over all fills, micro-dollars: a sale counts as a purchase does."""
    return MicroDollars(int((price * lots).sum()))


def weighted_mean(values: np.ndarray, weights: np.ndarray) -> float | None:
    """Mean of int64 values by int64 weights of at least 0, from exact sums; null when the weights are 0."""
    total = int(weights.sum())
    if not total:
        return None
    if int(np.abs(values).max()) * total < 2**63:
        return int(values @ weights) / total
    return sum(value * weight for value, weight in zip(values.tolist(), weights.tolist(), strict=True)) / total


def mean(values: np.ndarray) -> float | None:
    """Mean of int64 values from their exact sum; null without any."""
    return int(values.sum()) / len(values) if len(values) else None


def median(values: np.ndarray) -> float | None:
    """Median of int64 values; null without any."""
    return float(np.median(values)) if len(values) else None
