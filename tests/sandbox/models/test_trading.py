"""Decisions about money follow the personality's probabilities and the prices that the prompt shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.instants import instant
from bellwether.sandbox.models import Truth
from bellwether.sandbox.models.author import Reply
from bellwether.sandbox.models.reading import cash, dollars, holdings, least_bet, most_share, offers
from bellwether.sandbox.polymarket.generated import GeneratedPolymarket
from bellwether.sandbox.world.model import Market

NOW = datetime(2025, 5, 4, tzinfo=UTC)

RULES = """You manage a paper portfolio. Answer with JSON only, one of:
{"action": "BET", "bets": [{"market_id": "...", "side": "YES", "amount": 500.0}], "reasoning": "..."}
{"action": "SELL", "sells": [{"position_id": "...", "percentage": 100}], "reasoning": "..."}
{"action": "HOLD", "reasoning": "..."}
The minimum bet is $50; all bets together at most 25% of your current cash."""


@pytest.fixture(scope="module")
def open_market(world: GeneratedWorld, truth: Truth) -> Market:
    """An open market whose outcome is in doubt."""
    at = instant(NOW)
    markets = (market for home in range(125, 140) for event in world.day(home).events if not event.is_combo for market in event.markets)
    return next(
        market
        for market in markets
        if market.life.opens < at < market.life.closes and 0.3 < truth.by_id(market.ticker, at).probability < 0.7  # type: ignore[union-attr]
    )


def listed(market_id: str, question: str, price: float, form: str = "lines") -> str:
    if form == "json":
        return json.dumps({"market_id": market_id, "question": question, "yes_price": price, "volume": 120345.0})
    return f'- ID: {market_id}\n  "{question}"\n  Category: Sports | Type: binary | Prices: YES: {100 * price:.1f}% / NO: {100 - 100 * price:.1f}%\n  Volume: $1,203,450'


def portfolio(markets: list[str], positions: str = "None", money: str = "10,000.00") -> str:
    return (
        f"Date: 2025-05-04, week 3\nCash: ${money}\nMaximum total allocation: $2,500.00\nTotal value: $12,345.67\n\n"
        f"Positions:\n{positions}\n\nMARKETS ({len(markets)}):\n" + "\n".join(markets)
    )


def decision(says: Callable[..., Reply], text: str, model: str = "calibrated") -> dict[str, Any]:
    reply = says(model, [{"role": "system", "content": RULES}, {"role": "user", "content": text}], now=NOW)
    return json.loads(reply.content or "")


@pytest.mark.parametrize("form", ["lines", "json"])
@pytest.mark.parametrize(("shift", "side"), [(-0.2, "YES"), (0.2, "NO")])
def test_it_bets_on_the_side_that_is_too_cheap(says: Any, truth: Truth, open_market: Market, form: str, shift: float, side: str) -> None:
    p = truth.by_id(open_market.ticker, instant(NOW)).probability  # type: ignore[union-attr]
    made = decision(says, portfolio([listed(open_market.ticker, open_market.terms["title"], p + shift, form)]))
    assert made["action"] == "BET"
    [bet] = made["bets"]
    assert (bet["market_id"], bet["side"]) == (open_market.ticker, side)
    assert bet["amount"] == pytest.approx(2500 * (p if side == "YES" else 1 - p), abs=0.3)
    assert made["reasoning"].strip()


def test_the_bet_goes_to_the_largest_edge_by_question_where_the_id_is_foreign(says: Any, truth: Truth, open_market: Market) -> None:
    p = truth.by_id(open_market.ticker, instant(NOW)).probability  # type: ignore[union-attr]
    question = f"{open_market.terms['title']} — {open_market.terms['yes_sub_title']}"
    markets = [
        listed("7f9c-a1", "Will nobody ever know this?", 0.01),
        listed("7f9c-a2", question, p - 0.08),
        listed("7f9c-a3", question, p - 0.25),
        listed("7f9c-a4", question, p + 0.01),
    ]
    assert decision(says, portfolio(markets))["bets"][0]["market_id"] == "7f9c-a3"


def test_it_holds_where_prices_are_right_or_unknown_or_there_is_no_money(says: Any, truth: Truth, open_market: Market) -> None:
    p = truth.by_id(open_market.ticker, instant(NOW)).probability  # type: ignore[union-attr]
    right = listed(open_market.ticker, open_market.terms["title"], p)
    cheap = listed(open_market.ticker, open_market.terms["title"], p - 0.2)
    unknown = listed("1", "Will nobody ever know this?", 0.05)
    for text in (portfolio([right]), portfolio([unknown]), portfolio([cheap], money="120.00"), "Nothing to see here."):
        made = decision(says, text)
        assert (set(made), made["action"]) == ({"action", "reasoning"}, "HOLD")


def test_it_sells_what_is_too_dear(says: Any, truth: Truth, open_market: Market) -> None:
    p = truth.by_id(open_market.ticker, instant(NOW)).probability  # type: ignore[union-attr]
    held = f'- Position ID: pos-7, "{open_market.terms["title"]} — {open_market.terms["yes_sub_title"]}", side: YES, 100.00 shares, entry 40.0%, '
    sold = decision(says, portfolio([], f"{held}current: {100 * p + 15:.1f}%, value $50.00"))
    assert sold | {"reasoning": ""} == {"action": "SELL", "sells": [{"position_id": "pos-7", "percentage": 100}], "reasoning": ""}
    assert decision(says, portfolio([], f"{held}current: {100 * p - 15:.1f}%, value $50.00"))["action"] == "HOLD"


def test_personalities_disagree_as_their_skill_says(says: Any, truth: Truth, open_market: Market, world: GeneratedWorld) -> None:
    at = instant(NOW)
    likely = next(
        market
        for home in range(125, 140)
        for event in world.day(home).events
        if not event.is_combo
        for market in event.markets
        if market.life.opens < at < market.life.closes and 0.75 < truth.by_id(market.ticker, at).probability < 0.85  # type: ignore[union-attr]
    )
    text = portfolio([listed(likely.ticker, likely.terms["title"], truth.by_id(likely.ticker, at).probability)])  # type: ignore[union-attr]
    made = {model: decision(says, text, model) for model in ("calibrated", "overconfident", "timid", "contrarian")}
    assert made["calibrated"]["action"] == "HOLD"
    assert made["overconfident"]["bets"][0]["side"] == "YES"
    assert made["timid"]["bets"][0]["side"] == made["contrarian"]["bets"][0]["side"] == "NO"


def test_markets_of_polymarket_are_traded_by_their_ids(world: GeneratedWorld) -> None:
    polymarket = GeneratedPolymarket(world)
    truth, at = Truth(world, polymarket), instant(NOW)
    markets = (market for home in range(125, 140) for event in polymarket.day(home) for market in event.markets)
    market = next(one for one in markets if one.opens < at < one.answered and 0.3 < truth.by_id(one.id, at).probability < 0.7)  # type: ignore[union-attr]
    from bellwether.sandbox.models.author import Author
    from bellwether.sandbox.models.request import read

    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": portfolio([listed(market.id, market.question, 0.1)])}]
    reply = Author(truth, read(json.dumps({"model": "calibrated", "messages": messages}).encode()), at).reply(0)
    assert json.loads(reply.content or "")["bets"][0]["market_id"] == market.id


def test_five_hundred_markets_are_read(says: Any, world: GeneratedWorld, truth: Truth) -> None:
    at = instant(NOW)
    markets = [market for home in range(120, 175) for event in world.day(home).events if not event.is_combo for market in event.markets]
    listing = [listed(market.ticker, market.terms["title"], 0.5) for market in markets if market.life.opens < at < market.life.closes][:500]
    assert len(listing) > 100
    assert len(offers(portfolio(listing))) == len(listing)
    assert decision(says, portfolio(listing))["action"] == "BET"


# --- reading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "price"),
    [
        ("market_id: a\nYES 37.5%", 0.375),
        ('{"ticker": "a", "yes_ask": 38, "yes_bid": 36}', 0.38),
        ('{"ticker": "a", "yes_ask_dollars": "0.3800"}', 0.38),
        ('{"id": "a", "yes_price": 0.38}', 0.38),
        ("ID: a | Yes: 38¢", 0.38),
        ('{"market_id":"a","yes_best_ask_cents":1}', 0.01),
        ("ID: a | YES: .38", 0.38),
    ],
)
def test_prices_are_read_in_every_unit(block: str, price: float) -> None:
    [offer] = offers(block)
    assert (offer.market_id, offer.yes) == ("a", pytest.approx(price))


@pytest.mark.parametrize("block", ["", "market_id: a", "YES 40%", "ID: a YES: 0%", "ID: a YES: 100%", "identity: YES 5%"])
def test_what_has_no_price_is_no_offer(block: str) -> None:
    assert not offers(block)


def test_money_and_terms_are_read() -> None:
    text = "Cash balance: $9,999.99. Minimum bet $25, at most 10% of your current cash."
    assert (cash(text), least_bet(text), most_share(text)) == (9999.99, 25.0, 0.1)
    assert (cash('{"cash_cents": 12345}'), cash("no money"), least_bet(""), most_share("")) == (123.45, None, 50.0, 0.25)
    assert dollars("50", "%") == dollars("50", None) == dollars("0.5", None) == 0.5
    assert not holdings("position_id: 5, side: YES")
