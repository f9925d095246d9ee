"""Kalshi's rules in the arena as literal values: markets from contracts, prices of both sides, fees and results."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import orjson
import pytest

from bellwether.arena.facts import Result
from bellwether.arena.frames import evidence_frame, observations_from_rows
from bellwether.arena.kalshi import (
    NONE_OF_THEM,
    MarketListing,
    build_evidence_row,
    build_market,
    find_candidates,
    group_contracts,
    judge_results,
    quote_from_book,
    reconstruct_evidence,
)
from bellwether.arena.ledger import fold, violations
from bellwether.arena.market import KalshiFees, Quote, UnknownFees, find_quote, kalshi_fees
from bellwether.arena.methodology import load_methodology
from bellwether.arena.resolution import UNKNOWN, Ruling, derive_settlements
from bellwether.arena.scores import score_bets
from bellwether.venues.polymarket.fees import FREE
from tests.unit.arena.world import KEY, account, agent, bet, bets, execute_decision, usd

AT = datetime(2026, 4, 5, 0, 5, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def contract(ticker: str = "KXA-1-X", event: str = "KXA-1", **more: Any) -> dict[str, Any]:
    """Return a contract at 40 to 44 cents that opened a week ago and ends in a week."""
    plain = {
        "ticker": ticker,
        "event_ticker": event,
        "title": "Who wins?",
        "yes_sub_title": ticker.rpartition("-")[2],
        "status": "active",
        "result": "",
        "created_at": AT - 8 * DAY,
        "open_time": AT - 7 * DAY,
        "close_time": AT + 9 * DAY,
        "expected_expiration_time": AT + 7 * DAY,
        "yes_bid": Decimal("0.40"),
        "yes_ask": Decimal("0.44"),
        "volume": Decimal("120.50"),
        "price_level_structure": "linear_cent",
        "is_combo": False,
    }
    return {**plain, **more}


def event(ticker: str = "KXA-1", **more: Any) -> dict[str, Any]:
    return {"event_ticker": ticker, "series_ticker": "KXA", "title": "The race", "mutually_exclusive": True, "category": "Sports", **more}


def paid(result: str, value: str | None = None, ticker: str = "KXA-1-X", **more: Any) -> dict[str, Any]:
    """Return a contract that was paid out at `AT`."""
    word = {"yes": "1", "no": "0"}.get(result) if value is None else value
    done = {"status": "finalized", "result": result, "settlement_value": word and Decimal(word), "settled_at": AT, "close_time": AT - HOUR}
    return contract(ticker, **{**done, **more})


RACE = [contract("KXA-1-X"), contract("KXA-1-Y", yes_bid=Decimal("0.50"), yes_ask=Decimal("0.52"))]
SERIES: dict[str, dict[str, Any]] = {"KXA": {"fee_type": "quadratic", "fee_multiplier": Decimal("0.5"), "category": "Sports"}}


# --- markets -----------------------------------------------------------------------------------------------------


def test_contracts_of_an_exclusive_event_are_one_market_with_named_outcomes() -> None:
    (one,) = group_contracts(reversed(RACE), {"KXA-1": event()})
    market = build_market(one, SERIES, AT)
    assert (market.market_id, market.question, market.event_id, market.category) == ("KXA-1", "The race", "KXA-1", "Sports")
    assert market.outcomes == ("X", "Y")
    assert market.token_ids == ("KXA-1-X", "KXA-1-Y")
    assert market.prices == (420_000, 510_000)
    assert not market.binary
    assert market.volume == usd("241")
    assert (market.tick, market.min_shares, market.closes_at) == (10_000, None, AT + 7 * DAY)


@pytest.mark.parametrize(
    ("contracts", "events"),
    [
        (RACE, {"KXA-1": event(mutually_exclusive=False)}),
        (RACE, {"KXA-1": event(mutually_exclusive=None)}),
        (RACE, {}),
        ([RACE[0], {**RACE[1], "yes_sub_title": " x"}], {"KXA-1": event()}),
        ([RACE[0], {**RACE[1], "yes_sub_title": ""}], {"KXA-1": event()}),
        ([RACE[0], {**RACE[1], "yes_sub_title": "No"}], {"KXA-1": event()}),
        ([RACE[0], {**RACE[1], "ticker": "KXA-1"}], {"KXA-1": event()}),
    ],
)
def test_other_contracts_are_markets_with_two_sides(contracts: list[dict[str, Any]], events: dict[str, dict[str, Any]]) -> None:
    found = [build_market(one, SERIES, AT) for one in group_contracts(contracts, events)]
    assert sorted(market.market_id for market in found) == sorted(row["ticker"] for row in contracts)
    assert {market.outcomes for market in found} == {("Yes", "No")}
    by_id = {market.market_id: market for market in found}
    assert by_id["KXA-1-X"].prices == (420_000, 580_000)
    assert by_id["KXA-1-X"].token_ids == ("KXA-1-X",)


@pytest.mark.parametrize(
    ("title", "label", "event_title", "said"),
    [
        ("Will it rain?", "In May", "Rain", "Will it rain?"),
        ("Rain in?", "May", "Rain in?", "Rain in? — May"),
        ("Rain in?", "Yes", "rain in?", "Rain in?"),
        ("", "May", "Rain in?", "Rain in? — May"),
        ("", "", "", "KXA-1-X"),
    ],
)
def test_the_question_of_a_contract(title: str, label: str, event_title: str, said: str) -> None:
    row = contract(title=title, yes_sub_title=label)
    (one,) = group_contracts([row], {"KXA-1": event(title=event_title, mutually_exclusive=False)})
    assert build_market(one, {}, AT).question == said


# --- prices ------------------------------------------------------------------------------------------------------


def test_who_bids_for_no_offers_yes() -> None:
    quote = quote_from_book([(Decimal("0.38"), Decimal(9)), (Decimal("0.40"), Decimal(5))], [(Decimal("0.56"), Decimal("7.5"))], AT)
    assert (quote.bid, quote.mid, quote.ask) == (400_000, 420_000, 440_000)
    assert [(level.price, level.shares) for level in quote.bids] == [(400_000, 5_000_000), (380_000, 9_000_000)]
    assert [(level.price, level.shares) for level in quote.asks] == [(440_000, 7_500_000)]
    market = build_market(group_contracts([contract()], {})[0], {}, AT)
    no = find_quote(market, "NO", {0: quote})
    assert no is not None
    assert (no.bid, no.mid, no.ask) == (560_000, 580_000, 600_000), "what YES is bid leaves NO's ask of a dollar"
    assert (no.at, no.source) == (AT, "orderbook")


# --- fees --------------------------------------------------------------------------------------------------------


def test_fees_by_series_and_event() -> None:
    series, stated = (
        {"fee_type": "quadratic_with_maker_fees", "fee_multiplier": Decimal("0.500000")},
        {"fee_multiplier_override": Decimal(0)},
    )
    assert kalshi_fees(None, series, AT) == KalshiFees("kalshi-2026-03-09", "quadratic_with_maker_fees", "0.5")
    assert kalshi_fees(stated, series, AT) == KalshiFees("kalshi-2026-03-09", "quadratic_with_maker_fees", "0")
    assert kalshi_fees(None, series, AT).order_fees([(Decimal(100), Decimal("0.50"))], "buy") == [Decimal("0.88")]
    assert kalshi_fees(None, {"fee_multiplier": None}, AT) == KalshiFees("kalshi-2026-03-09"), "none stated: the general fee"
    for unknown in ({"fee_type": "flat", "fee_multiplier": 3}, {"fee_type": "quadratic", "fee_multiplier": Decimal(-1)}):
        assert isinstance(kalshi_fees(None, unknown, AT), UnknownFees)


def test_no_fee_before_its_waiver_ends() -> None:
    until = (AT + DAY).isoformat()
    row = contract(body=orjson.dumps({"fee_waiver_expiration_time": until}).decode())
    (one,) = group_contracts([row], {})
    assert build_market(one, SERIES, AT).fees == FREE
    assert build_market(one, SERIES, AT + DAY).fees != FREE


def test_a_bet_pays_the_ask_and_the_fee() -> None:
    """100 dollars at an ask of 0.44 buy 227.27 contracts for 99.9988. The fee 0.07 × 227.27 × 0.44 × 0.56 = 3.9199 is rounded to 3.92 and
    then to whole cents.
    """
    (one,) = group_contracts([contract()], {})
    market = build_market(one, {}, AT)
    quote = quote_from_book([(Decimal("0.40"), Decimal(5000))], [(Decimal("0.56"), Decimal(5000))], AT)
    done = execute_decision(
        bets(bet(market_id="KXA-1-X")), account(), market, quotes={"KXA-1-X": {0: quote}}, rules=load_methodology("v2-kalshi")
    )
    (trade,) = done.trades
    assert (trade.shares, trade.price, trade.amount) == (usd("227.27"), usd("0.44"), usd("99.9988"))
    assert trade.fee == usd("3.9212")
    assert (trade.amount + trade.fee) % 10_000 == 0, "the balance stays in whole cents in April 2026"
    assert (trade.bid, trade.mid, trade.ask, trade.quote_source) == (400_000, 420_000, 440_000, "orderbook")


# --- the past ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "chosen"),
    [
        ({}, True),
        ({"close_time": AT + HOUR, "status": "finalized", "result": "yes"}, True),
        ({"close_time": AT}, False),
        ({"created_at": AT + HOUR}, False),
        ({"open_time": AT + HOUR}, False),
        ({"expected_expiration_time": None}, False),
        ({"expected_expiration_time": AT + HOUR}, False),
        ({"expected_expiration_time": AT + 15 * DAY, "close_time": AT + 2 * DAY}, False),
    ],
)
def test_markets_of_the_past_are_chosen_by_what_was_known(more: dict[str, Any], chosen: bool) -> None:
    """An early close moves `close_time`, which only shows that the market was open."""
    assert [one.market_id for one in find_candidates([contract(**more)], {}, AT)] == ["KXA-1-X"] * chosen


# --- results -----------------------------------------------------------------------------------------------------

YES_NO = ["Yes", "No"]
ABC = ["A", "B", "C"]


def test_rulings_of_results() -> None:
    for outcomes, results, values, ruling in [
        (YES_NO, ["yes"], ["1", "0"], Ruling(Result.WON, (("yes", 1_000_000), ("no", 0)), "Yes")),
        (YES_NO, ["no"], None, Ruling(Result.WON, (("yes", 0), ("no", 1_000_000)), "No")),
        (YES_NO, ["scalar"], ["0.24", "0.76"], Ruling(Result.SPLIT, (("yes", 240_000), ("no", 760_000)))),
        (YES_NO, ["void"], None, Ruling(Result.CANCELLED)),
        (YES_NO, ["scalar"], None, UNKNOWN),
        (YES_NO, ["maybe"], ["1", "0"], UNKNOWN),
        (YES_NO, ["yes"], ["0.5", "0.5"], UNKNOWN),
        (ABC, ["no", "yes", "no"], ["0", "1", "0"], Ruling(Result.WON, (("a", 0), ("b", 1_000_000), ("c", 0)), "B")),
        (ABC, ["no", "no", "no"], None, Ruling(Result.WON, (("a", 0), ("b", 0), ("c", 0)), NONE_OF_THEM)),
        (ABC, ["yes", "yes", "no"], None, Ruling(Result.SPLIT, (("a", 1_000_000), ("b", 1_000_000), ("c", 0)))),
        (ABC, ["scalar", "scalar", "no"], ["0.5", "0.5", "0"], Ruling(Result.SPLIT, (("a", 500_000), ("b", 500_000), ("c", 0)))),
        (ABC, ["no", "void", "no"], None, Ruling(Result.CANCELLED)),
        (ABC, ["no", "yes", "?"], None, UNKNOWN),
        (["A", "a", "C"], ["no", "yes", "no"], None, UNKNOWN),
    ]:
        stated = None if values is None else [Decimal(value) for value in values]
        assert judge_results(outcomes, results, stated) == ruling, (outcomes, results)


@pytest.mark.parametrize("word", ["active", "closed", "determined", "disputed", "amended"])
def test_only_what_is_paid_out_is_a_result(word: str) -> None:
    look = build_evidence_row(MarketListing("KXA-1-X", None, (contract(status=word, result="yes"),), named=False), fetched_at=AT)
    (one,) = observations_from_rows(evidence_frame([look]))
    assert (one.ruling, one.rule) == (None, f"Kalshi: {word}")
    assert look["closed"] == (word != "active")


def test_an_event_is_over_when_its_last_contract_is_paid_out() -> None:
    half = (paid("no", ticker="KXA-1-X"), contract("KXA-1-Y", status="determined", result="yes", close_time=AT))
    look = build_evidence_row(MarketListing("KXA-1", event(), half, named=True), fetched_at=AT + HOUR)
    assert (look["resolution_status"], look["settled_at"], look["closed_at"]) == ("determined", None, AT)
    (open_one,) = observations_from_rows(evidence_frame([look]))
    assert open_one.ruling is None
    whole = (half[0], paid("yes", ticker="KXA-1-Y", settled_at=AT + HOUR))
    (one,) = observations_from_rows(
        evidence_frame([build_evidence_row(MarketListing("KXA-1", event(), whole, named=True), fetched_at=AT + 3 * HOUR)])
    )
    assert one.ruling == Ruling(Result.WON, (("x", 0), ("y", 1_000_000)), "Y")
    assert (one.final_at, one.rule) == (AT + HOUR, "Kalshi: no, yes")


def test_past_looks_are_dated_when_the_window_for_disputes_was_over() -> None:
    rules = {"wait": timedelta(hours=2), "grace": timedelta(days=14)}
    known, open_one = MarketListing("A", None, (paid("yes"),), named=False), MarketListing("B", None, (contract(),), named=False)
    assert [(one["market_id"], one["fetched_at"]) for one in reconstruct_evidence([known, open_one], AT + DAY, **rules)] == [
        ("A", AT + 2 * HOUR)
    ]
    assert reconstruct_evidence([known], AT + HOUR, **rules) == []
    unknown = MarketListing("C", None, (paid("maybe"),), named=False)
    assert [one["fetched_at"] for one in reconstruct_evidence([unknown], AT + 20 * DAY, **rules)] == [
        AT + 2 * HOUR,
        AT + 2 * HOUR + 14 * DAY,
    ]


def _settled(results: tuple[str, ...]) -> tuple[Any, Any]:
    """Settle a bet of 102 dollars on Y at 0.51 in a race with these results, under rules without fees. Returns the book and its trades."""
    rules = load_methodology("v1-kalshi")
    (one,) = group_contracts(RACE, {"KXA-1": event()})
    market = build_market(one, SERIES, AT)
    holder = account()
    quotes = {"KXA-1": {0: Quote(420_000), 1: Quote(510_000)}}
    done = execute_decision(bets(bet("102", "y", "KXA-1", 0.6)), holder, market, quotes=quotes, rules=rules)
    assert [(trade.side, trade.shares, trade.fee) for trade in done.trades] == [("Y", usd(200), 0)]
    contracts = tuple(paid(word, ticker=row["ticker"]) for word, row in zip(results, RACE, strict=True))
    look = build_evidence_row(MarketListing("KXA-1", event(), contracts, named=True), fetched_at=AT + 3 * HOUR)
    settled = derive_settlements(observations_from_rows(evidence_frame([look])), rules)
    return fold([agent(rules="v1-kalshi")], done.trades, settled), done.trades


@pytest.mark.parametrize(
    ("results", "cash", "brier"),
    [(("no", "yes"), "10098", 0.16), (("yes", "no"), "9898", 0.36), (("no", "no"), "9898", 0.36), (("void", "void"), "10000", None)],
)
def test_a_race_settles_as_a_whole(results: tuple[str, ...], cash: str, brier: float | None) -> None:
    book, trades = _settled(results)
    assert book.accounts[KEY.agent.agent_id].cash == usd(cash)
    assert violations(book, trades) == []
    assert [round(one.brier_stated or 0, 6) for one in score_bets(book)] == ([] if brier is None else [brier])
