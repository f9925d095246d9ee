"""P&L by market, against the cash that each fill and settlement moved."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
import pytest

from bellwether.replay import Backtest
from bellwether.replay.results.exposure import settlements_of
from bellwether.replay.results.frames import backtests, fills
from bellwether.replay.results.market_pnl import market_pnl
from tests.replay.results.traders import RULES, traded


@pytest.fixture(params=RULES)
def backtest(request: pytest.FixtureRequest) -> Backtest:
    return traded(request.param)


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
    """Purchases, sales and fees, and what the contracts left paid: Decimal sums over the rows of fills, without a cost basis."""
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
        # A payout is rounded down to the micro-dollar, once a side.
        assert abs(row["pnl"] - (cash + left["yes"] * value + left["no"] * (1 - value))) <= Decimal("0.000002")
        assert row["yes_bought"] - row["yes_sold"] == left["yes"] - left["no"]
        assert (row["yes_position"], row["no_position"], row["unrealised"]) == (0, 0, 0)
