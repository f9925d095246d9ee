"""Frames of orders, fills and equity, compared with the engine's integers."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from bellwether.replay import Agent, Backtest, BacktestSettings, run
from bellwether.replay.engine import codes
from bellwether.replay.engine.codes import Role
from bellwether.replay.results.exposure import settlements_of
from bellwether.replay.results.frames import backtests, equity, fills, frames, orders
from bellwether.replay.results.market_pnl import market_pnl
from bellwether.replay.results.markouts import NONE, markouts
from bellwether.replay.units import MICROS
from bellwether.tables import table
from bellwether.tables.replay import HORIZONS_S
from tests.reference.replay.random_tapes import Shape, random_tape
from tests.unit.replay.results.traders import RULES, backtest_random


@pytest.fixture(params=RULES)
def backtest(request: pytest.FixtureRequest) -> Backtest:
    return backtest_random(request.param)


def test_every_frame_fits_its_table(backtest: Backtest) -> None:
    for name, frame in frames(backtest, datetime(2026, 1, 1, tzinfo=UTC)).items():
        assert table(name).validate(frame).height > 0


def test_sizes_prices_and_money_are_exact(backtest: Backtest) -> None:
    frame, rows = orders(backtest), backtest.outcome.orders
    for column, name in ((codes.O_COUNT, "size"), (codes.O_FILLED, "filled"), (codes.O_TAKEN, "filled_as_taker")):
        assert frame[name].to_list() == [Decimal(lots).scaleb(-2) for lots in rows[:, column].tolist()]
    assert frame["price"].to_list() == [Decimal(price).scaleb(-4) if price else None for price in rows[:, codes.O_PRICE].tolist()]
    assert frame["fees"].to_list() == [Decimal(fee).scaleb(-6) for fee in rows[:, codes.O_FEES].tolist()]
    assert frame["mid"].to_list() == [Decimal(mid2) / 20_000 if mid2 >= 0 else None for mid2 in rows[:, codes.O_MID2].tolist()]


def test_the_cost_of_orders_is_what_their_fills_moved(backtest: Backtest) -> None:
    sign = pl.when(pl.col("action") == "sell").then(-1).otherwise(1)
    moved = (
        fills(backtest).group_by("order_id").agg(moved=(sign * pl.col("price").cast(pl.Float64) * pl.col("size").cast(pl.Float64)).sum())
    )
    both = orders(backtest).join(moved, on="order_id")
    assert both["cost"].cast(pl.Float64).to_list() == pytest.approx(both["moved"].to_list())
    assert orders(backtest).filter(pl.col("filled") == 0)["cost"].unique().to_list() == [Decimal(0)]


def test_instants_are_those_of_the_engine_to_the_nanosecond(backtest: Backtest) -> None:
    frame, rows = orders(backtest), backtest.outcome.orders
    assert frame["sent_at"].dt.timestamp("ns").to_list() == rows[:, codes.O_SENT].tolist()
    assert frame["ended_at"].dt.timestamp("ns").fill_null(-1).to_list() == rows[:, codes.O_ENDED].tolist()


def test_the_fastest_history_fills_an_order_no_later_than_the_slowest(backtest: Backtest) -> None:
    frame = orders(backtest).with_columns(pl.col("filled_pessimistic", "filled_optimistic", "size").cast(pl.Float64))
    bounded = frame.filter(pl.col("filled_earliest_at").is_not_null())
    if backtest.band != "fills":
        assert bounded.is_empty()
        return
    assert bounded.height and (bounded["filled_optimistic"] >= bounded["size"]).all()
    both = bounded.filter(pl.col("filled_latest_at").is_not_null())
    assert both.height and (both["filled_earliest_at"] <= both["filled_latest_at"]).all()
    assert (both["filled_pessimistic"] >= both["size"]).all()


def test_fills_have_their_markouts_and_makers_their_wait(backtest: Backtest) -> None:
    frame, rows = fills(backtest), backtest.outcome.fills
    found = markouts(backtest.tape, rows, HORIZONS_S).tolist()
    for column, seconds in enumerate(HORIZONS_S):
        expected = [None if row[column] == NONE else Decimal(row[column]).scaleb(-6) for row in found]
        assert frame[f"markout_{seconds}s"].to_list() == expected
    assert frame["queue_wait"].is_null().to_list() == [role == Role.TAKER for role in rows[:, codes.F_ROLE].tolist()]


def test_the_curve_is_the_bankroll_and_then_that_of_the_engine(backtest: Backtest) -> None:
    frame, rows = equity(backtest), backtest.outcome.samples
    assert (frame["equity"] * MICROS).cast(pl.Int64).to_list() == [backtest.bankroll, *rows[:, codes.S_EQUITY].tolist()]
    assert (frame["equity_optimistic"] * MICROS).cast(pl.Int64).to_list() == [backtest.bankroll, *rows[:, codes.S_OPT].tolist()]
    assert frame["at"].cast(pl.Int64).to_list() == [backtest.tape.start, *rows[:, codes.S_TS].tolist()]
    assert frame["sample"].to_list() == list(range(frame.height))


class Nonsense(Agent):
    """Send orders that no exchange accepts."""

    def act(self, ctx) -> None:
        if ctx.step == 0:
            large = 2**62
            ctx.place_many(
                np.array(
                    [
                        [9, 0, 0, 500, 100, 1, 0],
                        [0, 0, 0, large, large, 1, 0],
                        [0, 0, 0, -5, -large, 1, 0],
                    ],
                    np.int64,
                )
            )


def test_orders_that_make_no_sense_are_rows_too() -> None:
    settings = BacktestSettings(rules=RULES[0], bankroll=MICROS, execution="maker_taker", queue="proportional")
    ran = run(random_tape(2, Shape()), Nonsense(), settings)
    frame = table("replay/orders").validate(orders(ran))
    assert frame["status"].to_list() == ["rejected"] * 3
    assert frame["ticker"].to_list() == ["unknown", "T0", "T0"]
    assert frame["price"][1] is None and frame["price"][2] is None


# P&L by market, compared with the cash of each fill and settlement


def test_the_markets_add_up_to_the_backtest(backtest: Backtest) -> None:
    rows, total = market_pnl(backtest), backtests([backtest]).row(0, named=True)
    assert rows["pnl"].sum() == total["pnl"]
    assert rows["trading_pnl"].sum() + rows["settlement_pnl"].sum() == total["realised"]
    assert (rows["settlement_pnl"].sum(), rows["fees"].sum(), rows["fills"].sum()) == (
        total["settlement_pnl"],
        total["fees"],
        total["fills"],
    )
    assert rows["unsettled"].any() == total["unsettled"]


def test_a_settled_market_earned_the_cash_that_it_moved(backtest: Backtest) -> None:
    """Purchases, sales, fees and payouts of remaining contracts, as Decimal sums over the rows of fills without a cost basis."""
    found = settlements_of(backtest.tape)
    paid = {backtest.tape.tickers[market]: Decimal(int(value)).scaleb(-6) for _, market, value in zip(*found, strict=True) if value >= 0}
    settled = market_pnl(backtest).filter(pl.col("ticker").is_in(list(paid)))
    assert settled.height
    for row in settled.iter_rows(named=True):
        cash, left = Decimal(0), {"yes": Decimal(0), "no": Decimal(0)}
        for fill in fills(backtest).filter(ticker=row["ticker"]).iter_rows(named=True):
            sign = 1 if fill["action"] == "buy" else -1
            cash -= sign * fill["price"] * fill["size"] + fill["fee"]
            left[fill["side"]] += sign * fill["size"]
        value = paid[row["ticker"]]
        # A payout is rounded down to a micro-dollar, once per side.
        assert abs(row["pnl"] - (cash + left["yes"] * value + left["no"] * (1 - value))) <= Decimal("0.000002")
        assert row["yes_bought"] - row["yes_sold"] == left["yes"] - left["no"]
        assert (row["yes_position"], row["no_position"], row["unrealised"]) == (0, 0, 0)
