"""Resolutions by evidence: a closed market may be unresolved, and contradicting sources give no outcome."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from bellwether.tables.clean import RESOLUTIONS
from bellwether.venues.polymarket.resolution import EVIDENCE, RESOLUTION, SILENCE, build_resolutions, resolve_markets
from bellwether.venues.polymarket.wire import parse_markets, parse_winners
from tests.unit.venues.polymarket_objects import DAY, NO, ORIGIN, YES, clob_market, clob_pages, market

FETCHED = datetime(2026, 3, 20, 8, 30, tzinfo=UTC)
RECENT, OLD = FETCHED - timedelta(days=1), FETCHED - SILENCE
UP_DOWN = {"outcomes": ("Up", "Down")}
SCALAR = {"outcomes": ("Long", "Short"), "lower_bound": Decimal(0), "upper_bound": Decimal(100)}
BY_UMA = {"uma_resolution_status": "resolved"}


class Resolution(NamedTuple):
    """The columns of `RESOLUTION`."""

    status: str
    outcome: str | None
    winner: str | None
    settlement_value: Decimal | None
    outcome_reason: str | None
    rule: str
    settled_at: datetime | None
    final: bool


def resolution(outcomes: Sequence[str] = ("Yes", "No"), **evidence: Any) -> Resolution:
    """Resolve one market with these `outcomes`. `evidence`: columns of `EVIDENCE`; missing ones are unknown."""
    words = sorted(name.strip().lower() for name in outcomes)
    kind = "binary" if words == ["no", "yes"] else "named" if len(words) == 2 else "multi"
    row = {"market_id": "", "market_type": kind, "outcomes": list(outcomes), "closed": False, **evidence}
    found = resolve_markets(pl.DataFrame([row], schema=EVIDENCE, orient="row"))
    return Resolution._make(found.select(RESOLUTION).row(0))


def judge(*prices: str, **evidence: Any) -> Resolution:
    """Resolve a market that closed a day ago, with these prices."""
    usual = {"closed": True, "closed_at": RECENT, "fetched_at": FETCHED}
    return resolution(**{**usual, "outcome_prices": [Decimal(price) for price in prices], **evidence})


def result_of(found: Resolution) -> tuple[str, str | None, str | None]:
    return found.status, found.winner, found.outcome_reason


SETTLED = [
    # row, prices, evidence, outcome, winner, value, rule
    ("yes", "1 0", BY_UMA, "yes", "Yes", 1, "prices after UMA's word"),
    ("no", "0 1", BY_UMA, "no", "No", 0, "prices after UMA's word"),
    ("settled is a word of UMA too", "1 0", {"uma_resolution_status": "Settled"}, "yes", "Yes", 1, "prices after UMA's word"),
    ("yes stands second", "0 1", {**BY_UMA, "outcomes": ("No", "YES")}, "yes", "YES", 1, "prices after UMA's word"),
    ("no stands first", "1 0", {**BY_UMA, "outcomes": ("no", "yes")}, "no", "no", 0, "prices after UMA's word"),
    ("first of two names", "1 0", {**BY_UMA, **UP_DOWN}, None, "Up", 1, "prices after UMA's word"),
    ("second of two names", "0 1", {**BY_UMA, **UP_DOWN}, None, "Down", 0, "prices after UMA's word"),
    ("one of three", "0 1 0", {**BY_UMA, "outcomes": ("A", "B", "C")}, None, "B", None, "prices after UMA's word"),
    (
        "disputed once, then resolved",
        "1 0",
        {"uma_statuses": ["proposed", "disputed", "proposed", "resolved"]},
        "yes",
        "Yes",
        1,
        "prices after UMA's word",
    ),
    ("resolved in newer objects", "1 0", {"resolution_status": "resolved"}, "yes", "Yes", 1, "prices after UMA's word"),
    ("both sources", "1 0", {**BY_UMA, "winners": ["yes"]}, "yes", "Yes", 1, "winner flag and prices"),
    ("the CLOB alone", "", {"winners": ["No"]}, "no", "No", 0, "winner flag"),
    ("the CLOB against prices that drifted", "0.3 0.7", {"winners": ["Yes"]}, "yes", "Yes", 1, "winner flag"),
    ("frayed prices with a flag", "0.9999 0.0001", {**BY_UMA, "winners": ["Yes"]}, "yes", "Yes", 1, "winner flag"),
    ("old, without a word of UMA", "1 0", {"closed_at": OLD}, "yes", "Yes", 1, "prices long after the close"),
    ("old, not flagged by the CLOB", "1 0", {"closed_at": OLD, "winners": []}, "yes", "Yes", 1, "prices long after the close"),
]
OPEN = [
    ("trading", "0.4 0.6", {"closed": False}, "active", "undetermined"),
    ("no flag at all", "0.4 0.6", {"closed": None}, "active", "undetermined"),
    ("pinned but not closed", "1 0", {"closed": False}, "active", "undetermined"),
    ("resolved but not closed", "1 0", {"closed": False, **BY_UMA}, "determined", "undetermined"),
    ("closed, no word yet", "1 0", {}, "closed", "undetermined"),
    ("requested", "1 0", {"uma_resolution_status": "requested"}, "closed", "undetermined"),
    ("a word that nobody knows", "1 0", {"uma_resolution_status": "pondered"}, "closed", "undetermined"),
    ("pinned while proposed", "1 0", {"uma_resolution_status": "proposed"}, "determined", "undetermined"),
    ("proposed long ago", "1 0", {"uma_resolution_status": "proposed", "closed_at": OLD}, "determined", "undetermined"),
    ("pinned while disputed", "1 0", {"uma_resolution_status": "disputed"}, "disputed", "disputed"),
    ("disputed, flagged", "1 0", {"uma_resolution_status": "disputed", "winners": ["Yes"]}, "disputed", "disputed"),
    ("disputed by its history", "1 0", {"uma_statuses": ["proposed", "disputed"]}, "disputed", "disputed"),
    ("disputed while open", "1 0", {"closed": False, "uma_resolution_status": "disputed"}, "disputed", "disputed"),
    ("a second before it is old", "1 0", {"closed_at": OLD + timedelta(seconds=1)}, "closed", "undetermined"),
    ("never resolved", "0 0", BY_UMA, "closed", "undetermined"),
    ("old and never resolved", "0 0", {"closed_at": OLD}, "closed", "undetermined"),
    ("scalar and never resolved", "0 0", {**BY_UMA, **SCALAR}, "closed", "undetermined"),
    (
        "old, of which newer objects say that it is not resolved",
        "1 0",
        {"closed_at": OLD, "resolution_status": "active"},
        "closed",
        "undetermined",
    ),
    ("old and drifted", "0.3 0.7", {"closed_at": OLD}, "closed", "undetermined"),
    ("old and frayed", "0.9999989871426158 0.0000010128573842", {"closed_at": OLD}, "closed", "undetermined"),
    (
        "old, halves that the CLOB does not confirm",
        "0.5 0.5",
        {"closed_at": OLD, "winners": [], "is_50_50": False},
        "closed",
        "undetermined",
    ),
]
OTHERWISE = [
    ("half and half", "0.5 0.5", BY_UMA, "void", "0.5"),
    ("half and half by the CLOB", "", {"winners": [], "is_50_50": True}, "void", "0.5"),
    ("half and half of two names", "0.5 0.5", {**BY_UMA, **UP_DOWN}, "void", "0.5"),
    ("fractional", "0.24 0.76", BY_UMA, "scalar", "0.24"),
    ("fractional, yes stands second", "0.24 0.76", {**BY_UMA, "outcomes": ("No", "Yes")}, "scalar", "0.76"),
    ("scalar", "0.6 0.4", {**BY_UMA, **SCALAR}, "scalar", "0.6"),
    ("scalar at its bound", "1 0", {**BY_UMA, **SCALAR}, "scalar", "1"),
    ("frayed, nobody flags it", "0.9999 0.0001", BY_UMA, "unknown result", None),
    ("resolved without prices", "", BY_UMA, "unknown result", None),
    ("prices that do not add up", "0.2 0.2", BY_UMA, "unknown result", None),
    ("two ones", "1 1", BY_UMA, "unknown result", None),
    ("fewer prices than outcomes", "1", BY_UMA, "unknown result", None),
    ("prices against the flag", "1 0", {**BY_UMA, "winners": ["No"]}, "contradictory evidence", None),
    ("old prices against the flag", "1 0", {"closed_at": OLD, "winners": ["No"]}, "contradictory evidence", None),
    ("frayed prices against the flag", "0.9999 0.0001", {**BY_UMA, "winners": ["No"]}, "contradictory evidence", None),
    ("halves against the flag", "0.5 0.5", {**BY_UMA, "winners": ["Yes"]}, "contradictory evidence", None),
    ("zeros against the flag", "0 0", {**BY_UMA, "winners": ["Yes"]}, "contradictory evidence", None),
    ("a fraction against the flag", "0.3 0.7", {**BY_UMA, "winners": ["Yes"]}, "contradictory evidence", None),
    ("corners against half and half", "1 0", {**BY_UMA, "is_50_50": True}, "contradictory evidence", None),
    ("a winner and half and half", "", {"winners": ["Yes"], "is_50_50": True}, "contradictory evidence", None),
    ("two winners", "1 0", {**BY_UMA, "winners": ["Yes", "No"]}, "contradictory evidence", None),
    ("a winner that is no outcome", "1 0", {**BY_UMA, "winners": ["Maybe"]}, "contradictory evidence", None),
]


def test_what_is_not_understood_is_looked_at_again_until_it_is_old():
    recent, old = (judge("1", "0", **BY_UMA, winners=["No"], closed_at=at) for at in (RECENT, OLD))
    assert (recent.final, old.final) == (False, True)
    assert not judge("1", "0", uma_resolution_status="proposed", closed_at=OLD).final


def test_a_market_is_settled_when_both_the_close_and_uma_are_over():
    later = RECENT + timedelta(hours=5)
    assert judge("1", "0", **BY_UMA, uma_end_at=later).settled_at == later
    assert judge("1", "0", **BY_UMA).settled_at == RECENT


WORDS = st.sampled_from([None, "", "requested", "proposed", "disputed", "resolved", "settled", "odd"])
PRICES = st.lists(st.sampled_from([Decimal(text) for text in ("0", "0.0001", "0.3", "0.5", "0.7", "0.9999", "1")]), max_size=3)


@given(
    st.booleans(),
    WORDS,
    PRICES,
    st.none() | st.lists(st.sampled_from(["Yes", "No", "X"]), max_size=2),
    st.none() | st.booleans(),
    st.booleans(),
)
def test_whatever_the_evidence_a_winner_is_closed_final_undisputed_and_contradicted_by_nobody(
    closed: bool, word: str | None, prices: list[Decimal], winners: list[str] | None, half: bool | None, old: bool
):
    found = resolution(
        closed=closed,
        uma_resolution_status=word,
        outcome_prices=prices,
        winners=winners,
        is_50_50=half,
        closed_at=OLD if old else RECENT,
        fetched_at=FETCHED,
    )
    assert (found.winner is None) != (found.outcome_reason is None)
    if found.winner is not None:
        assert closed
        assert word not in ("proposed", "disputed")
        assert found.final
        assert winners in (None, [], [found.winner])
        assert not half
        assert found.settlement_value == int(found.winner == "Yes")
        assert prices not in ([Decimal(0), Decimal(1)], [Decimal(1), Decimal(0)]) or prices == [
            found.settlement_value,
            1 - found.settlement_value,
        ]


def table(markets: list[Any], flagged: list[Any]) -> pl.DataFrame:
    rows, flags = parse_markets(markets, ORIGIN, day=DAY).rows, parse_winners(clob_pages(*flagged), day=DAY).rows
    return RESOLUTIONS.validate(build_resolutions(rows.lazy(), flags.lazy()))


def test_the_table_holds_a_verdict_and_its_evidence_for_every_market():
    found = table([market(1), market(2, closed=False, closedTime=..., umaResolutionStatus=...)], [clob_market(1)])
    assert found.select("market_id", "status", "outcome", "rule").rows() == [
        ("1", "settled", "yes", "winner flag and prices"),
        ("2", "determined", None, "decided but not closed"),
    ]
    evidence = json.loads(found["evidence"][0])
    assert (evidence["outcome_prices"], evidence["winners"], evidence["is_50_50"]) == (["1", "0"], ["Yes"], False)
    assert (evidence["uma_resolution_status"], evidence["closed_at"]) == ("resolved", "2026-03-14T15:00:16Z")
    assert found["known_at"].to_list() == [ORIGIN.fetched_at] * 2


def test_the_clobs_winner_is_found_by_its_token_whatever_it_is_called_there():
    tokens = [
        {"token_id": NO, "outcome": "Nope", "price": 0, "winner": False},
        {"token_id": YES, "outcome": "Yep", "price": 1, "winner": True},
    ]
    assert table([market(1)], [clob_market(1, tokens=tokens)]).select("outcome", "rule").rows() == [("yes", "winner flag and prices")]


def test_a_market_with_an_outcome():
    for name, prices, evidence, outcome, winner, value, rule in SETTLED:
        found = judge(*prices.split(), **evidence)
        assert (found.status, found.outcome, found.winner, found.outcome_reason) == ("settled", outcome, winner, None), name
        assert found.settlement_value == (None if value is None else Decimal(value)), name
        assert (found.rule, found.final) == (rule, True), name


def test_a_market_that_is_not_resolved():
    for name, prices, evidence, status, reason in OPEN:
        found = judge(*prices.split(), **evidence)
        assert result_of(found) == (status, None, reason), name
        assert (found.outcome, found.settlement_value, found.settled_at) == (None, None, None), name


def test_a_market_that_ended_without_a_winner():
    for name, prices, evidence, reason, value in OTHERWISE:
        found = judge(*prices.split(), **evidence)
        assert result_of(found) == ("settled", None, reason), name
        assert found.settlement_value == (Decimal(value) if value else None), name
