"""Tables of one backtest as frames: the engine's integers become exact decimals, names and times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bellwether.replay.agents.arguments import TIFS
from bellwether.replay.agents.records import ACTIONS, REASONS, ROLES, SIDES, STATUSES
from bellwether.replay.engine import codes
from bellwether.replay.engine.codes import Reason, Role, Status
from bellwether.replay.results.markouts import NEVER, NONE, markouts, payments
from bellwether.replay.results.metrics import HORIZONS, end_time, metrics
from bellwether.replay.units import BUY, DOLLAR, MICROS, SECOND, YES
from bellwether.tables import Table
from bellwether.tables.replay import BACKTESTS, EQUITY, FILLS, INSTANT, MARKET_PNL, ORDERS
from bellwether.tables.schema import MONEY, PRICE, SIZE

if TYPE_CHECKING:
    from bellwether.replay.run_record import RunRecord

#: Text for an order's unknown side, action, time in force or market.
UNKNOWN = "unknown"

#: Micro-dollars of a contract per $0.0001.
_UNIT = MICROS // DOLLAR


def frames(backtest: RunRecord, known_at: datetime | None = None) -> dict[str, pl.DataFrame]:
    """Build the tables of one backtest, by name: replay/backtests and those of `details`. known_at: time from which the episode is known,
    here and in the other functions. Default: its end.
    """
    return {**details(backtest, known_at), BACKTESTS.name: backtests([backtest], known_at)}


def details(backtest: RunRecord, known_at: datetime | None = None) -> dict[str, pl.DataFrame]:
    """Build replay/orders, replay/fills, replay/equity and replay/market_pnl of one backtest, by name."""
    return {
        ORDERS.name: orders(backtest, known_at),
        FILLS.name: fills(backtest, known_at),
        EQUITY.name: equity(backtest, known_at),
        MARKET_PNL.name: market_pnl(backtest, known_at),
    }


def backtests(runs: Iterable[RunRecord], known_at: datetime | None = None) -> pl.DataFrame:
    """Build the rows of replay/backtests, one per run."""
    return BACKTESTS.validate(BACKTESTS.frame([metrics(run, known_at=known_at) for run in runs]), unique=False)


def orders(backtest: RunRecord, known_at: datetime | None = None) -> pl.DataFrame:
    """Build the rows of replay/orders.

    Invalid prices, which only refused orders have, are null.
    """
    rows = backtest.outcome.orders
    price, mid2 = (rows[name].astype(np.int64) for name in ("price", "mid2"))
    reason, status, tags = rows["reason"], rows["status"], rows["tag"].tolist()
    columns: dict[str, pl.Series | np.ndarray] = {
        "order_id": np.arange(len(rows)),
        "ticker": _names_of(rows["market"], backtest.tape.tickers),
        "side": _names_of(rows["side"], SIDES),
        "action": _names_of(rows["action"], ACTIONS),
        "time_in_force": _names_of(rows["tif"], list(TIFS)),
        "price": prices_of(np.where((price > 0) & (price <= DOLLAR), price * _UNIT, NONE)),
        "size": sizes_of(rows["count"]),
        "filled": sizes_of(rows["filled"]),
        "filled_as_taker": sizes_of(rows["taken"]),
        "status": _names_of(status, STATUSES),
        "reason": _reasons(reason, status),
        "sent_at": instants_of(rows["sent"]),
        "arrived_at": instants_of(rows["arrived"]),
        "ended_at": instants_of(rows["ended"]),
        "mid": prices_of(np.where(mid2 >= 0, mid2 * _UNIT // 2, NONE)),
        "cost": _money(np.where(rows["action"] == codes.SELL, -1, 1) * rows["cost"]),
        "fees": _money(rows["fees"]),
        "tag": pl.Series(
            [backtest.tags.get(number) or (str(tag) if tag else None) for number, tag in enumerate(tags)],
            dtype=pl.String,
        ),
    }
    return _build_frame(ORDERS, backtest, columns, known_at)


def fills(backtest: RunRecord, known_at: datetime | None = None) -> pl.DataFrame:
    """Build the rows of replay/fills, with the markouts of every fill."""
    rows = backtest.outcome.fills
    wait = rows["wait"] / SECOND
    columns: dict[str, pl.Series | np.ndarray] = {
        "fill_id": np.arange(len(rows)),
        "order_id": rows["order"],
        "ticker": _names_of(rows["market"], backtest.tape.tickers),
        "side": _names_of(rows["side"], SIDES),
        "action": _names_of(rows["action"], ACTIONS),
        "role": _names_of(rows["role"], ROLES),
        "price": prices_of(rows["price"] * _UNIT),
        "size": sizes_of(rows["lots"]),
        "fee": _money(rows["fee"]),
        "filled_at": instants_of(rows["ts"]),
        "queue_wait": pl.Series(np.where(rows["role"] == Role.MAKER, wait, np.nan)).fill_nan(None),
    }
    values = markouts(backtest.tape, rows, HORIZONS)
    columns |= {f"markout_{seconds}s": prices_of(values[:, column]) for column, seconds in enumerate(HORIZONS)}
    return _build_frame(FILLS, backtest, columns, known_at)


def equity(backtest: RunRecord, known_at: datetime | None = None) -> pl.DataFrame:
    """Build the rows of replay/equity: the bankroll at the start, then the samples."""
    rows = backtest.outcome.samples
    opening = np.array([(backtest.tape.start, *[backtest.bankroll] * 3)], rows.dtype)
    rows = np.concatenate((opening, rows))
    columns: dict[str, pl.Series | np.ndarray] = {
        "sample": np.arange(len(rows)),
        "at": instants_of(rows["ts"]),
        "cash": _money(rows["cash"]),
        "equity": _money(rows["equity"]),
        "equity_mid": _money(rows["mid_equity"]),
    }
    return _build_frame(EQUITY, backtest, columns, known_at)


def market_pnl(backtest: RunRecord, known_at: datetime | None = None) -> pl.DataFrame:
    """Build the rows of replay/market_pnl, one per traded market, in the order of the episode's markets. The P&L of all markets adds up
    exactly to the P&L of the backtest.
    """
    outcome, fills = backtest.outcome, backtest.outcome.fills
    markets, own = np.unique(fills["market"], return_inverse=True)

    def sum_by_market(values: np.ndarray) -> np.ndarray:
        sums = np.zeros(len(markets), np.int64)
        np.add.at(sums, own, values)
        return sums

    raised = (fills["side"] == YES) == (fills["action"] == BUY)
    lots, fees = fills["lots"], sum_by_market(fills["fee"])
    earned, settled, unrealised = (column[markets] for column in (outcome.earned, outcome.settled, outcome.unrealised))
    positions, is_paid = outcome.positions[markets], payments(backtest.tape)[markets] != NEVER
    columns: dict[str, pl.Series | np.ndarray] = {
        "ticker": _names_of(markets, backtest.tape.tickers),
        "fills": sum_by_market(np.ones_like(lots)),
        "yes_bought": sizes_of(sum_by_market(lots * raised)),
        "yes_sold": sizes_of(sum_by_market(lots * ~raised)),
        "trading_pnl": _money(earned - settled),
        "settlement_pnl": _money(settled),
        "unrealised": _money(unrealised),
        "fees": _money(fees),
        "pnl": _money(earned + unrealised - fees),
        "yes_position": sizes_of(positions[:, YES]),
        "no_position": sizes_of(positions[:, 1 - YES]),
        "unsettled": ~is_paid & positions.any(axis=1),
    }
    return _build_frame(MARKET_PNL, backtest, columns, known_at)


def _build_frame(table: Table, backtest: RunRecord, columns: dict[str, pl.Series | np.ndarray], known_at: datetime | None) -> pl.DataFrame:
    common = {
        "episode": backtest.episode,
        "agent": backtest.agent,
        "rules": backtest.rules.name,
        "known_at": known_at or end_time(backtest),
    }
    literals = [pl.lit(value, table.schema[name]).alias(name) for name, value in common.items()]
    return table.validate(pl.DataFrame(columns).with_columns(literals).select(table.names), unique=False)


def _names_of(code: np.ndarray, names: Sequence[str]) -> pl.Series:
    """Translate codes to names: code i becomes `names[i]`, and a code without a name `UNKNOWN`."""
    is_known = (code >= 0) & (code < len(names))
    return pl.Series([*names, UNKNOWN], dtype=pl.String()).gather(np.where(is_known, code, len(names)))


def _reasons(reason: np.ndarray, status: np.ndarray) -> pl.Series:
    """Return the reason for which each order was rejected or cancelled, by name; `expired` for expired orders, null for orders without a reason."""
    code = np.where((reason == Reason.NONE) & (status == Status.EXPIRED), Reason.EXPIRED, reason)
    return pl.Series(REASONS, dtype=pl.String()).gather(code)


def instants_of(ns: np.ndarray) -> pl.Series:
    """Convert ns UTC to times; null for -1."""
    return _nullable(ns, codes.NONE).cast(INSTANT)


def prices_of(micros: np.ndarray) -> pl.Series:
    """Convert micro-dollars to dollars per contract; null for `NONE`."""
    return _decimal(_nullable(micros, NONE), 6, PRICE)


def _money(micros: np.ndarray) -> pl.Series:
    return _decimal(pl.Series(micros, dtype=pl.Int64()), 6, MONEY)


def sizes_of(lots: np.ndarray) -> pl.Series:
    """Convert lots to contracts."""
    return _decimal(pl.Series(lots, dtype=pl.Int64()), 2, SIZE)


def _nullable(values: np.ndarray, missing: int) -> pl.Series:
    """Return int64 values with null in place of `missing`."""
    series = pl.Series(values, dtype=pl.Int64())
    return series.set(series == missing, None)


def _decimal(values: pl.Series, digits: int, dtype: pl.Decimal) -> pl.Series:
    """Convert integers to decimals with a number of digits after the point, exactly: 1234 with two digits becomes 12.34."""
    unit = pl.Series([10**digits], dtype=pl.Decimal(38, 0))
    return (values.cast(pl.Decimal(38, digits)) / unit).cast(dtype)
