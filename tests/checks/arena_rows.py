"""Ordinary rows of the arena's tables, and changes that break their rules."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.tables import table

WEEK = date(2026, 3, 1)
AT = datetime(2026, 3, 1, 0, 5, tzinfo=UTC)


def row(name: str, **given: Any) -> dict[str, Any]:
    """A row of a table with zeros and empty texts in the columns that are not given and not nullable."""
    plain: dict[Any, Any] = {pl.String: "", pl.Boolean: False, pl.Float64: 0.0, pl.List: [], pl.Date: WEEK, pl.Datetime: AT}
    return {**{one.name: plain.get(one.dtype.base_type(), 0) for one in table(name).columns if not one.nullable}, **given}


def _market(market_id: str) -> dict[str, Any]:
    prices = [Decimal("0.6"), Decimal("0.4")]
    return row("arena/universe", market_id=market_id, outcomes=["Yes", "No"], prices=prices, token_ids=["y", "n"], digest="d")


def _decision(family: str, action: str, problem: str | None = None) -> dict[str, Any]:
    agent = f"2026-03-01/{family}"
    return row("arena/decisions", decision_id=f"{agent}/2026-03-01", agent_id=agent, state="finished", action=action, problem=problem)


def _trade(leg: int, action: str) -> dict[str, Any]:
    quote = {"bid": Decimal("0.39"), "mid": Decimal("0.4"), "ask": Decimal("0.41")}
    trade = {"trade_id": f"2026-03-01/acme/2026-03-01/{leg}", "action": action, "shares": Decimal(100), "price": Decimal("0.4")}
    return row("arena/trades", **trade, **quote)


def _price(minutes: int) -> dict[str, Any]:
    return row("arena/prices", day=WEEK, market_id="m", outcome="YES", at=AT + timedelta(minutes=minutes), price=Decimal("0.4"))


def _family(name: str) -> dict[str, Any]:
    money = {"initial_cash": Decimal(10_000), "total": Decimal(10_100), "profit": Decimal(100), "cost": Decimal("0.5")}
    return row("arena/leaderboard", methodology="v1", family=name, **money)


ROWS: dict[str, list[dict[str, Any]]] = {
    "arena/universe": [_market("m"), _market("n")],
    "arena/decisions": [_decision("acme", "BET"), _decision("zeta", "INVALID", "not JSON")],
    "arena/trades": [_trade(1, "BUY"), _trade(2, "SELL")],
    "arena/prices": [_price(0), _price(10)],
    "arena/leaderboard": [_family("acme"), _family("zeta")],
}

#: By rule, values of the first row that break it; the keys repeat a row instead.
BAD: dict[str, dict[str, dict[str, Any]]] = {
    "arena/universe": {"prices_fit_outcomes": {"prices": [Decimal("0.6")]}, "one_digest": {"digest": "another"}},
    "arena/decisions": {
        "known_action": {"action": "WAIT"},
        "invalid_says_why": {"action": "INVALID", "problem": None},
        "is_finished": {"state": "open"},
    },
    "arena/trades": {
        "known_action": {"action": "SHORT"},
        "moves_something": {"shares": Decimal(0)},
        "price_is_a_price": {"price": Decimal("1.2")},
        "price_was_quoted": {"mid": Decimal("0.5")},
    },
    "arena/prices": {"price_is_a_price": {"price": Decimal("1.2")}, "sources_agree": {"disagrees": True}},
    "arena/leaderboard": {"profit_is_the_change": {"profit": Decimal(7)}, "costs_are_known": {"cost": None}},
}
