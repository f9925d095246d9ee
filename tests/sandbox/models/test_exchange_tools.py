"""Personalities with the tools of an exchange read markets, trade on their beliefs, and end the step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema
import numpy as np
import pytest

from bellwether.sandbox.models import Truth
from bellwether.sandbox.models.replies import ModelReply
from bellwether.sandbox.timestamps import to_datetime, to_instant
from bellwether.sandbox.world.model import Market

LATER = datetime(2025, 9, 1, tzinfo=UTC)
NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
PRICE = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 100}
COUNT = {"type": "number", "exclusiveMinimum": 0}
ID = {"type": "integer", "minimum": 0}
ORDER = {
    "type": "object",
    "properties": {
        "ticker": {"type": "string"},
        "side": {"enum": ["yes", "no"]},
        "action": {"enum": ["buy", "sell"]},
        "type": {"enum": ["limit", "market"]},
        "count": COUNT,
        "price_cents": PRICE,
        "time_in_force": {"enum": ["gtc", "ioc", "fok", "post_only"]},
    },
    "required": ["ticker", "side", "action", "count"],
    "additionalProperties": False,
}
AMENDMENT = {
    "type": "object",
    "properties": {"order_id": ID, "price_cents": PRICE, "count": COUNT},
    "required": ["order_id", "price_cents", "count"],
}
CANCELLATION = {"type": "object", "properties": {"order_id": ID}, "required": ["order_id"], "additionalProperties": False}
SCHEMAS = {
    "get_markets": NOTHING,
    "get_positions": NOTHING,
    "get_resting_orders": NOTHING,
    "place_order": ORDER,
    "cancel_order": CANCELLATION,
    "amend_order": AMENDMENT,
    "done": NOTHING,
}
TOOLS = [{"type": "function", "function": {"name": name, "description": "", "parameters": schema}} for name, schema in SCHEMAS.items()]
LOOKS = ["get_markets", "get_positions", "get_resting_orders"]

Says = Callable[..., ModelReply]
Calls = list[tuple[str, Any]]


@pytest.fixture(scope="module")
def likely(truth: Truth, settled: list[Market]) -> Market:
    """A market whose yes had a believed probability of 0.6 to 0.8 two days before its close."""
    return next(market for market in settled if 0.6 < believed(truth, market) < 0.8)


def two_days_before(market: Market) -> datetime:
    return to_datetime(market.life.closes) - timedelta(days=2)


def believed(truth: Truth, market: Market) -> float:
    return truth.by_id(market.ticker, to_instant(LATER), to_instant(two_days_before(market))).probability  # type: ignore[union-attr]


def told(at: datetime) -> str:
    return f"Time: {at.isoformat().replace('+00:00', 'Z')}\nCash: $1,000.00"


def quotes(ticker: str, bid: float | None, ask: float | None, status: str = "open") -> str:
    row = {"ticker": ticker, "status": status, "yes_bid_cents": bid, "yes_ask_cents": ask}
    return json.dumps({"markets": [row]})


def step(says: Says, model: str, state: str, answers: Mapping[str, str], rounds: int = 3, sample: int = 0) -> list[Calls]:
    """Run one step with these tools. Returns the calls of each round as name and arguments (as text if they are no JSON)."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": state}]
    heard: list[Calls] = []
    for number in range(rounds):
        reply = says(model, messages, tools=TOOLS, sample=sample)
        heard.append([(call.name, _read(call.arguments)) for call in reply.calls])
        if not reply.calls or any(call.name == "done" for call in reply.calls):
            break
        made = [
            {"id": f"call_{number}_{place}", "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for place, call in enumerate(reply.calls)
        ]
        results = [{"role": "tool", "tool_call_id": call["id"], "content": answers.get(call["function"]["name"], "{}")} for call in made]
        messages = [*messages, {"role": "assistant", "content": None, "tool_calls": made}, *results]
    return heard


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def names(calls: Calls) -> list[str]:
    return [name for name, _ in calls]


def test_it_looks_buys_what_is_too_cheap_and_is_done(query_model: Says, truth: Truth, likely: Market) -> None:
    ask = round(100 * believed(truth, likely)) - 20
    looked, traded, ended = step(
        query_model, "calibrated", told(two_days_before(likely)), {"get_markets": quotes(likely.ticker, ask - 2, ask)}
    )
    assert (names(looked), names(traded), names(ended)) == (LOOKS, ["place_order"], ["done"])
    order = traded[0][1]
    jsonschema.validate(order, ORDER)
    assert (order["ticker"], order["side"], order["action"], order["price_cents"], order["count"]) == (likely.ticker, "yes", "buy", ask, 10)


def test_it_sells_what_is_too_dear_and_takes_out_what_it_bid_too_high(query_model: Says, truth: Truth, likely: Market) -> None:
    bid = round(100 * believed(truth, likely)) + 10
    resting = {"order_id": 4, "ticker": likely.ticker, "side": "yes", "action": "buy", "price_cents": bid, "resting_contracts": 3}
    seen = {
        "get_markets": quotes(likely.ticker, bid, bid + 2),
        "get_positions": json.dumps({"positions": [{"ticker": likely.ticker, "yes_contracts": 7, "no_contracts": 0}]}),
        "get_resting_orders": json.dumps({"orders": [resting]}),
    }
    calls = step(query_model, "calibrated", told(two_days_before(likely)), seen)[1]
    assert calls[0] == ("cancel_order", {"order_id": 4})
    assert {name: calls[1][1][name] for name in ("action", "side", "count", "price_cents")} == {
        "action": "sell",
        "side": "yes",
        "count": 7,
        "price_cents": bid,
    }


def test_the_random_one_trades_in_some_steps_small_and_without_belief(query_model: Says, likely: Market) -> None:
    seen = {"get_markets": quotes(likely.ticker, 40, 60)}
    steps = [step(query_model, "random", told(LATER + timedelta(minutes=5 * n)), seen) for n in range(60)]
    orders = [arguments for heard in steps for calls in heard for name, arguments in calls if name == "place_order"]
    for order in orders:
        jsonschema.validate(order, ORDER)
    assert 10 < len(orders) < 50
    assert {order["side"] for order in orders} == {"yes", "no"}
    assert {order["count"] for order in orders} == {1, 2, 3}
    assert steps == [step(query_model, "random", told(LATER + timedelta(minutes=5 * n)), seen) for n in range(60)]


def test_the_malformed_one_makes_every_kind_of_wrong_call(query_model: Says, likely: Market) -> None:
    seen = {"get_markets": quotes(likely.ticker, 40, 60)}
    kinds: Counter[str] = Counter()
    for n in range(150):
        for calls in step(query_model, "malformed", told(LATER + timedelta(minutes=n)), seen):
            kinds["words"] += not calls
            for name, arguments in calls:
                kinds[_kind(name, arguments)] += 1
    assert {"words", "right", "unknown tool", "no JSON", "no object", "out of bounds", "too fine"} <= set(kinds), kinds


def _kind(name: str, arguments: Any) -> str:
    if name not in SCHEMAS:
        return "unknown tool"
    if isinstance(arguments, str):
        return "no JSON"
    if not isinstance(arguments, dict):
        return "no object"
    if arguments.get("price_cents") == 45.55:
        return "too fine"
    try:
        jsonschema.validate(arguments, SCHEMAS[name])
    except jsonschema.ValidationError:
        return "out of bounds"
    return "right"


def test_inside_a_wide_spread_it_bids_below_what_it_believes(query_model: Says, truth: Truth, likely: Market) -> None:
    p = believed(truth, likely)
    _, traded, _ = step(query_model, "calibrated", told(two_days_before(likely)), {"get_markets": quotes(likely.ticker, 2, 99)})
    order = traded[0][1]
    worth = p if order["side"] == "yes" else 1 - p
    assert order["time_in_force"] == "post_only"
    assert order["price_cents"] <= 100 * (worth - 0.03) < order["price_cents"] + 1


def test_a_bid_that_the_market_has_left_behind_is_amended(query_model: Says, truth: Truth, likely: Market) -> None:
    resting = {"order_id": 9, "ticker": likely.ticker, "side": "yes", "action": "buy", "price_cents": 5, "resting_contracts": 3}
    seen = {"get_markets": quotes(likely.ticker, 5, None), "get_resting_orders": json.dumps({"orders": [resting]})}
    name, amended = step(query_model, "calibrated", told(two_days_before(likely)), seen)[1][0]
    jsonschema.validate(amended, AMENDMENT)
    assert (name, amended["order_id"], amended["count"]) == ("amend_order", 9, 3)
    assert amended["price_cents"] <= 100 * (believed(truth, likely) - 0.03)


def test_it_knows_what_was_known_at_the_stated_time_and_nothing_later(truth: Truth, likely: Market) -> None:
    early, late = to_instant(two_days_before(likely)), likely.life.closes
    known = [truth.by_id(likely.ticker, to_instant(LATER), at).probability for at in (early, late)]  # type: ignore[union-attr]
    direct = likely.latent.probabilities_at(np.array([early, late]))
    assert known == pytest.approx(list(direct))
    assert known[0] != known[1]
    before = truth.by_id(likely.ticker, early, late)
    assert before is not None and before.probability == pytest.approx(known[0])
