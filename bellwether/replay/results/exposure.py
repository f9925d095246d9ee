"""Time in market (with an open position) of a backtest, and the profit from trading and from settlement, both computed from the fills."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bellwether.replay.engine.accounts import prorate
from bellwether.replay.engine.codes import F_ACTION, F_LOTS, F_PRICE, F_SIDE, F_TICKER, F_TS
from bellwether.replay.engine.compilation import compiled, compiled_allocating
from bellwether.replay.tape.layout import SETTLE, VOID, Tape, cache_per_tape, unpack
from bellwether.replay.units import BUY, CONTRACT, DOLLAR, MICROS
from bellwether.units import MicroDollars


class Settlements(NamedTuple):
    """First settlement of each market, or void (cancellation without a result), in chronological order.

    ts: int64[n], ns UTC. ticker: int64[n], codes of the markets. value: int64[n], payout of a YES contract, micro-dollars; -1 for a void.
    """

    ts: np.ndarray
    ticker: np.ndarray
    value: np.ndarray


class Exposure(NamedTuple):
    """Time in market, and realised profit before fees. share: share of the tape's duration with an open position; null for a tape without
    duration. traded, settled: profit of positions closed by trading and by settlement, micro-dollars; their sum is the engine's realised
    profit.
    """

    share: float | None
    traded: MicroDollars
    settled: MicroDollars


@cache_per_tape
def settlements_of(tape: Tape) -> Settlements:
    """Return the settlements of a tape. They are cached with the tape."""
    return Settlements(*_settlements(tape.ts, tape.event, len(tape.tickers)))


def exposure(tape: Tape, fills: np.ndarray, *, apart: bool) -> Exposure:
    """Compute time in market and realised profit from the fills of a backtest, int64[m, F_COLS] in chronological order. apart: YES and NO
    of a market are separate positions and may be short; otherwise they are netted. Closing a part of a position removes its share of the
    cost, rounded down.
    """
    until = max(tape.end, int(tape.ts[-1])) if len(tape) else tape.end
    duration = until - tape.start
    if not len(fills):
        return Exposure(0.0 if duration > 0 else None, MicroDollars(0), MicroDollars(0))
    columns = tuple(np.ascontiguousarray(fills[:, column]) for column in (F_TS, F_TICKER, F_SIDE, F_ACTION, F_PRICE, F_LOTS))
    open_time, traded, settled = _account(columns, tuple(settlements_of(tape)), (tape.start, until), len(tape.tickers), apart)
    return Exposure(open_time / duration if duration > 0 else None, traded, settled)


@compiled_allocating
def _settlements(ts, event, tickers):  # type: ignore[no-untyped-def]
    settled = np.zeros(tickers, np.bool_)
    rows, count = np.zeros((3, tickers), np.int64), 0
    for index in range(len(ts)):
        kind, market, _side, _price, value = unpack(event[index])
        if kind in (SETTLE, VOID) and not settled[market]:
            settled[market] = True
            rows[0, count], rows[1, count], rows[2, count] = ts[index], market, value if kind == SETTLE else -1
            count += 1
    return rows[0, :count].copy(), rows[1, :count].copy(), rows[2, :count].copy()


@compiled_allocating
def _account(fills, settlements, window, tickers, apart):  # type: ignore[no-untyped-def]
    """Return the time with an open position (ns), the profit from trading and the profit from settlement. Fills precede settlements of the
    same time. window: start and end.
    """
    ts, ticker, side, action, price, lots = fills
    paid_ts, paid, value = settlements
    position, basis = np.zeros((tickers, 2), np.int64), np.zeros((tickers, 2), np.int64)
    duration, since, markets, paid_count, traded, settled = 0, window[0], 0, 0, 0, 0
    for index in range(len(ts) + 1):
        at = ts[index] if index < len(ts) else window[1]
        while paid_count < len(paid) and (paid_ts[paid_count] < at or index == len(ts)):
            market = paid[paid_count]
            duration += paid_ts[paid_count] - since if markets else 0
            since = paid_ts[paid_count]
            markets -= _is_open(position[market])
            settled += _settle(position[market], basis[market], value[paid_count])
            paid_count += 1
        duration += at - since if markets else 0
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
    return duration, traded, settled


@compiled
def _is_open(position):  # type: ignore[no-untyped-def]
    return int(position[0] != 0 or position[1] != 0)


@compiled
def _trade_net(position, basis, side, price, lots):  # type: ignore[no-untyped-def]
    """Buy lots of a side. Lots that pair with a position in the opposite side are closed at a dollar per contract. Returns the profit of
    the closed pairs.
    """
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
    """Add `signed` lots to a position, which may become short. Returns the profit of the part of the position that is closed.

    The basis of a short position is negative.
    """
    before, profit = position[side], 0
    if before * signed < 0:
        closed = min(abs(before), abs(signed))
        removed = prorate(abs(basis[side]), closed, abs(before))
        value = price * closed
        profit = value - removed if before > 0 else removed - value
        basis[side] -= removed if before > 0 else -removed
        opened = abs(signed) - closed
        basis[side] += price * (opened if signed > 0 else -opened)
    else:
        basis[side] += price * signed
    position[side] += signed
    return profit


@compiled
def _settle(position, basis, value):  # type: ignore[no-untyped-def]
    """Close the positions of a market at its settlement and return the profit. value: payout of YES, micro-dollars; -1 for a void market,
    without profit.
    """
    profit = 0
    for side in range(2):
        payout, lots = value if side == 0 else MICROS - value, position[side]
        if value >= 0:
            profit += (payout * lots // CONTRACT if lots >= 0 else -((payout * -lots + CONTRACT - 1) // CONTRACT)) - basis[side]
        position[side] = 0
        basis[side] = 0
    return profit
