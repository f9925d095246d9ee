"""Rows of replay/backtests for tests."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from statistics import median
from typing import Any

import polars as pl

from bellwether.lake.sql import run_sql
from bellwether.tables.replay import BACKTESTS, SUMMARY

KNOWN = datetime(2026, 1, 20, tzinfo=UTC)

_MONEY = (
    "bankroll",
    "final_equity",
    "pnl",
    "realised",
    "settlement_pnl",
    "fees",
    "slippage",
    "contracts",
)
_PLAIN = {
    "rules": "kalshi-2025-10-01",
    "sample_seconds": 60.0,
    "orders": 3,
    "rejected": 0,
    "fills": 2,
    "rejections": "{}",
    "unsettled": False,
    "default_fees": False,
    "steps": 10,
    "cadence_seconds": 300.0,
    "queue_model": "proportional",
    "parameters": "{}",
    "seed": 0,
    "settings_digest": "s",
    "episode_digest": "e",
    "result_digest": "r",
    "engine_version": "1",
    "settled_at": KNOWN,
    "known_at": KNOWN,
}


def backtest(agent: str, episode: str, pnl: float | str, **other: Any) -> dict[str, Any]:
    """Return one row with a bankroll of 1,000 dollars. Unnamed columns are null if possible. queues: P&L in each sampled queue history."""
    earned, profits = Decimal(str(pnl)), [Decimal(str(profit)) for profit in other.pop("queues", ())]
    row = {
        **_PLAIN,
        "agent": agent,
        "episode": episode,
        "bankroll": 1000,
        "pnl": earned,
        "final_equity": 1000 + earned,
        "queues": len(profits),
        "queue_pnls": profits,
        **({"queue_pnl_median": median(profits), "queue_pnl_low": min(profits), "queue_pnl_high": max(profits)} if profits else {}),
        "queue_profitable": sum(profit > 0 for profit in profits) / len(profits) if profits else None,
        "realised": earned,
        "settlement_pnl": 0,
        "fees": 0,
        "return": float(earned) / 1000,
        "max_drawdown": 0.01,
        "contracts": 10,
        "fill_ratio": 1.0,
        **other,
    }
    return {name: Decimal(str(value)) if name in _MONEY and value is not None else value for name, value in row.items()}


def backtests(*rows: dict[str, Any]) -> pl.DataFrame:
    """Return a frame of replay/backtests."""
    return BACKTESTS.validate(BACKTESTS.frame(list(rows)))


def summarise(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of replay/summary for rows of replay/backtests."""
    return run_sql(SUMMARY, {"backtests": rows})
