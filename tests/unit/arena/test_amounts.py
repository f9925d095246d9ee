"""Amounts, prices and times exactly at a limit and one unit beyond it; rounding; and money at its largest."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from types import SimpleNamespace
from typing import Any

import duckdb
import polars as pl
import pytest

from bellwether.arena.decision import Reason
from bellwether.arena.facts import Agent, Trade
from bellwether.arena.frames import agents_from_rows, book_frames, trades_frame, trades_from_rows
from bellwether.arena.history import find_last_prices
from bellwether.arena.ledger import Ledger, fold
from bellwether.arena.market import Market, Quote
from bellwether.arena.marks import PriceObservation, PriceSource, compute_portfolio_curves, select_tick_prices
from bellwether.arena.rankings.tables import compute_equity_tables
from bellwether.arena.resolution import derive_settlements
from bellwether.arena.results import Facts, compute_leaderboard, find_changed_cash
from bellwether.arena.units import LARGEST, divide_half_even, dollars, micros, money_text, percent_text, share_value
from bellwether.arena.weekly.held_prices import find_held_spans
from bellwether.errors import SchemaError
from bellwether.tables import table
from bellwether.tables.arena import EVIDENCE, PRICES
from bellwether.units import MicroDollars, MicroShares, SharePrice
from bellwether.venues.polymarket.fees import FeeSchedule, Regime
from tests.unit.arena.test_export import LEADERBOARD
from tests.unit.arena.test_settlement import twice
from tests.unit.arena.world import (
    AGENT,
    COHORT,
    NOW,
    V1,
    V2,
    account,
    account_after,
    agents_frame,
    bet,
    bets,
    binary,
    buy_trade,
    execute_decision,
    raw_mid,
    sale,
    sales,
    sell_trade,
    usd,
    won,
)

ALL_IN = {"bet_fraction": Decimal(1)}
TEN = buy_trade("10", "5")


def test_a_side_at_a_dollar_is_bought_and_sold_and_one_at_zero_only_sold() -> None:
    (bought,) = execute_decision(bets(bet("100")), account(), binary(yes="1")).trades
    assert (bought.price, bought.shares) == (1_000_000, usd(100))
    for price, proceeds in (("1", "10"), ("0", "0")):
        (sold,) = execute_decision(sales(sale("100")), account_after(TEN), binary(yes=price)).trades
        assert (sold.price, sold.amount) == (usd(price), usd(proceeds))
    for price in ("0", "1.000001"):
        done = execute_decision(bets(bet("100")), account(), binary(), quotes={"m": {0: raw_mid(price)}})
        assert [one.reason for one in done.refusals] == [Reason.PRICE]


def test_a_bet_and_its_fee_may_take_the_whole_cash() -> None:
    """$100 at .50 buy 200 shares; the fee is 200 × .04 × .25 = $2."""
    rules = V1.model_copy(update={**ALL_IN, "fees": "venue"})
    market = binary(yes="0.5", fees=FeeSchedule(Regime.BY_SHARES, Decimal("0.04")))
    done = execute_decision(bets(bet("100")), account("102"), market, rules=rules)
    assert done.account is not None
    assert (done.trades[0].fee, done.account.cash) == (usd(2), 0)
    short = execute_decision(bets(bet("100")), account("101.999999"), market, rules=rules)
    assert [one.reason for one in short.refusals] == [Reason.FEE_ABOVE_CASH]


def test_bets_may_add_up_to_the_limit_and_to_the_cash() -> None:
    markets = (binary(), binary("n"))
    for rules, cash, amount, reason in (
        (V2, "10000", "1250", Reason.TOTAL_ABOVE_LIMIT),
        (V2.model_copy(update=ALL_IN), "10000", "5000", Reason.TOTAL_ABOVE_LIMIT),
    ):
        exact = execute_decision(bets(bet(amount), bet(amount, market_id="n")), account(cash), *markets, rules=rules)
        assert (len(exact.trades), exact.refusals) == (2, ())
        above = execute_decision(bets(bet(amount), bet(str(int(amount) + 1), market_id="n")), account(cash), *markets, rules=rules)
        assert (above.trades, {one.reason for one in above.refusals}) == ((), {reason})


@pytest.mark.parametrize(
    ("cash", "bankrupt", "reason"),
    [("50", False, Reason.ABOVE_LIMIT), ("49.999999", True, Reason.BANKRUPT)],
)
def test_an_agent_is_bankrupt_below_the_smallest_bet(cash: str, bankrupt: bool, reason: Reason) -> None:
    assert account(cash).is_bankrupt(usd(50)) is bankrupt
    assert [one.reason for one in execute_decision(bets(bet("50")), account(cash), binary()).refusals] == [reason]


def test_a_sale_of_less_than_half_a_millionth_of_a_share_is_none() -> None:
    holder = account_after(buy_trade("0.000001", "0.000001"))
    assert [one.reason for one in execute_decision(sales(sale("1")), holder, binary()).refusals] == [Reason.NO_SHARES]


def test_amounts_of_a_trade_have_a_sign() -> None:
    holder = account_after(TEN)
    assert holder.explain_problem(sell_trade("10", "0", TEN, 2)) is None, "all shares, for nothing"
    assert holder.explain_problem(sell_trade("10.000001", "5", TEN, 2)) is not None
    for field, value in (("shares", MicroShares(0)), ("amount", MicroDollars(-1)), ("fee", MicroDollars(-1))):
        assert holder.explain_problem(sell_trade("1", "1", TEN, 2)._replace(**{field: value})) is not None


def test_a_fact_is_known_from_its_own_instant_on() -> None:
    instant = timedelta(microseconds=1)
    settled = won("Yes")
    for at, cash in ((NOW - instant, 10_000), (NOW, 9_995), (settled.known_at - instant, 9_995), (settled.known_at, 10_005)):
        assert fold([AGENT], [TEN], [settled], known_at=at).accounts[AGENT.agent_id].cash == usd(cash)


def test_fractions_that_pay_more_than_a_dollar_are_no_result() -> None:
    assert len(derive_settlements(twice(["0.3", "0.7"]), V1)) == 1
    assert derive_settlements(twice(["0.3", "0.700001"]), V1) == []


@pytest.mark.parametrize(("price", "seen"), [(0, True), (1_000_000, True), (-1, False), (1_000_001, False)])
def test_a_mark_is_from_nothing_to_a_dollar(price: int, seen: bool) -> None:
    rows = select_tick_prices({}, [("m", "YES")], {("m", "YES"): PriceObservation(SharePrice(price), NOW)}, NOW, V1)
    assert [row.price for row in rows] == ([price] if seen else [])


@pytest.mark.parametrize(
    ("age", "source"),
    [(timedelta(0), PriceSource.LIVE), (timedelta(days=1), PriceSource.LIVE), (timedelta(days=1, seconds=1), PriceSource.PRIOR)],
)
def test_a_past_price_is_current_for_a_day(age: timedelta, source: PriceSource) -> None:
    market = Market("m", "q", ("No", "Yes"), token_ids=("n", "y"))
    points = {"y": [(NOW - age, SharePrice(300_000)), (NOW + timedelta(seconds=1), SharePrice(900_000))], "n": [(NOW, SharePrice(1))]}
    found = find_last_prices([market], points, NOW)
    assert {key: (row.price, row.source, row.observed_at) for key, row in found.items()} == {("m", "YES"): (300_000, source, NOW - age)}


def test_an_outcome_is_held_from_its_purchase_to_its_last_sale_or_settlement() -> None:
    later = NOW + timedelta(hours=1)
    half, rest = (sell_trade("5", "3", TEN, leg, executed_at=at) for leg, at in ((2, later), (3, later + timedelta(hours=1))))
    assert find_held_spans(fold([AGENT], [TEN, half], [])) == {("m", "YES"): [(NOW, None)]}
    assert find_held_spans(fold([AGENT], [TEN, half, rest], [])) == {("m", "YES"): [(NOW, rest.executed_at)]}
    assert find_held_spans(fold([AGENT], [TEN], [won("Yes")])) == {("m", "YES"): [(NOW, won("Yes").known_at)]}


def test_a_quote_with_a_midpoint_alone_has_no_counterparty() -> None:
    (trade,) = execute_decision(bets(bet("100")), account(), binary(), quotes={"m": {0: Quote(SharePrice(400_000))}}).trades
    assert (trade.bid, trade.ask, trade.unmatched) == (None, None, None)


# --- rounding, and stakes of 10^15 dollars whose wins are bet again -----------------------------------------------------


def test_quotients_are_rounded_half_to_even() -> None:
    rng = Random(1)
    for _ in range(1_000):
        a, b = rng.randrange(-(10**6), 10**12), rng.choice((2, 4, 10, rng.randrange(1, 10**6)))
        assert divide_half_even(a, b) == round(Fraction(a, b))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e400", "abc", "", None, "1e999999999"])
def test_what_is_no_amount_is_refused(value: str) -> None:
    with pytest.raises(SchemaError):
        micros(value)


def test_amounts_finer_than_a_millionth_are_rounded_half_to_even() -> None:
    assert [micros(Decimal(text)) for text in ("0.0000005", "0.0000015", "1e-999999")] == [0, 2, 0]


def test_texts() -> None:
    assert money_text(usd("2499.9975")) == "2,499.99"
    assert [percent_text(price) for price in (435_000, 400, 1_000_000, 0, 800_000)] == ["43.5", "0.04", "100.0", "0.0", "80.0"]
    assert share_value(usd(1250), usd("0.4")) == usd(500)


#: Largest stake in micro-dollars.
MOST = int(LARGEST) * 1_000_000


def year_of_wins(cash: int) -> tuple[Agent, Ledger, list[Trade]]:
    """Return an agent that bets a quarter of its cash, at most `LARGEST`, every week for a year at the lowest price, and always wins.
    cash: in micro-dollars.
    """
    agent = AGENT._replace(initial_cash=MicroDollars(cash))
    trades, settlements = [], []
    for week in range(52):
        stake, at = min(cash // 4, MOST), NOW + timedelta(weeks=week)
        trade = buy_trade("1", "1", market_id=f"m{week}", leg=week + 1, executed_at=at, base=cash)
        trades.append(trade._replace(shares=stake * 1_000_000, amount=stake, price=1))
        settlements.append(won("Yes", market_id=f"m{week}", at=at + timedelta(days=1)))
        cash += stake * 999_999
    return agent, fold([agent], trades, settlements), trades


@pytest.mark.parametrize("start", [10_000, 1_000_000, 1_000_000_000])
def test_a_year_of_wins_is_counted_exactly_in_every_table(start: int) -> None:
    agent, ledger, trades = year_of_wins(start * 1_000_000)
    final = start * 1_000_000 + sum(trade.shares - trade.amount for trade in trades)
    assert final > 10**28
    total, moved = dollars(final), sum(trade.amount for trade in trades)

    agents, rows = agents_frame([agent]), trades_frame(trades)
    assert agents_from_rows(agents) == [agent]
    assert trades_from_rows(rows) == sorted(trades, key=lambda trade: trade.trade_id)
    folded = book_frames(ledger, curves=compute_portfolio_curves(ledger, []))
    assert folded["arena/ledger"].sort("number")["cash"][-1] == total
    assert folded["arena/positions"]["paid"].sum() == dollars(sum(trade.shares for trade in trades))
    assert folded["arena/portfolios"].sort("at")["total"][-1] == total

    facts = Facts(agents, table("arena/decisions").empty(), table("arena/refusals").empty(), rows, EVIDENCE.empty(), PRICES.empty())
    board = compute_leaderboard(facts, ledger, folded, {"v1": V1}).row(0, named=True)
    profit = dollars(final - start * 1_000_000)
    assert [board[name] for name in ("initial_cash", "cash", "total", "profit")] == [start, total, total, profit]
    assert board["return"] == pytest.approx(float(Fraction(final, start * 1_000_000) - 1), rel=1e-15)
    assert board["turnover"] == pytest.approx(float(Fraction(moved, start * 1_000_000)), rel=1e-15)
    exported = dict(zip(*_exported(agents, rows, folded), strict=True))
    assert [exported[name] for name in ("initial_cash", "cash", "total", "profit")] == [start, total, total, profit]
    assert find_changed_cash(facts, ledger) == []


def _exported(agents: pl.DataFrame, trades: pl.DataFrame, folded: dict[str, pl.DataFrame]) -> Iterator[Any]:
    """Yield the columns and the values of the first row of the leaderboard that an independent query computes."""
    frames = {"agents": agents, "trades": trades, **{name.removeprefix("arena/"): frame for name, frame in folded.items()}}
    with duckdb.connect() as connection:
        for name in ("agents", "decisions", "refusals", "trades", "settlements", "ledger", "positions", "portfolios"):
            connection.register(name, frames.get(name, table(f"arena/{name}").empty()).to_arrow())
        text = LEADERBOARD.read_text()
        for name in ("agents", "decisions", "refusals", "trades", "settlements", "ledger", "positions", "portfolios"):
            text = text.replace(f"read_parquet('data/{name}.parquet')", f'"{name}"')
        relation = connection.sql(text)
        yield relation.columns
        yield relation.fetchone()


def test_the_mean_of_the_largest_portfolios_is_exact() -> None:
    totals = [10**30 - 1, 10**30 - 4, 10**30 - 7_000_000]
    rows = [{"agent_id": f"a{number}", "at": NOW, "total": dollars(total)} for number, total in enumerate(totals)]
    group = {"methodology": "v1", "reconstructed": False, "contaminated": False, "family": "x", "cohort": COHORT, "initial_cash": 1e9}
    entrants = pl.DataFrame([{**group, "agent_id": row["agent_id"]} for row in rows])
    portfolios = table("arena/portfolios").frame(rows).select("agent_id", "at", "total")
    by_day, by_age = compute_equity_tables(SimpleNamespace(entrants=entrants, portfolios=portfolios))  # type: ignore[arg-type]
    mean, rest = divmod(sum(totals), 3)
    assert by_day["total"].item() == by_age["total"].item() == dollars(mean + (rest == 2))
