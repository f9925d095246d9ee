"""Time in market of a backtest, and its profit from trading and from settlement, computed from its fills."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bellwether.replay.engine.accounts import prorate
from bellwether.replay.engine.codes import F_ACTION, F_LOTS, F_PRICE, F_SIDE, F_TICKER, F_TS
from bellwether.replay.engine.compilation import compiled, compiled_allocating
from bellwether.replay.tape.layout import SETTLE, VOID, Tape, cache_per_tape, unpack
from bellwether.replay.units import BUY, DOLLAR, MICROS
from bellwether.units import MicroDollars

#: Lots per contract.
_LOTS = 100


class Settlements(NamedTuple):
    """First settlement or void of each market, in chronological order.

    Arrays int64 (k,): time in ns, market, and payout of a YES contract in micro-dollars, -1 if the market was voided.
    """

    ts: np.ndarray
    ticker: np.ndarray
    value: np.ndarray


class Exposure(NamedTuple):
    """Time in market and profit.

    share: fraction of the time from the tape's start to its end with an open position; null for a tape without duration.
    traded, settled: micro-dollars, realised profit before fees of positions closed by trading and by settlement; their sum is the engine's
    realised profit.
    """

    share: float | None
    traded: MicroDollars
    settled: MicroDollars


@cache_per_tape
def settlements_of(tape: Tape) -> Settlements:
    """Return the settlements of a tape, cached after the first call."""
    return Settlements(*_settlements(tape.ts, tape.event, len(tape.tickers)))


def exposure(tape: Tape, fills: np.ndarray, *, apart: bool) -> Exposure:
    """Compute time in market and realised profit from one backtest's fills, int64 (m, F_COLS) in chronological order.

    apart: YES and NO of a market are separate positions and may be short; otherwise they are netted. Cost bases are
    averages; closing a part removes its share of the basis, rounded down.
    """
    until = max(tape.end, int(tape.ts[-1])) if len(tape) else tape.end
    duration = until - tape.start
    if not len(fills):
        return Exposure(0.0 if duration > 0 else None, MicroDollars(0), MicroDollars(0))
    columns = tuple(np.ascontiguousarray(fills[:, column]) for column in (F_TS, F_TICKER, F_SIDE, F_ACTION, F_PRICE, F_LOTS))
    held, traded, settled = _account(columns, tuple(settlements_of(tape)), (tape.start, until), len(tape.tickers), apart)
    return Exposure(held / duration if duration > 0 else None, traded, settled)


@compiled_allocating
def _settlements(ts, event, tickers):  # type: ignore[no-untyped-def]
    done = np.zeros(tickers, np.bool_)
    found, count = np.zeros((3, tickers), np.int64), 0
    for index in range(len(ts)):
        kind, market, _side, _price, value = unpack(event[index])
        if kind in (SETTLE, VOID) and not done[market]:
            done[market] = True
            found[0, count], found[1, count], found[2, count] = ts[index], market, value if kind == SETTLE else -1
            count += 1
    return found[0, :count].copy(), found[1, :count].copy(), found[2, :count].copy()


@compiled_allocating
def _account(fills, settlements, window, tickers, apart):  # type: ignore[no-untyped-def]
    """Return (ns with a position, profit by trading, profit by settlement); fills at the instant of a settlement precede it."""
    ts, ticker, side, action, price, lots = fills
    paid_ts, paid, value = settlements
    position, basis = np.zeros((tickers, 2), np.int64), np.zeros((tickers, 2), np.int64)
    held, since, markets, done, traded, settled = 0, window[0], 0, 0, 0, 0
    for index in range(len(ts) + 1):
        at = ts[index] if index < len(ts) else window[1]
        while done < len(paid) and (paid_ts[done] < at or index == len(ts)):
            market = paid[done]
            held += paid_ts[done] - since if markets else 0
            since = paid_ts[done]
            markets -= _is_open(position[market])
            settled += _settle(position[market], basis[market], value[done])
            done += 1
        held += at - since if markets else 0
        since = at
        if index == len(ts):
            break
        own, cost = position[ticker[index]], basis[ticker[index]]
        markets -= _is_open(own)
        if apart:
            signed = lots[index] if action[index] == BUY else -lots[index]
            traded += _trade_apart(own, cost, side[index], price[index], signed)
        elif action[index] == BUY:
            traded += _trade_net(own, cost, side[index], price[index], lots[index])
        else:
            traded += _trade_net(own, cost, 1 - side[index], DOLLAR - price[index], lots[index])
        markets += _is_open(own)
    return held, traded, settled


@compiled
def _is_open(position):  # type: ignore[no-untyped-def]
    return int(position[0] != 0 or position[1] != 0)


@compiled
def _trade_net(position, basis, side, price, lots):  # type: ignore[no-untyped-def]
    """Buy `lots` of `side`, netting those held of the other side at a dollar per contract. Returns the profit of the netted holding."""
    other = 1 - side
    both, profit = min(position[other], lots), 0
    if both > 0:
        removed = prorate(basis[other], both, position[other])
        profit = (DOLLAR - price) * both - removed
        position[other] -= both
        basis[other] -= removed
    position[side] += lots - both
    basis[side] += price * (lots - both)
    return profit


@compiled
def _trade_apart(position, basis, side, price, signed):  # type: ignore[no-untyped-def]
    """Buy, or sell if `signed` is negative. The part beyond the position opens an opposite one; the basis of a short is negative."""
    held, profit = position[side], 0
    if held * signed < 0:
        closed = min(abs(held), abs(signed))
        removed = prorate(abs(basis[side]), closed, abs(held))
        value = price * closed
        profit = value - removed if held > 0 else removed - value
        basis[side] -= removed if held > 0 else -removed
        left = abs(signed) - closed
        basis[side] += price * (left if signed > 0 else -left)
    else:
        basis[side] += price * signed
    position[side] += signed
    return profit


@compiled
def _settle(position, basis, value):  # type: ignore[no-untyped-def]
    profit = 0
    for side in range(2):
        each, lots = value if side == 0 else MICROS - value, position[side]
        if value >= 0:
            profit += (each * lots // _LOTS if lots >= 0 else -((each * -lots + _LOTS - 1) // _LOTS)) - basis[side]
        position[side] = 0
        basis[side] = 0
    return profit
