"""P&L of a backtest by market."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bellwether.replay.engine.codes import F_ACTION, F_FEE, F_LOTS, F_SIDE, F_TICKER
from bellwether.replay.results.exposure import exposure, settlements_of
from bellwether.replay.results.metrics import end_time
from bellwether.replay.units import BUY, CONTRACT, YES, dollars
from bellwether.tables.replay import MARKET_PNL
from bellwether.units import MicroDollars

if TYPE_CHECKING:
    from bellwether.replay.run_record import RunRecord


def market_pnl(backtest: RunRecord, known_at: datetime | None = None) -> pl.DataFrame:
    """Build the rows of replay/market_pnl, one per traded market, in the order of the episode's markets.

    The P&L of all markets adds up exactly to the P&L of the backtest. known_at: time from which the episode is known. Default: its end.
    """
    outcome, fills = backtest.outcome, backtest.outcome.fills
    settled = set(settlements_of(backtest.tape).ticker.tolist())
    common = {
        "episode": backtest.episode,
        "agent": backtest.agent,
        "rules": backtest.rules.name,
        "known_at": known_at or end_time(backtest),
    }
    rows: list[Mapping[str, Any]] = []
    for market in np.unique(fills[:, F_TICKER]).tolist():
        own = fills[fills[:, F_TICKER] == market]
        profit = exposure(backtest.tape, own, apart=backtest.rules.netting == "apart")
        fees, position = MicroDollars(int(own[:, F_FEE].sum())), outcome.positions[market]
        unrealised = MicroDollars(int(outcome.unrealised[market]))
        rows.append(
            {
                **common,
                "ticker": backtest.tape.tickers[market],
                "fills": len(own),
                **_contracts(own),
                "trading_pnl": dollars(profit.traded),
                "settlement_pnl": dollars(profit.settled),
                "unrealised": dollars(unrealised),
                "fees": dollars(fees),
                "pnl": dollars(MicroDollars(profit.traded + profit.settled + unrealised - fees)),
                "yes_position": Decimal(int(position[YES])) / CONTRACT,
                "no_position": Decimal(int(position[1 - YES])) / CONTRACT,
                "unsettled": market not in settled and bool(position.any()),
            }
        )
    return MARKET_PNL.validate(MARKET_PNL.frame(rows), unique=False)


def _contracts(fills: np.ndarray) -> dict[str, Any]:
    """Return the contracts of fills that raised the position in YES, and of fills that lowered it (sales of YES, purchases of NO), by column."""
    raised = (fills[:, F_SIDE] == YES) == (fills[:, F_ACTION] == BUY)
    lots = fills[:, F_LOTS]
    return {name: Decimal(int(lots[selected].sum())) / CONTRACT for name, selected in (("yes_bought", raised), ("yes_sold", ~raised))}
