"""Metrics of one backtest: a row of replay/backtests, from exact integers. Data frames are not imported here, because that would slow down
sweeps. See docs/metrics.md for the formulas.
"""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from bellwether.replay.agents.arguments import EPOCH
from bellwether.replay.engine import codes
from bellwether.replay.engine.codes import Reason, Role, Status
from bellwether.replay.results.markouts import NONE, markouts, payments
from bellwether.replay.rules import PMB
from bellwether.replay.tape.layout import Tape
from bellwether.replay.units import BUY, CONTRACT, MICROS, SECOND, YES, dollars
from bellwether.units import MicroDollars

if TYPE_CHECKING:
    from bellwether.replay.run_record import RunRecord

#: Seconds after a fill at which its markout is taken.
HORIZONS = (1, 5, 30, 300)
#: Nanoseconds of a year of 365.25 days: 525,960 minutes.
YEAR = 31_557_600_000_000_000


def metrics(backtest: RunRecord, *, known_at: datetime | None = None) -> dict[str, Any]:
    """Compute a row of replay/backtests: money in exact Decimal dollars, ratios as floats, undefined values null.

    Args:
        backtest: Finished run.
        known_at: Time from which the episode is known. Default: its end.
    """
    outcome, settings, end = backtest.outcome, backtest.settings, end_time(backtest)
    return {
        "episode": backtest.episode,
        "agent": backtest.agent,
        **_money_metrics(backtest),
        **_curve_metrics(backtest),
        **_execution_metrics(backtest),
        **_adverse_selection(backtest),
        **backtest.own_metrics,
        "unsettled": bool(outcome.positions.any()),
        "default_fees": backtest.default_fees,
        "failure": None if backtest.failure is None else str(backtest.failure),
        "failed_step": None if backtest.failure is None else backtest.failure.step,
        "steps": backtest.steps,
        "cadence_seconds": settings.cadence / SECOND,
        "queue_model": settings.queue,
        "parameters": backtest.parameters,
        "seed": backtest.seed,
        "settings_digest": settings.digest(),
        "episode_digest": backtest.episode_digest,
        "result_digest": backtest.digest,
        "engine_version": codes.ENGINE_VERSION,
        "settled_at": end,
        "rules": backtest.rules.name,
        "known_at": known_at or end,
    }


def end_time(backtest: RunRecord) -> datetime:
    """Return the end of the episode or the time of its last event, whichever is later, rounded down to microseconds."""
    tape = backtest.tape
    return EPOCH + timedelta(microseconds=max(tape.end, int(tape.ts[-1]) if len(tape) else 0) // 1000)


def max_drawdown(equity: np.ndarray) -> float | None:
    """Return the largest fall of an equity curve, int64, from its running peak, as a share of the peak. Null if a peak is not positive or
    the curve is empty.
    """
    peaks = np.maximum.accumulate(equity)
    return float(((peaks - equity) / peaks).max()) if len(equity) and peaks[0] > 0 else None


def sharpe(ts: np.ndarray, equity: np.ndarray, every: int) -> float | None:
    """Compute the Sharpe ratio of an equity curve: mean of simple returns divided by their standard deviation (n - 1), with a risk-free rate
    of 0. It is null for fewer than 3 points, for equal returns, and if a return starts from equity that is not positive.

    Args:
        ts: Times of the points, int64, ns UTC, ascending.
        equity: Equity at these times, int64, micro-dollars.
        every: Minimum time between points, ns: a point that follows the last used one more closely is left out.
    """
    used: list[int] = []
    for place, at in enumerate(ts.tolist()):
        if not used or at - ts[used[-1]] >= every:
            used.append(place)
    points = equity[used]
    if len(points) < 3 or (points[:-1] <= 0).any():
        return None
    returns = np.diff(points) / points[:-1]
    if (returns == returns[0]).all():
        return None
    # Sequential sums are bitwise equal on every machine.
    mean = np.cumsum(returns)[-1] / len(returns)
    return float(mean / math.sqrt(np.cumsum((returns - mean) ** 2)[-1] / (len(returns) - 1)))


def time_in_market(tape: Tape, fills: np.ndarray, *, apart: bool = False) -> float | None:
    """Compute the share of a tape's duration in which a position of any market is open; null for a tape without duration.

    Args:
        tape: Tape of the fills.
        fills: Fills of the engine, records `codes.FILL`, in chronological order.
        apart: YES and NO of a market are separate positions, not netted.
    """
    until = max(tape.end, int(tape.ts[-1])) if len(tape) else tape.end
    if until <= tape.start:
        return None
    market, side, ts = fills["market"], fills["side"], fills["ts"]
    bought = np.where(fills["action"] == BUY, 1, -1) * fills["lots"]
    change, keys = (bought, 2 * market + side) if apart else (np.where(side == YES, bought, -bought), 2 * market)
    paid = payments(tape)
    begins, ends = [], []
    for key in np.unique(keys).tolist():
        own = keys == key
        start, position = ts[own], np.cumsum(change[own])
        end = np.append(start[1:], until)
        before = np.searchsorted(start, paid[key // 2], side="right")  # fills of the settlement's instant precede it
        if before:
            position[before:] -= position[before - 1]
            end[before - 1] = min(end[before - 1], paid[key // 2])
        begins.append(start[position != 0])
        ends.append(end[position != 0])
    if not begins:
        return 0.0
    times = np.concatenate([*begins, *ends])
    steps = np.repeat([1, -1], len(times) // 2)
    order = np.argsort(times, kind="stable")
    held = np.cumsum(steps[order])[:-1] > 0
    return int(np.diff(times[order])[held].sum()) / (until - tape.start)


def _money_metrics(backtest: RunRecord) -> dict[str, Any]:
    outcome, bankroll = backtest.outcome, backtest.bankroll
    pnl = outcome.pnl
    return {
        "bankroll": dollars(bankroll),
        "final_equity": dollars(outcome.equity),
        "pnl": dollars(pnl),
        **_queue_metrics(backtest),
        "realised": dollars(outcome.realised),
        "settlement_pnl": dollars(MicroDollars(int(outcome.settled.sum()))),
        "fees": dollars(outcome.fees),
        "return": pnl / bankroll if bankroll > 0 else None,
        "time_in_market": time_in_market(backtest.tape, outcome.fills, apart=backtest.rules.name == PMB),
    }


def _queue_metrics(backtest: RunRecord) -> dict[str, Any]:
    spread, names = backtest.queue_spread, ("median", "low", "high")
    return {
        "queues": len(backtest.queues),
        "queue_pnls": [dollars(pnl) for pnl in backtest.queues],
        **{f"queue_pnl_{name}": None if spread is None else dollars(getattr(spread, name)) for name in names},
        "queue_profitable": None if spread is None else spread.profitable,
    }


def _curve_metrics(backtest: RunRecord) -> dict[str, Any]:
    samples, every = backtest.outcome.samples, backtest.settings.sample_every
    # The curve begins with the bankroll.
    ts = np.append(backtest.tape.start, samples["ts"])
    equity = np.append(backtest.bankroll, samples["equity"])
    ratio = sharpe(ts, equity, every)
    return {
        "max_drawdown": max_drawdown(equity),
        "sharpe": ratio,
        "sharpe_annualised": None if ratio is None else ratio * math.sqrt(YEAR / every),
        "sample_seconds": every / SECOND,
    }


def _execution_metrics(backtest: RunRecord) -> dict[str, Any]:
    orders, fills, bankroll = backtest.outcome.orders, backtest.outcome.fills, backtest.bankroll
    lots, maker = fills["lots"], fills["role"] == Role.MAKER
    rejected = count_rejections(orders, backtest.outcome.refused)
    status = orders["status"]
    accepted = orders[(status != Status.REJECTED) & (status != Status.PENDING)]
    ordered, total, waits = int(accepted["count"].sum()), int(lots.sum()), fills["wait"][maker]
    return {
        **_slippage(orders, fills[~maker]),
        "fill_ratio": int(accepted["filled"].sum()) / ordered if ordered else None,
        "contracts": Decimal(total) / CONTRACT,
        "orders": len(orders) + backtest.outcome.refused,
        "rejected": sum(rejected.values()),
        "rejections": json.dumps(rejected),
        "fills": len(fills),
        "turnover": int((fills["price"] * lots).sum()) / bankroll if bankroll > 0 else None,
        "maker_share": int(lots[maker].sum()) / total if total else None,
        "queue_wait_median": float(np.median(waits)) / SECOND if len(waits) else None,
        "queue_wait_mean": int(waits.sum()) / len(waits) / SECOND if len(waits) else None,
    }


def count_rejections(orders: np.ndarray, refused: int = 0) -> dict[str, int]:
    """Return the number of rejected orders by reason, the most frequent first. refused: number of orders beyond `max_orders`, which are not
    in `orders`.
    """
    reasons = orders["reason"][orders["status"] == Status.REJECTED]
    counts = np.bincount(reasons, minlength=len(Reason))
    counts[Reason.ORDER_LIMIT] += refused
    by_reason = {Reason(reason).name.lower(): count for reason, count in enumerate(counts.tolist()) if count}
    return dict(sorted(by_reason.items(), key=lambda item: (-item[1], item[0])))


def _slippage(orders: np.ndarray, fills: np.ndarray) -> dict[str, Any]:
    """Return the cost of taker fills beyond the mid price at the arrival of their orders, without fees. Fills without a mid price are left out."""
    mid2 = orders["mid2"][fills["order"]]  # best bid plus best ask of the order's side
    sign, lots = np.where(fills["action"] == BUY, 1, -1), fills["lots"]
    total = int(lots[mid2 >= 0].sum())
    if not total:
        return {"slippage": None, "slippage_per_contract": None}
    cost = MicroDollars(int((sign * (2 * fills["price"] - mid2) * lots)[mid2 >= 0].sum()) // 2)
    return {"slippage": dollars(cost), "slippage_per_contract": cost * CONTRACT / (total * MICROS)}


def _adverse_selection(backtest: RunRecord) -> dict[str, float | None]:
    fills = backtest.outcome.fills
    made = fills[fills["role"] == Role.MAKER]
    means: dict[int, float | None] = dict.fromkeys(HORIZONS)
    if len(made):  # else the tape is not indexed
        values, lots = markouts(backtest.tape, made, HORIZONS), made["lots"]
        for seconds, column in zip(HORIZONS, values.T, strict=True):
            means[seconds] = _mean_markout(column[column != NONE], lots[column != NONE])
    return {f"adverse_selection_{seconds}s": mean for seconds, mean in means.items()}


def _mean_markout(values: np.ndarray, lots: np.ndarray) -> float | None:
    """Return the mean markout weighted by lots, from exact sums, in dollars per contract; null without any."""
    total = int(lots.sum())
    if not total:
        return None
    fits = int(np.abs(values).max()) * total < 2**63
    cost = int(values @ lots) if fits else sum(value * weight for value, weight in zip(values.tolist(), lots.tolist(), strict=True))
    return cost / total / MICROS
