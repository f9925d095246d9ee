"""Marks: their values and sources, and curves without rows when nothing changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

import pytest

from bellwether.arena.account import Account
from bellwether.arena.facts import Trade
from bellwether.arena.kalshi import Candle, quote_from_book, quote_from_candle
from bellwether.arena.ledger import fold
from bellwether.arena.market import find_quoted_tokens
from bellwether.arena.marks import (
    HeldPrice,
    PriceKey,
    PriceObservation,
    PriceSource,
    Valuation,
    compute_portfolio_curves,
    interval_start,
    mark_position,
    merge_prices,
    price_key,
    prices_disagree,
    select_tick_prices,
)
from bellwether.arena.units import price_micros
from bellwether.arena.weekly.polymarket import book_midpoint
from bellwether.units import MicroDollars
from bellwether.venues.polymarket.snapshots import Book
from tests.unit.arena.histories import History, history
from tests.unit.arena.world import AGENT, COHORT, NOW, V1, account_after, agent, binary, buy_trade, usd, won

M = ("m", "YES")


def price(value: str, key: tuple[str, str] = M, at: datetime = NOW, source: PriceSource = PriceSource.LIVE) -> HeldPrice:
    return HeldPrice(*key, at, usd(value), source)


def value(trade: Trade, prices: Mapping[tuple[str, str], HeldPrice]) -> tuple[int, int, PriceSource]:
    (position,) = account_after(trade).positions.values()
    return mark_position(position, prices)


def test_without_tokens_nothing_is_asked_for_and_the_last_price_stands() -> None:
    assert find_quoted_tokens({"m": replace(binary(), token_ids=())}, ["m"]) == {}
    assert find_quoted_tokens({"m": binary()}, ["m", "m", "other"]) == {"y": ("m", 0)}
    later = NOW + timedelta(minutes=10)
    assert select_tick_prices({M: price("0.4")}, [M], {}, later, V1) == [price("0.4", at=interval_start(later), source=PriceSource.PRIOR)]


def test_a_book_with_one_side_moves_no_mark() -> None:
    """On both venues, a one-sided book at any quote and an empty book leave the mark unchanged."""
    only = ((Decimal("0.39"), Decimal(100)),)
    mids = [
        *(book_midpoint(Book(bids, asks, NOW)) for bids, asks in ((only, ()), ((), only), ((), ()))),
        *(quote_from_book(yes, no, NOW).mid for yes, no in ((only, ()), ((), only), ((), ()))),
        *(quote_from_candle(Candle(NOW, bid, ask)).mid for bid, ask in ((Decimal("0.39"), None), (None, Decimal("0.39")))),
    ]
    for seen in mids:
        (row,) = select_tick_prices({M: price("0.4")}, [M], {M: PriceObservation(seen, NOW)}, NOW + timedelta(minutes=10), V1)
        assert (row.price, row.source) == (usd("0.4"), PriceSource.PRIOR)
    both = book_midpoint(Book(only, ((Decimal("0.43"), Decimal(5)),), NOW))
    assert select_tick_prices({M: price("0.4")}, [M], {M: PriceObservation(both, NOW)}, NOW + timedelta(minutes=10), V1)[0].price == usd(
        "0.41"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0.2", 200_000), (1, 1_000_000), (0, 0), ("1.2", None), ("-0.1", None), ("oops", None), (None, None), ("NaN", None), (True, None)],
)
def test_prices_of_the_wire(text: object, expected: int | None) -> None:
    assert price_micros(text) == expected  # type: ignore[arg-type]


def valuation(account: Account, prices: Mapping[PriceKey, HeldPrice], at: datetime) -> Valuation:
    """Value a portfolio at the latest prices, apart from the curves."""
    marks = [mark_position(position, prices) for position in account.open.values()]
    value = MicroDollars(sum(mark.value for mark in marks))
    total = MicroDollars(account.cash + value)
    fallbacks = sum(mark.source is not PriceSource.LIVE for mark in marks)
    agent = account.agent
    profit = MicroDollars(total - agent.initial_cash)
    return Valuation(agent.agent_id, at, account.cash, account.invested, value, total, profit, fallbacks)


def test_both_sides_are_valued_by_one_price() -> None:
    prices = {M: price("0.72")}
    assert value(buy_trade("100", "50"), prices)[:2] == (usd("0.72"), usd(72))
    assert value(buy_trade("100", "50", side="NO"), prices)[:2] == (usd("0.28"), usd(28))


def test_without_a_live_price_the_last_one_stands_and_says_so() -> None:
    last = {M: price("0.7")}
    (row,) = select_tick_prices(last, [M], {M: PriceObservation(None)}, NOW + timedelta(minutes=10), V1)
    assert (row.price, row.source) == (usd("0.7"), PriceSource.PRIOR)
    assert value(buy_trade("20", "10"), {M: row}) == (usd("0.7"), usd(14), PriceSource.PRIOR)
    assert valuation(account_after(buy_trade("20", "10")), {M: row}, NOW).fallbacks == 1


def test_before_the_first_mark_a_position_is_worth_the_midpoint_at_which_it_was_opened() -> None:
    for side in ("YES", "NO"):
        assert value(buy_trade("100", "33", side=side, mid=usd("0.32")), {}) == (usd("0.32"), usd(32), PriceSource.PRIOR)


def test_the_live_price_counts_and_the_gap_is_recorded() -> None:
    (row,) = select_tick_prices({}, [M], {M: PriceObservation(usd("0.61"), NOW, usd("0.91"))}, NOW, V1)
    assert (row.price, row.source, row.disagrees, row.other) == (usd("0.61"), PriceSource.LIVE, True, usd("0.91"))
    assert valuation(account_after(buy_trade("20", "10")), {M: row}, NOW).fallbacks == 0


def test_the_first_tick_of_an_interval_stays_and_a_change_is_stored_with_the_next() -> None:
    (first,) = select_tick_prices({}, [M], {M: PriceObservation(usd("0.5"), NOW)}, NOW, V1)
    changed = {M: PriceObservation(usd("0.6"), NOW)}
    start = interval_start(NOW) + timedelta(minutes=10)
    assert select_tick_prices({M: first}, [M], changed, start - timedelta(microseconds=1), V1) == []
    (later,) = select_tick_prices({M: first}, [M], changed, start, V1)
    assert [(row.at, row.price) for row in merge_prices([first], [later])] == [(interval_start(NOW), usd("0.5")), (start, usd("0.6"))]


def test_a_portfolio_adds_up() -> None:
    second = buy_trade("100", "120", market_id="n", leg=2, price=1_000_000)
    prices = {M: price("0.75"), ("n", "YES"): price("1", ("n", "YES"))}
    holder = account_after(buy_trade("400", "200"), second, cash="9320")
    found = valuation(holder, prices, NOW)
    assert (found.cash, found.positions, found.total) == (usd(9000), usd(400), usd(9400))
    assert (found.total - usd(10_000), found.positions - found.invested) == (-usd(600), usd(80))


@pytest.mark.parametrize(("gap", "expected"), [("0.05", False), ("0.0501", True)])
def test_a_gap_of_exactly_five_cents_is_accepted(gap: str, expected: bool) -> None:
    assert prices_disagree(usd("0.5"), usd("0.5") + usd(gap), Decimal("0.05")) is expected


def test_a_price_that_did_not_change_is_not_stored_again() -> None:
    rows = select_tick_prices({}, [M], {M: PriceObservation(usd("0.5"), NOW)}, NOW, V1)
    last = {M: rows[0]}
    assert select_tick_prices(last, [M], {M: PriceObservation(usd("0.5"), NOW)}, NOW + timedelta(minutes=10), V1) == []
    assert len(select_tick_prices(last, [M], {M: PriceObservation(usd("0.51"), NOW)}, NOW + timedelta(minutes=10), V1)) == 1
    gone = select_tick_prices(last, [M], {}, NOW + timedelta(minutes=20), V1)
    assert [row.source for row in gone] == [PriceSource.PRIOR]
    assert select_tick_prices({M: gone[0]}, [M], {}, NOW + timedelta(minutes=30), V1) == []
    assert select_tick_prices({}, [M], {}, NOW, V1) == []


def test_settlement_is_a_final_row_of_the_curve() -> None:
    made = fold([AGENT], [buy_trade("10", "5")], [won("Yes")])
    rows = compute_portfolio_curves(made, [price("0.6", at=NOW.replace(minute=10))])
    assert [(row.at.day, row.cash, row.positions, row.total) for row in rows] == [
        (1, usd(9995), usd(5), usd(10_000)),
        (1, usd(9995), usd(6), usd(10_001)),
        (20, usd(10_005), 0, usd(10_005)),
    ]


def test_live_cohorts_are_worth_what_was_seen_and_reconstructed_ones_also_what_was_rebuilt() -> None:
    other = agent(family="other")
    theirs = buy_trade("10", "5")._replace(
        agent_id=other.agent_id, trade_id=f"{other.agent_id}/{COHORT}/1", position_id=f"{other.agent_id}/{COHORT}/1"
    )
    made = fold([AGENT, other], [buy_trade("10", "5"), theirs], [])
    prices = [
        price("0.6", at=NOW.replace(minute=10))._replace(reconstructed=True),
        price("0.7", at=NOW.replace(minute=20)),
        price("0.8", at=NOW.replace(minute=30))._replace(reconstructed=True),
    ]
    rows = compute_portfolio_curves(made, prices, live={AGENT.agent_id})
    assert [row.positions for row in rows if row.agent_id == AGENT.agent_id] == [usd(5), usd(7)]
    assert [row.positions for row in rows if row.agent_id == other.agent_id] == [usd(5), usd(6), usd(7), usd(8)]
    late = theirs._replace(executed_at=NOW.replace(minute=40))
    bought_late = fold([other], [late], [])
    assert [row.positions for row in compute_portfolio_curves(bought_late, prices, live={other.agent_id})] == [usd(7)]


def _naive(made: History, prices: list[HeldPrice], at: datetime) -> dict[str, Valuation]:
    """Value every portfolio at an instant from all facts known then."""
    then = fold(made.agents, made.trades, made.settlements(), known_at=at)
    newest = {(row.market_id, row.outcome): row for row in prices if row.at <= at}
    return {agent_id: valuation(account, newest, at) for agent_id, account in then.accounts.items()}


@pytest.mark.parametrize("seed", range(2))
def test_between_stored_rows_nothing_changed(seed: int) -> None:
    rng, made = Random(seed), history(seed)
    final = fold(made.agents, made.trades, made.settlements())
    keys = sorted({price_key(position) for account in final.accounts.values() for position in account.positions.values()})
    instants = [interval_start(datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=rng.randrange(24 * 21))) for _ in range(30)]
    last: dict[tuple[str, str], HeldPrice] = {}
    prices: list[HeldPrice] = []
    for at in sorted(set(instants)):
        seen = {key: PriceObservation(rng.randrange(0, 1_000_001), at) for key in keys if rng.random() < 0.7}
        rows = select_tick_prices(last, keys, seen, at, V1)
        last.update({(row.market_id, row.outcome): row for row in rows})
        prices += rows
    rows_of: dict[str, list[Valuation]] = {agent.agent_id: [] for agent in made.agents}
    for row in compute_portfolio_curves(final, prices):
        rows_of[row.agent_id].append(row)
    for at in rng.sample(instants, 8):
        for agent_id, expected in _naive(made, prices, at).items():
            stored = [row for row in rows_of[agent_id] if row.at <= at]
            initial = final.accounts[agent_id].agent.initial_cash
            shown = stored[-1][2:] if stored else (initial, 0, 0, initial, 0, 0)
            assert shown == expected[2:]
