"""Bets and sales, fill policies, and the order of refusals."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from bellwether.arena.decision import Reason
from bellwether.arena.execution import MarketData, execute
from bellwether.arena.facts import implied_confidence
from bellwether.arena.ledger import fold
from bellwether.arena.market import Level, MarketStatus, Quote, UnknownFees
from bellwether.arena.methodology import Methodology
from bellwether.units import SharePrice
from bellwether.venues.polymarket.fees import FeeSchedule, Regime
from tests.unit.arena.world import (
    AGENT,
    KEY,
    NOW,
    REALISTIC,
    V1,
    V2,
    account,
    account_after,
    bet,
    bets,
    binary,
    buy_trade,
    execute_decision,
    mid,
    named,
    raw_mid,
    sale,
    sales,
    sell_trade,
    usd,
    won,
)


def test_a_bet_buys_shares_at_the_price_of_yes() -> None:
    done = execute_decision(bets(bet("100")), account(), binary(yes="0.4"))
    (trade,) = done.trades
    assert done.account is not None
    position = done.account.positions[trade.position_id]
    assert (trade.shares, done.account.cash, done.account.invested) == (usd(250), usd(9900), usd(100))
    assert (position.cost, position.shares * 400_000 // 10**6, position.realized) == (usd(100), usd(100), 0)
    assert done.account.cash + position.cost == usd(10000)


def test_a_won_bet_pays_a_dollar_per_share() -> None:
    trades = execute_decision(bets(bet("500")), account(), binary(yes="0.4")).trades
    assert trades[0].shares == usd(1250)
    after = fold([AGENT], trades, [won("Yes")]).accounts[AGENT.agent_id]
    assert (after.cash, after.realized) == (usd(10750), usd(750))


REFUSED = {
    "unknown agent": (None, binary(), bet(), Reason.AGENT_UNKNOWN),
    "bankrupt": (account("0"), binary(), bet(), Reason.BANKRUPT),
    "closed market": (account(), binary(status=MarketStatus.CLOSED), bet(), Reason.MARKET_NOT_ACTIVE),
    "zero": (account(), binary(), bet("0"), Reason.NOT_POSITIVE),
    "above the largest bet": (account(), binary(), bet("3000"), Reason.ABOVE_LIMIT),
    "neither side": (account(), binary(), bet(side="MAYBE"), Reason.SIDE),
    "a price of 0": (account(), binary(yes="0"), bet(), Reason.PRICE),
    "a price of NO of 0": (account(), binary(yes="1"), bet(side="NO"), Reason.PRICE),
    "an outcome that was removed": (account(), named({"B": "0.5", "C": "0.5"}), bet(side="A"), Reason.SIDE),
    "an outcome without a price": (account(), named({"A": None, "B": None}), bet(side="A"), Reason.NO_MIDPOINT),
    "an outcome at 0": (account(), named({"A": "0", "B": "0.5"}), bet(side="A"), Reason.PRICE),
    "unknown market": (account(), binary(), bet(market_id="other"), Reason.MARKET_UNKNOWN),
    "negative": (account(), binary(), bet("-5"), Reason.NOT_POSITIVE),
    "above the cash": (account("60"), binary(), bet("61"), Reason.ABOVE_LIMIT),
}


def test_a_bet_is_refused_and_nothing_changes() -> None:
    for case, (holder, market, leg, reason) in REFUSED.items():
        before = holder.copy() if holder else None
        done = execute_decision(bets(leg), holder, market)
        assert [refusal.reason for refusal in done.refusals] == [reason], case
        assert done.trades == ()
        assert done.account == before == holder


@pytest.mark.parametrize(("case", "quote"), [("not a number", mid(float("nan"))), ("above 1", mid("1.2")), ("no quote", None)])
def test_without_a_validated_live_price_there_is_no_fill(case: str, quote: Quote | None) -> None:
    quotes = {"m": {} if quote is None else {0: quote}}
    done = execute_decision(bets(bet()), account(), binary(yes="0.5"), quotes=quotes)
    assert [refusal.reason for refusal in done.refusals] == [Reason.NO_MIDPOINT]


def test_a_price_above_one_is_never_filled_at() -> None:
    market = named({"A": "0.5", "B": "0.5"})
    done = execute_decision(bets(bet(side="A")), account(), market, quotes={"m": {0: raw_mid("1.2")}})
    assert [refusal.reason for refusal in done.refusals] == [Reason.PRICE]
    assert "1.2" in done.refusals[0].message


@pytest.mark.parametrize("rules", [V1, V2, REALISTIC], ids=lambda rules: rules.name)
def test_a_leg_that_the_venue_cannot_fill_is_refused_alone(rules: Methodology) -> None:
    """Each leg has its own reason: a closed market, an empty book, a thin book, a price off the grid, an order below the minimum."""
    ask = SharePrice(400_000)
    resting = {"thin": Level(ask, usd(1)), "grid": Level(SharePrice(405_000), usd(1000))}
    quotes = {name: {0: Quote(ask, ask, level.price, asks=(level,))} for name, level in resting.items()}
    quotes |= {name: {0: Quote(ask, ask, ask, asks=(Level(ask, usd(1000)),))} for name in ("fine", "closed", "small")}
    quotes |= {"empty": {0: Quote(None)}}
    markets = [binary(name, tick=SharePrice(10_000)) for name in ("thin", "grid", "fine", "empty")]
    markets += [binary("closed", status=MarketStatus.CLOSED), binary("small", min_shares=usd(1000))]
    names = ["thin", "grid", "empty", "closed", "small", "fine"]
    done = execute_decision(bets(*[bet("60", market_id=name) for name in names]), account(), *markets, quotes=quotes, rules=rules)
    refused = {names[refusal.leg - 1]: refusal.reason for refusal in done.refusals}
    always = {"empty": Reason.NO_MIDPOINT, "closed": Reason.MARKET_NOT_ACTIVE}
    of_the_book = {"thin": Reason.DEPTH, "grid": Reason.OFF_TICK, "small": Reason.TOO_SMALL}
    assert refused == (always if rules.fill == "mid" else always | of_the_book)
    assert [trade.market_id for trade in done.trades] == [name for name in names if name not in refused]
    assert done.account is not None
    assert done.account.cash == usd(10000) - sum(trade.amount for trade in done.trades)


def test_limits_and_cash_refuse_a_leg_in_v1_and_the_decision_in_v2() -> None:
    legs = bets(bet("100"), bet("-1", market_id="n"))
    alone = execute_decision(legs, account(), binary(), binary("n"), rules=V1)
    assert ([trade.market_id for trade in alone.trades], [one.reason for one in alone.refusals]) == (["m"], [Reason.NOT_POSITIVE])
    whole = execute_decision(legs, account(), binary(), binary("n"), rules=V2)
    assert [(one.leg, one.reason) for one in whole.refusals] == [(1, Reason.BATCH), (2, Reason.NOT_POSITIVE)]
    assert (whole.trades, whole.account) == ((), account())


@pytest.mark.parametrize("rules", [V1, V2, REALISTIC], ids=lambda rules: rules.name)
@pytest.mark.parametrize(
    ("quote", "missing"),
    [
        (Quote(None, bid=usd("0.3"), bids=(Level(usd("0.3"), usd(1000)),)), "the book has no ask"),
        (Quote(None, ask=usd("0.3"), asks=(Level(usd("0.3"), usd(1000)),)), "the book has no bid"),
        (Quote(None), "the book has no bid and no ask"),
        (None, "the book has no bid and no ask"),
    ],
    ids=["bid", "ask", "empty", "missing"],
)
def test_a_market_without_a_midpoint_is_refused(rules: Methodology, quote: Quote | None, missing: str) -> None:
    """The price of the listing replaces no midpoint, neither for a bet nor for a sale."""
    quotes = {"m": {} if quote is None else {0: quote}}
    for decision, holder in ((bets(bet("70")), account()), (sales(sale()), account_after(FIRST))):
        done = execute_decision(decision, holder, binary(yes="0.35"), quotes=quotes, rules=rules)
        assert [(one.reason, one.message) for one in done.refusals] == [(Reason.NO_MIDPOINT, f"YES of m: {missing}")]
        assert done.trades == ()


def test_the_value_of_a_fill_without_a_counterparty() -> None:
    """mid: beyond the best price of the other side, which earlier legs of the decision use up. realistic: nothing, and at most what the book has."""
    quote = Quote(450_000, 440_000, 460_000, bids=(Level(440_000, usd(30)),), asks=(Level(460_000, usd(100)), Level(470_000, usd(900))))
    done = execute_decision(bets(bet("27"), bet("36"), bet("55", "NO")), account(), binary(), quotes={"m": {0: quote}})
    # 60 of 100 shares; 40 of 80 at 0.45; 30 of 100 at 0.55.
    assert [trade.unmatched for trade in done.trades] == [0, usd("18"), usd("38.5")]
    sold = execute_decision(sales(sale("50")), account_after(buy_trade("200", "80")), binary(), quotes={"m": {0: quote}})
    assert [trade.unmatched for trade in sold.trades] == [usd("31.5")]
    unsized = execute_decision(bets(bet("27")), account(), binary(), quotes={"m": {0: Quote(450_000)}})
    assert [trade.unmatched for trade in unsized.trades] == [None]
    legs = bets(bet("400"), bet("75"))
    walked = execute_decision(legs, account(), binary(), quotes={"m": {0: quote}}, rules=REALISTIC)
    assert [trade.unmatched for trade in walked.trades] == [0]
    assert [(one.leg, one.reason) for one in walked.refusals] == [(2, Reason.DEPTH)], "the first leg took 853 of 1,000 shares"
    unsized = execute_decision(legs, account(), binary(), quotes={"m": {0: Quote(450_000, 440_000, 460_000)}}, rules=REALISTIC)
    assert {one.reason for one in unsized.refusals} == {Reason.DEPTH}


def test_legs_of_a_decision_have_one_base() -> None:
    done = execute_decision(bets(bet("1000"), bet("500", market_id="n")), account(), binary(), binary("n"))
    assert [trade.confidence for trade in done.trades] == [0.4, 0.2]
    turned = execute_decision(bets(bet("500", market_id="n"), bet("1000")), account(), binary(), binary("n"))
    assert [trade.confidence for trade in turned.trades] == [0.2, 0.4]


def test_no_is_filled_at_what_yes_leaves_of_a_dollar_whatever_the_order_of_tokens() -> None:
    market = replace(binary(), outcomes=("No", "Yes"), token_ids=("n", "y"))
    done = execute_decision(bets(bet(side="NO"), bet(side="YES")), account(), market, quotes={"m": {0: mid("0.1"), 1: mid("0.2")}})
    assert [trade.price for trade in done.trades] == [800_000, 200_000]


def test_an_outcome_called_no_in_a_market_of_several_is_an_outcome() -> None:
    done = execute_decision(bets(bet(side="NO")), account(), named({"Alice": "0.25", "Bob": "0.1", "No": "0.5"}))
    assert [(trade.side, trade.price) for trade in done.trades] == [("No", 500_000)]


def test_in_v2_all_bets_share_the_limit() -> None:
    two = bets(bet("1500"), bet("1500", market_id="n"))
    assert len(execute_decision(two, account(), binary(), binary("n"), rules=V1).trades) == 2
    done = execute_decision(two, account(), binary(), binary("n"), rules=V2)
    assert {refusal.reason for refusal in done.refusals} == {Reason.TOTAL_ABOVE_LIMIT}


@pytest.mark.parametrize(("second", "reasons"), [("1250.01", set()), ("1250.010001", {Reason.TOTAL_ABOVE_LIMIT})])
def test_the_limit_of_all_bets_is_a_quarter_of_the_cash_and_a_cent(second: str, reasons: set[Reason]) -> None:
    done = execute_decision(bets(bet("1250"), bet(second, market_id="n")), account(), binary(), binary("n"), rules=V2)
    assert {refusal.reason for refusal in done.refusals} == reasons
    assert len(done.trades) == (0 if reasons else 2)


def test_bets_never_spend_more_than_the_cash() -> None:
    done = execute_decision(bets(*[bet("2500", market_id=name) for name in "abcde"]), account(), *[binary(name) for name in "abcde"])
    assert [(refusal.leg, refusal.reason) for refusal in done.refusals] == [(5, Reason.ABOVE_CASH)]
    assert done.account is not None
    assert done.account.cash == 0


def test_a_bet_of_the_printed_limit_is_executed() -> None:
    for cents in range(999_900, 1_000_000):
        cash = Decimal(cents) / 100
        amount = V1.printed_largest_bet(usd(str(cash)))
        done = execute_decision(bets(replace(bet(), amount=amount)), account(str(cash)), binary())
        assert len(done.trades) == 1
        assert done.trades[0].confidence == pytest.approx(1, abs=1e-5)


BOOK = Quote(
    mid=450_000,
    bid=440_000,
    ask=460_000,
    at=NOW,
    bids=(Level(440_000, usd(100)), Level(430_000, usd(1000))),
    asks=(Level(460_000, usd(100)), Level(480_000, usd(1000))),
)
FEES = FeeSchedule(Regime.BY_SHARES, Decimal("0.04"))


def test_realistic_buys_walk_the_asks_in_whole_steps_and_pay_fees() -> None:
    market = binary(tick=10_000, min_shares=usd(5), fees=FEES)
    (trade,) = execute_decision(bets(bet("100")), account(), market, quotes={"m": {0: BOOK}}, rules=REALISTIC).trades
    # 100 shares at 0.46, then 54 dollars at 0.48: 112.50 shares.
    assert trade.shares == usd("212.5")
    assert trade.amount == usd("46") + usd("54")
    assert trade.fee == usd(str(FEES.fee(100, Decimal("0.46"), "buy") + FEES.fee(Decimal("112.5"), Decimal("0.48"), "buy")))
    assert (trade.bid, trade.mid, trade.ask, trade.quoted_at) == (440_000, 450_000, 460_000, NOW)


def test_realistic_no_is_bought_at_what_the_bid_for_yes_leaves_of_a_dollar() -> None:
    (trade,) = execute_decision(bets(bet("56", "NO")), account(), binary(), quotes={"m": {0: BOOK}}, rules=REALISTIC).trades
    assert (trade.price, trade.shares) == (560_000, usd(100))


def off_tick(*prices: tuple[str, int], **more: object) -> Quote:
    """Return a book of asks with these prices and sizes."""
    asks = tuple(Level(usd(price), usd(size)) for price, size in prices)
    return Quote(mid=asks[0].price, ask=asks[0].price, at=NOW, asks=asks, **more)  # type: ignore[arg-type]


def test_one_level_between_two_ticks_is_skipped_and_counted() -> None:
    """Tick 0.01, asks 0.95 (1,000) and 0.965 (10), 100 dollars: the first level suffices."""
    quotes = {"m": {0: off_tick(("0.95", 1000), ("0.965", 10))}}
    (trade,) = execute_decision(bets(bet("100")), account(), binary(tick=10_000), quotes=quotes, rules=REALISTIC).trades
    assert (trade.price, trade.shares, trade.skipped_levels) == (950_000, usd("105.26"), 1)
    best = {"m": {0: off_tick(("0.945", 10), ("0.95", 1000))}}
    (trade,) = execute_decision(bets(bet("100")), account(), binary(tick=10_000), quotes=best, rules=REALISTIC).trades
    assert (trade.price, trade.skipped_levels) == (950_000, 1)


def test_the_tick_of_the_book_counts_before_that_of_the_listing() -> None:
    """Ticks become finer near 0 and 1, and the book shows that first."""
    quotes = {"m": {0: off_tick(("0.965", 1000), tick=1_000, skipped=3)}}
    (trade,) = execute_decision(bets(bet("100")), account(), binary(tick=10_000), quotes=quotes, rules=REALISTIC).trades
    assert (trade.price, trade.skipped_levels) == (965_000, 3)


def test_unknown_fees_refuse_a_trade_where_fees_are_charged() -> None:
    market = binary(fees=UnknownFees("reading the fees of market 'm': feeSchedule.rate is 7"))
    done = execute_decision(bets(bet("100")), account(), market, quotes={"m": {0: BOOK}}, rules=REALISTIC)
    assert [(one.reason, "feeSchedule.rate is 7" in one.message) for one in done.refusals] == [(Reason.FEES, True)]
    assert execute_decision(bets(bet("100")), account(), market, quotes={"m": {0: BOOK}}, rules=V1).trades[0].fee == 0, "v1 charges no fees"


def test_a_fee_that_the_cash_cannot_pay_is_refused() -> None:
    rules = REALISTIC.model_copy(update={"bet_fraction": Decimal(1)})
    done = execute_decision(
        bets(bet("10000")),
        account(),
        binary(fees=FEES),
        quotes={"m": {0: replace(BOOK, asks=(Level(460_000, usd(100_000)),))}},
        rules=rules,
    )
    assert [refusal.reason for refusal in done.refusals] == [Reason.FEE_ABOVE_CASH]


def test_confidence_is_the_share_of_the_largest_bet() -> None:
    assert implied_confidence(usd(100), usd(10_000), V1) == 0.04
    assert implied_confidence(usd(10_000), usd(100), V1) == 1
    assert implied_confidence(usd(100), 0, V1) == 0


NEXT = KEY.week.replace(day=8)
FIRST = buy_trade("10", "4")
NAMED = buy_trade("10", "4", side="A", binary=False)


def test_part_of_a_position_is_sold() -> None:
    holder = execute_decision(bets(bet("100")), account(), binary(yes="0.6")).account
    done = execute_decision(sales(sale("40")), holder, binary(yes="0.6"), week=NEXT)
    assert done.account is not None
    (position,) = done.account.positions.values()
    assert (done.trades[0].amount, done.account.cash) == (usd(40), usd(9940))
    assert position.shares == pytest.approx(usd(100), abs=1)
    assert position.cost == usd(60)


def test_the_cost_of_what_is_sold_goes_with_it() -> None:
    first = buy_trade("1000", "600")
    (position,) = account_after(first, sell_trade("400", "300", first, 2)).positions.values()
    assert (position.shares, position.cost, position.realized) == (usd(600), usd(360), usd(60))


def _reasons(decision: object, holder: object, *markets: object, **more: object) -> list[Reason]:
    done = execute_decision(decision, holder, *(markets or (binary(),)), week=NEXT, **more)  # type: ignore[arg-type]
    assert done.trades == ()
    return [refusal.reason for refusal in done.refusals]


CASES = {
    "a sold position": (account_after(FIRST, sell_trade("10", "5", FIRST, 2)), sale(), binary(), Reason.NOT_OPEN),
    "zero": (account_after(FIRST), sale("0"), binary(), Reason.PERCENTAGE),
    "above 100": (account_after(FIRST), sale("101"), binary(), Reason.PERCENTAGE),
    "closed market": (account_after(FIRST), sale(), binary(status=MarketStatus.CLOSED), Reason.MARKET_NOT_ACTIVE),
    "neither side": (account_after(buy_trade("10", "4", side="MAYBE")), sale(), binary(), Reason.SIDE),
    "no price": (account_after(FIRST), sale(), binary(yes=None), Reason.NO_MIDPOINT),
    "an outcome that was removed": (account_after(NAMED), sale(), named({"B": "0.5", "C": "0.5"}), Reason.SIDE),
    "an outcome without a price": (account_after(NAMED), sale(), named({"A": None, "B": None}), Reason.NO_MIDPOINT),
    "a price as text": (account_after(NAMED), sale(), named({"A": "x", "B": "0.5"}), Reason.NO_MIDPOINT),
    "a negative price": (account_after(NAMED), sale(), named({"A": "-.1", "B": "0.5"}), Reason.NO_MIDPOINT),
    "a price above 1": (account_after(NAMED), sale(), named({"A": "1.2", "B": "0.5"}), Reason.NO_MIDPOINT),
    "unknown agent": (None, sale(), binary(), Reason.AGENT_UNKNOWN),
    "unknown position": (account(), sale(), binary(), Reason.POSITION_UNKNOWN),
    "unknown market": (account_after(FIRST), sale(), binary("other"), Reason.MARKET_UNKNOWN),
}


def test_a_sale_is_refused_and_the_position_stays() -> None:
    for case, (holder, leg, market, reason) in CASES.items():
        before = holder.copy() if holder else None
        assert _reasons(sales(leg), holder, market) == [reason], case
        assert holder == before


@pytest.mark.parametrize(
    ("case", "quote", "reason"),
    [
        ("not a number", mid(float("nan")), Reason.NO_MIDPOINT),
        ("above 1", raw_mid("1.2"), Reason.PRICE),
        ("a negative price", raw_mid("-0.1"), Reason.PRICE),
    ],
)
def test_prices_that_cannot_be_are_refused(case: str, quote: Quote, reason: Reason) -> None:
    assert _reasons(sales(sale()), account_after(FIRST), quotes={"m": {0: quote}}) == [reason]


def test_another_agents_position_is_refused_as_such() -> None:
    assert _reasons(sales(sale(position_id="2026-03-01/other/2026-03-01/1")), account(), owners={"2026-03-01/other/2026-03-01/1": "o"}) == [
        Reason.NOT_OWNER
    ]


def test_a_refused_sale_does_not_stop_the_others() -> None:
    done = execute_decision(sales(sale("50", "missing"), sale("50")), account_after(FIRST), binary(), week=NEXT)
    assert [trade.trade_id for trade in done.trades] == [f"{KEY.agent.agent_id}/{NEXT}/2"]
    assert [(refusal.leg, refusal.reason) for refusal in done.refusals] == [(1, Reason.POSITION_UNKNOWN)]


def test_half_of_a_half_is_a_quarter() -> None:
    done = execute_decision(sales(sale("50"), sale("50")), account_after(FIRST), binary(), week=NEXT)
    assert [trade.shares for trade in done.trades] == [usd(5), usd("2.5")]


def test_a_held_market_outside_the_universe_can_be_sold() -> None:
    done = execute_decision(sales(sale("100")), account_after(FIRST), binary("other"), quotes={"m": {0: mid("0.5")}}, week=NEXT)
    assert [refusal.reason for refusal in done.refusals] == [Reason.MARKET_UNKNOWN]
    data = MarketData({}, {"m": {0: mid("0.5")}}, NOW, held={"m": binary()})
    assert execute(sales(sale("100")), KEY, account_after(FIRST), data, V1).trades[0].amount == usd(5)


def test_realistic_sales_walk_the_bids() -> None:
    first = buy_trade("150", "60")
    done = execute_decision(
        sales(sale("100")), account_after(first), binary(min_shares=usd(5)), quotes={"m": {0: BOOK}}, rules=REALISTIC, week=NEXT
    )
    assert done.trades[0].amount == usd("44") + usd("21.5")


def test_the_last_shares_of_a_position_can_always_be_sold() -> None:
    first = buy_trade("0.013", "0.01")
    quote = replace(BOOK, bids=(Level(440_000, usd(100)),))
    done = execute_decision(
        sales(sale("100")), account_after(first), binary(min_shares=usd(5)), quotes={"m": {0: quote}}, rules=REALISTIC, week=NEXT
    )
    assert done.account is not None
    assert not done.account.open
