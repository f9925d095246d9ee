"""Which tool a model calls, and with what arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bellwether.sandbox.models.schema import MISSING, Schema, Wanted, fill
from bellwether.sandbox.models.trading import Trade

#: Contracts of an order.
CONTRACTS = 10

_OF_P = ("p_yes", "p", "prob", "probability", "probability_yes", "yes_probability", "forecast", "likelihood")
_WORDS = ("answer", "prediction", "outcome", "verdict")
_THOUGHTS = ("reasoning", "rationale", "explanation", "thesis", "comment", "summary", "message")
_MARKET = ("ticker", "market_id", "market", "id", "market_ticker", "symbol")
_COUNTS = ("count", "quantity", "contracts", "size", "shares")
_PRICES = ("limit_price_cents", "price_cents", "limit_price", "price", "yes_price", "no_price")
_SUBMITS = ("submit", "forecast", "predict", "answer", "decide", "decision", "report", "record")
_TRADES = ("order", "trade", "buy", "bet")
_READS = ("get_market", "list_market", "market", "get_orderbook", "orderbook", "get_", "list_", "search", "read", "fetch")
_ENDS = ("done", "finish", "stop", "end", "hold", "pass")


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a request offers."""

    name: str
    parameters: Schema

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Tool:
        """Read it off the request. Raises `KeyError` or `TypeError` where it is no function with a name."""
        function = entry["function"]
        if not isinstance(function["name"], str):
            raise TypeError("name")
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        return cls(function["name"], parameters if isinstance(parameters, Mapping) else {})


@dataclass(frozen=True, slots=True)
class Mind:
    """What a model would put into arguments: its market, its probability, its thoughts, its trade and its decision."""

    market_id: str
    p: float
    thoughts: str
    trade: Trade | None
    decision: Mapping[str, Any]

    def wanted(self) -> Wanted:
        """Values by the name of the property, in the unit that its schema shows."""
        side = self.trade.side if self.trade else "YES" if self.p >= 0.5 else "NO"
        yes = self.p >= 0.5

        def find(name: str, schema: Schema) -> Any:
            key = name.lower()
            if key in _OF_P:
                return scaled(self.p, schema)
            if key in ("p_no", "probability_no", "no_probability"):
                return scaled(1 - self.p, schema)
            if key == "confidence":
                return scaled(max(self.p, 1 - self.p), schema)
            if key in _WORDS:
                return spelled("yes" if yes else "no", schema)
            if key == "side":
                return spelled(side.lower(), schema)
            return self._plain(key, schema)

        return find

    def _plain(self, key: str, schema: Schema) -> Any:
        market = self.trade.market_id if self.trade else self.market_id
        values: dict[str, Any] = {
            "action": spelled("buy", schema),
            **dict.fromkeys(_THOUGHTS, self.thoughts),
            **dict.fromkeys(_COUNTS, CONTRACTS),
            **(dict.fromkeys(_MARKET, market) if market else {}),
            **(dict.fromkeys(_PRICES, scaled(self.trade.price, schema)) if self.trade else {}),
            **self.decision,
        }
        return values.get(key, MISSING)


def scaled(value: float, schema: Schema) -> Any:
    """A probability or a price in the schema's unit: hundredths where it wants whole numbers or allows more than 1."""
    kind, most = schema.get("type"), schema.get("maximum", schema.get("exclusiveMaximum"))
    if kind == "string":
        return f"{value:.4f}"
    whole = kind == "integer" or (isinstance(kind, list) and "integer" in kind and "number" not in kind)
    hundredths = (
        100 * value if whole or (isinstance(most, int | float) and most > 1) or "100" in str(schema.get("description", "")) else value
    )
    step = schema.get("multipleOf") or (1 if whole else 0)
    rounded = round(hundredths / step) * step if step else round(hundredths, 4)
    return int(rounded) if whole else rounded


def spelled(word: str, schema: Schema) -> Any:
    """The word as the schema's enumeration spells it, or as a boolean."""
    if schema.get("type") == "boolean":
        return word == "yes"
    return next((one for one in schema.get("enum", ()) if str(one).lower() == word), word)


def arguments(tool: Tool, wanted: Wanted) -> str:
    """Arguments that the tool's schema allows, as JSON."""
    filled = fill({"type": "object", **tool.parameters}, wanted)
    return json.dumps(filled if isinstance(filled, dict) else {}, ensure_ascii=False)


def _first(tools: list[Tool], words: tuple[str, ...], done: frozenset[str] = frozenset()) -> Tool | None:
    """The first tool whose name has one of the words, the words in their order; tools already used left out."""
    return next((tool for word in words for tool in tools if word in tool.name.lower() and tool.name not in done), None)


def _is_read(tool: Tool) -> bool:
    return tool.name.lower().startswith(("get", "list", "search", "read", "fetch"))


def choose(tools: list[Tool], used: frozenset[str], mind: Mind, *, must: bool) -> Tool | None:
    """The tool to call next; None where the model would rather answer.

    First it submits, if there is a tool for it; it trades where a price is off; it looks at markets before it has seen any; then it says that
    it is done. No tool is called twice unless one must be called.
    """
    acting = [tool for tool in tools if not _is_read(tool)]
    steps = (
        _first(acting, _SUBMITS, used),
        _first(acting, _TRADES, used) if mind.trade else None,
        _first(tools, _READS, used) if not used else None,
        _first(acting, _ENDS, used),
    )
    chosen = next((tool for tool in steps if tool), None)
    return chosen or (tools[0] if must or not used else None)
