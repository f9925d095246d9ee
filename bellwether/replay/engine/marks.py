"""Unrealised P&L of a market's positions, computed outside of compiled code."""

from __future__ import annotations

from collections.abc import Sequence

from bellwether.replay.units import DOLLAR, NO, YES
from bellwether.units import CentiCents, Lots, MicroDollars


def unrealised_pnl(lots: Sequence[Lots], costs: Sequence[MicroDollars], bids: Sequence[CentiCents], missing: CentiCents) -> MicroDollars:
    """Return the liquidation value (bid if long, ask if short) of the lots held of YES and NO, less their cost, micro-dollars.

    bids: best bids for YES and NO, $0.0001, 0 for none. missing: price of a side without a quote, $0.0001; 0: bids at 0, asks at a dollar.
    """
    total = 0
    for side in (YES, NO):
        bid, other = bids[side], bids[1 - side]
        ask = missing if missing and not other else DOLLAR - other
        total += ((bid or missing) if lots[side] > 0 else ask) * lots[side] - costs[side]
    return MicroDollars(total)
