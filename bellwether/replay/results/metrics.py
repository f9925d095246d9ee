"""Metrics of one backtest: a row of replay/backtests. Data frames are not imported here, because that would slow down sweeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from bellwether.replay.engine import codes
from bellwether.replay.engine.codes import Reason, Role, Status
from bellwether.replay.results.curve import max_drawdown, sharpe
from bellwether.replay.results.execution import fill_ratio, mean, median, notional, slippage, weighted_mean
from bellwether.replay.results.exposure import exposure
from bellwether.replay.results.markouts import NONE, markouts
from bellwether.replay.units import CONTRACT, MICROS, SECOND, dollars

if TYPE_CHECKING:
    from bellwether.replay.run_record import RunRecord
    from bellwether.replay.tape import Tape

#: Seconds after a fill at which its markout is taken.
HORIZONS = (1, 5, 30, 300)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def metrics(backtest: RunRecord, *, known_at: datetime | None = None, horizons: Sequence[int] = HORIZONS) -> dict[str, Any]:
    """Compute a row of replay/backtests: money in exact Decimal dollars, ratios as floats, undefined values null. known_at: time from which
    the episode is known. Default: its end. horizons: horizons of the adverse selection, seconds; those left out are null. See
    docs/trading-metrics.md for the formulas.
    """
    outcome, settings, end = backtest.outcome, backtest.settings, end_time(backtest)
    return {
        "episode": backtest.episode,
        "agent": backtest.agent,
        **_money_metrics(backtest),
        **_curve_metrics(backtest),
        **_execution_metrics(backtest),
        **_adverse_selection(backtest, horizons),
        **backtest.own_metrics,
        "unsettled": bool(outcome.positions.any()),
        "default_fees": backtest.default_fees,
        "failure": None if backtest.failure is None else str(backtest.failure),
        "failed_step": None if backtest.failure is None else backtest.failure.step,
        "steps": backtest.steps,
        "cadence_seconds": settings.cadence / SECOND,
        "queue_model": settings.queue,
        "band": "none",
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
    return _EPOCH + timedelta(microseconds=max(tape.end, int(tape.ts[-1]) if len(tape) else 0) // 1000)


def sampled_curve(backtest: RunRecord) -> tuple[np.ndarray, np.ndarray]:
    """Return times (ns UTC) and equity (micro-dollars) of a backtest, int64[s + 1] each: the bankroll at the start, then the samples."""
    samples = backtest.outcome.samples
    return np.append(backtest.tape.start, samples[:, codes.S_TS]), np.append(backtest.bankroll, samples[:, codes.S_EQUITY])


def _money_metrics(backtest: RunRecord) -> dict[str, Any]:
    outcome, bankroll = backtest.outcome, backtest.bankroll
    profit = exposure(backtest.tape, outcome.fills, apart=backtest.rules.netting == "apart")
    pnl = outcome.pnl
    return {
        "bankroll": dollars(bankroll),
        "final_equity": dollars(outcome.equity),
        "pnl": dollars(pnl),
        "pnl_pessimistic": dollars(pnl),
        "pnl_optimistic": dollars(pnl),
        "realised": dollars(outcome.realised),
        "settlement_pnl": dollars(profit.settled),
        "fees": dollars(outcome.fees),
        "return": pnl / bankroll if bankroll > 0 else None,
        "time_in_market": profit.share,
    }


def _curve_metrics(backtest: RunRecord) -> dict[str, Any]:
    ts, equity = sampled_curve(backtest)
    every = backtest.settings.sample_every
    ratio = sharpe(ts, equity, every)
    return {
        "max_drawdown": max_drawdown(equity),
        "sharpe": ratio.ratio,
        "sharpe_annualised": ratio.annualised,
        "sample_seconds": every / SECOND,
    }


def _execution_metrics(backtest: RunRecord) -> dict[str, Any]:
    orders, fills = backtest.outcome.orders, backtest.outcome.fills
    lots, maker = fills[:, codes.F_LOTS], fills[:, codes.F_ROLE] == Role.MAKER
    rejected = count_rejections(orders, backtest.outcome.refused)
    slipped = _slippage(orders, fills[~maker])
    waits, total = fills[maker, codes.F_WAIT], int(lots.sum())
    return {
        **slipped,
        "fill_ratio": _fill_ratio(orders),
        "contracts": Decimal(total) / CONTRACT,
        "orders": len(orders) + backtest.outcome.refused,
        "rejected": sum(rejected.values()),
        "rejections": json.dumps(rejected),
        "fills": len(fills),
        "turnover": notional(fills[:, codes.F_PRICE], lots) / backtest.bankroll if backtest.bankroll > 0 else None,
        "maker_share": int(lots[maker].sum()) / total if total else None,
        "queue_wait_median": _seconds(median(waits)),
        "queue_wait_mean": _seconds(mean(waits)),
    }


def count_rejections(orders: np.ndarray, refused: int = 0) -> dict[str, int]:
    """Return the number of rejected orders by reason, the most frequent first. refused: number of orders beyond `max_orders`, which are not
    in `orders`.
    """
    reasons = orders[orders[:, codes.O_STATUS] == Status.REJECTED, codes.O_REASON]
    counts = np.bincount(reasons, minlength=len(Reason))
    counts[Reason.ORDER_LIMIT] += refused
    by_reason = {Reason(reason).name.lower(): count for reason, count in enumerate(counts.tolist()) if count}
    return dict(sorted(by_reason.items(), key=lambda item: (-item[1], item[0])))


def _fill_ratio(orders: np.ndarray) -> float | None:
    status = orders[:, codes.O_STATUS]
    accepted = (status != Status.REJECTED) & (status != Status.PENDING)
    return fill_ratio(orders[accepted, codes.O_COUNT], orders[accepted, codes.O_FILLED])


def _slippage(orders: np.ndarray, fills: np.ndarray) -> dict[str, Any]:
    mid2 = orders[fills[:, codes.F_ORDER], codes.O_MID2]
    total = slippage(fills[:, codes.F_ACTION], fills[:, codes.F_PRICE], fills[:, codes.F_LOTS], mid2)
    if not total.lots:
        return {"slippage": None, "slippage_per_contract": None}
    return {"slippage": dollars(total.micros), "slippage_per_contract": total.micros * CONTRACT / (total.lots * MICROS)}


def _adverse_selection(backtest: RunRecord, horizons: Sequence[int]) -> dict[str, float | None]:
    fills = backtest.outcome.fills
    means = _mean_markouts(backtest.tape, fills[fills[:, codes.F_ROLE] == Role.MAKER], horizons)
    by_horizon = dict(zip(horizons, means, strict=True))
    return {f"adverse_selection_{seconds}s": by_horizon.get(seconds) for seconds in dict.fromkeys((*HORIZONS, *horizons))}


def _mean_markouts(tape: Tape, fills: np.ndarray, horizons: Sequence[int]) -> list[float | None]:
    """Return the mean markout of fills after each horizon, weighted by contracts, dollars per contract; null if no fill has a markout."""
    if not len(fills):  # avoids indexing the tape
        return [None] * len(horizons)
    values, lots = markouts(tape, fills, horizons), fills[:, codes.F_LOTS]
    means = (weighted_mean(column[column != NONE], lots[column != NONE]) for column in values.T)
    return [None if micros is None else micros / MICROS for micros in means]


def _seconds(ns: float | None) -> float | None:
    return None if ns is None else ns / SECOND
