"""Sells: acceptance rows S."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bellwether.arena.decision import Reason
from bellwether.arena.market import Level, MarketStatus, Quote
from tests.arena.test_bets import BOOK
from tests.arena.world import KEY, REALISTIC, account, bet, bets, binary, bought, holding, mid, named, raw_mid, run, sale, sales, sold, usd

NEXT = KEY.week.replace(day=8)
FIRST = bought("10", "4")


def test_s1_part_of_a_position_is_sold() -> None:
    holder = run(bets(bet("100")), account(), binary(yes="0.6")).account
    done = run(sales(sale("40")), holder, binary(yes="0.6"), week=NEXT)
    assert done.account is not None
    (position,) = done.account.positions.values()
    assert (done.trades[0].amount, done.account.cash) == (usd(40), usd(9940))
    assert position.shares == pytest.approx(usd(100), abs=1)
    assert position.cost == usd(60)


def test_s4_the_cost_of_what_is_sold_goes_with_it() -> None:
    first = bought("1000", "600")
    (position,) = holding(first, sold("400", "300", first, 2)).positions.values()
    assert (position.shares, position.cost, position.realized) == (usd(600), usd(360), usd(60))


def _reasons(decision: object, holder: object, *markets: object, **more: object) -> list[Reason]:
    done = run(decision, holder, *(markets or (binary(),)), week=NEXT, **more)  # type: ignore[arg-type]
    assert done.trades == ()
    return [refusal.reason for refusal in done.refusals]


CASES = {
    "S11": (holding(FIRST, sold("10", "5", FIRST, 2)), sale(), binary(), Reason.NOT_OPEN),
    "S12 zero": (holding(FIRST), sale("0"), binary(), Reason.PERCENTAGE),
    "S12 above": (holding(FIRST), sale("101"), binary(), Reason.PERCENTAGE),
    "S13": (holding(FIRST), sale(), binary(status=MarketStatus.CLOSED), Reason.MARKET_NOT_ACTIVE),
    "S15": (holding(bought("10", "4", side="MAYBE")), sale(), binary(), Reason.SIDE),
    "S16 null": (holding(FIRST), sale(), binary(yes=None), Reason.NO_PRICE),
    "S17 missing": (holding(bought("10", "4", side="A", binary=False)), sale(), named({"B": "0.5", "C": "0.5"}), Reason.SIDE),
    "S17 empty": (holding(bought("10", "4", side="A", binary=False)), sale(), named({"A": None, "B": None}), Reason.NO_PRICE),
    "S17 broken": (holding(bought("10", "4", side="A", binary=False)), sale(), named({"A": "x", "B": "0.5"}), Reason.NO_PRICE),
    "S17 negative": (holding(bought("10", "4", side="A", binary=False)), sale(), named({"A": "-.1", "B": "0.5"}), Reason.NO_PRICE),
    "S17 above": (holding(bought("10", "4", side="A", binary=False)), sale(), named({"A": "1.2", "B": "0.5"}), Reason.NO_PRICE),
    "S19 agent": (None, sale(), binary(), Reason.AGENT_UNKNOWN),
    "S19 position": (account(), sale(), binary(), Reason.POSITION_UNKNOWN),
    "S19 market": (holding(FIRST), sale(), binary("other"), Reason.MARKET_UNKNOWN),
}


@pytest.mark.parametrize("row", CASES)
def test_a_sale_is_refused_and_the_position_stays(row: str) -> None:
    holder, leg, market, reason = CASES[row]
    before = holder.copy() if holder else None
    assert _reasons(sales(leg), holder, market) == [reason]
    assert holder == before


@pytest.mark.parametrize(
    ("row", "quote", "reason"),
    [
        ("S16 nan", mid(float("nan")), Reason.NO_PRICE),
        ("S16 above", raw_mid("1.2"), Reason.PRICE),
        ("S17 negative", raw_mid("-0.1"), Reason.PRICE),
    ],
)
def test_prices_that_cannot_be_are_refused(row: str, quote: Quote, reason: Reason) -> None:
    assert _reasons(sales(sale()), holding(FIRST), quotes={"m": {0: quote}}) == [reason]


def test_another_agents_position_is_refused_as_such() -> None:
    assert _reasons(sales(sale(position_id="2026-03-01/other/2026-03-01/1")), account(), owners={"2026-03-01/other/2026-03-01/1": "o"}) == [
        Reason.NOT_OWNER
    ]


def test_a_refused_sale_does_not_stop_the_others() -> None:
    done = run(sales(sale("50", "missing"), sale("50")), holding(FIRST), binary(), week=NEXT)
    assert [trade.trade_id for trade in done.trades] == [f"{KEY.agent.agent_id}/{NEXT}/2"]
    assert [(refusal.leg, refusal.reason) for refusal in done.refusals] == [(1, Reason.POSITION_UNKNOWN)]


def test_half_of_a_half_is_a_quarter() -> None:
    done = run(sales(sale("50"), sale("50")), holding(FIRST), binary(), week=NEXT)
    assert [trade.shares for trade in done.trades] == [usd(5), usd("2.5")]


def test_a_held_market_outside_the_universe_can_be_sold() -> None:
    done = run(sales(sale("100")), holding(FIRST), binary("other"), quotes={"m": {0: mid("0.5")}}, week=NEXT)
    assert [refusal.reason for refusal in done.refusals] == [Reason.MARKET_UNKNOWN]
    from bellwether.arena.execution import MarketData, execute
    from tests.arena.world import NOW, V1

    data = MarketData({}, {"m": {0: mid("0.5")}}, NOW, held={"m": binary()})
    assert execute(sales(sale("100")), KEY, holding(FIRST), data, V1).trades[0].amount == usd(5)


def test_realistic_sales_walk_the_bids() -> None:
    first = bought("150", "60")
    done = run(sales(sale("100")), holding(first), binary(min_shares=usd(5)), quotes={"m": {0: BOOK}}, rules=REALISTIC, week=NEXT)
    assert done.trades[0].amount == usd("44") + usd("21.5")


def test_the_last_shares_of_a_position_can_always_be_sold() -> None:
    first = bought("0.013", "0.01")
    quote = replace(BOOK, bids=(Level(440_000, usd(100)),))
    done = run(sales(sale("100")), holding(first), binary(min_shares=usd(5)), quotes={"m": {0: quote}}, rules=REALISTIC, week=NEXT)
    assert done.account is not None
    assert not done.account.open
