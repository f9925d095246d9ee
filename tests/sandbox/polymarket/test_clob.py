"""The CLOB's routes: books, midpoints, prices, history, markets and fees."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from bellwether.sandbox.polymarket.model import ListedMarket
from bellwether.sandbox.timestamps import to_datetime

UNKNOWN = "7" * 77


@pytest.fixture(scope="module")
def listed(site: Any) -> list[dict[str, Any]]:
    """Gamma's open markets."""
    return site.all("markets", limit=100, closed="false")


@pytest.fixture(scope="module")
def trading(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Open markets that trade, the most traded first."""
    traded = [one for one in listed if "volumeNum" in one and "outcomePrices" in one]
    return sorted(traded, key=lambda one: -one["volumeNum"])


def tokens(one: dict[str, Any]) -> list[str]:
    return json.loads(one["clobTokenIds"])


# --- books ---------------------------------------------------------------------------------------------------------


def test_books_have_their_best_prices_last_and_agree_with_gamma(site: Any, trading: list[dict[str, Any]]) -> None:
    for one in trading[:40]:
        book = site.get("/clob/book", token_id=tokens(one)[0])
        bids, asks = ([Decimal(level["price"]) for level in book[side]] for side in ("bids", "asks"))
        assert bids == sorted(set(bids))
        assert asks == sorted(set(asks), reverse=True)
        assert not bids or not asks or bids[-1] < asks[-1]
        assert all(Decimal(level["size"]) > 0 for level in book["bids"] + book["asks"])
        tick = Decimal(book["tick_size"])
        assert all(price % tick == 0 and 0 < price < 1 for price in bids + asks)
        assert float(tick) == one["orderPriceMinTickSize"]
        assert (float(bids[-1]) if bids else None) == one.get("bestBid")
        assert (float(asks[-1]) if asks else 1) == one["bestAsk"]
        assert book["market"] == one["conditionId"]
        assert book["neg_risk"] == one["negRisk"]
        assert len(book["hash"]) == 40
        assert int(book["timestamp"]) <= site.now.timestamp() * 1000
        assert book["last_trade_price"] == f"{one['lastTradePrice']:.3f}"


def test_the_books_of_both_outcomes_mirror_each_other(site: Any, trading: list[dict[str, Any]]) -> None:
    for one in trading[:20]:
        first, second = (site.get("/clob/book", token_id=token) for token in tokens(one))
        assert first["hash"] != second["hash"]
        for side, other in (("bids", "asks"), ("asks", "bids")):
            mirrored = [(1 - Decimal(level["price"]), Decimal(level["size"])) for level in first[side]]
            assert mirrored == [(Decimal(level["price"]), Decimal(level["size"])) for level in second[other]]


def test_batches_leave_out_unknown_and_closed_tokens(site: Any, trading: list[dict[str, Any]]) -> None:
    closed = site.get("/gamma/markets/keyset", closed="true", limit=1)["markets"][0]
    asked = [tokens(trading[0])[1], UNKNOWN, *tokens(closed), tokens(trading[1])[0]]
    books = site.post("/clob/books", [{"token_id": token} for token in asked]).json()
    assert [book["asset_id"] for book in books] == [asked[0], asked[-1]]
    assert books[0] == site.get("/clob/book", token_id=asked[0])
    middles = site.post("/clob/midpoints", [{"token_id": token} for token in asked]).json()
    assert set(middles) == {asked[0], asked[-1]}
    assert middles[asked[0]] == json.loads(trading[0]["outcomePrices"])[1]


# --- history -------------------------------------------------------------------------------------------------------


def test_prices_of_the_past_are_the_middles_that_the_books_had(at: Any, markets: list[ListedMarket]) -> None:
    checked = 0
    for market in markets[300:1500:60]:
        begin, end = market.opens, market.closes
        last = at(to_datetime(end + 86_400_000_000))
        token = market.tokens[0]
        history = last.get("/clob/prices-history", market=token, startTs=begin // 10**6, endTs=end // 10**6 + 999, fidelity=10)["history"]
        assert history[0]["t"] >= begin // 10**6
        assert history[-1]["t"] < end / 10**6
        for point in history[:: max(len(history) // 4, 1)]:
            then = at(to_datetime(point["t"] * 10**6))
            assert float(then.get("/clob/midpoint", token_id=token)["mid"]) == pytest.approx(point["p"], abs=1e-9)
            checked += 1
    assert checked > 60


def test_history_ends_with_the_clock_and_is_never_rewritten(at: Any, site: Any, trading: list[dict[str, Any]]) -> None:
    token = tokens(trading[0])[0]
    now = site.get("/clob/prices-history", market=token, startTs=0, fidelity=60)["history"]
    assert now
    assert all(point["t"] <= site.now.timestamp() and point["t"] % 3600 == 0 for point in now)
    later = at(site.now + timedelta(days=1)).get("/clob/prices-history", market=token, startTs=0, fidelity=60)["history"]
    assert later[: len(now)] == now


# --- markets -------------------------------------------------------------------------------------------------------


def test_a_market_agrees_with_gamma(site: Any, listed: list[dict[str, Any]]) -> None:
    closed = site.all("markets", limit=100, closed="true", end_date_min="2025-05-01", end_date_max="2025-05-05")
    for one in listed[::9] + closed:
        market = site.get(f"/clob/markets/{one['conditionId']}")
        assert market["closed"] == one["closed"]
        assert market["accepting_orders"] == one["acceptingOrders"]
        assert market["question_id"] == one["questionID"]
        assert market["market_slug"] == one["slug"]
        named = tokens(one)
        # Gamma omits the second token of a few.
        assert [token["token_id"] for token in market["tokens"]][: len(named)] == named and named
        assert [token["outcome"] for token in market["tokens"]] == json.loads(one["outcomes"])
        if "outcomePrices" in one:
            assert [token["price"] for token in market["tokens"]] == pytest.approx([float(p) for p in json.loads(one["outcomePrices"])])
    assert site.refused("/clob/markets/0x12") == (404, {"error": "market not found"})


def test_what_makes_no_sense_is_refused(site: Any) -> None:
    assert site.refused("/clob/book", token_id="1" * 77) == (404, {"error": "No orderbook exists for the requested token id"})
    assert site.refused("/clob/prices-history", market="1" * 77)[0] == 400
    assert site.post("/clob/books", ["1"]).json() == {"error": "Invalid payload"}
    assert site.post("/clob/books", [{"token_id": str(number)} for number in range(501)]).status_code == 400


def test_history_of_very_old_markets_is_gone(at: Any, markets: list[ListedMarket]) -> None:
    market = markets[5]
    params = {"market": market.tokens[0], "startTs": 0, "fidelity": 60}
    assert at(to_datetime(market.closes) + timedelta(days=399)).get("/clob/prices-history", **params)["history"]
    assert at(to_datetime(market.closes) + timedelta(days=401)).get("/clob/prices-history", **params) == {"history": []}
