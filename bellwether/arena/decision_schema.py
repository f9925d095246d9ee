"""The JSON Schema of a decision, for providers that hold models to one. The tolerant parser reads every other answer."""

from __future__ import annotations

from typing import Any


def response_format() -> dict[str, Any]:
    """The parameter `response_format`: a strict schema, in which every field is required and what does not apply is null."""
    return {"type": "json_schema", "json_schema": {"name": "decision", "strict": True, "schema": schema()}}


def schema() -> dict[str, Any]:
    """The schema alone. Limits are not in it: strict providers know no bounds, and the parser checks them."""
    bet = _object(
        market_id={"type": "string", "description": "id of the market, as listed"},
        side={"type": "string", "description": "YES or NO, or the exact name of the outcome"},
        amount={"type": "number", "description": "dollars"},
        probability={"type": ["number", "null"], "description": "your probability that this side wins, from 0 to 1"},
    )
    sell = _object(
        position_id={"type": "string", "description": "id of the position, as listed"},
        percentage={"type": "number", "description": "percent of its shares, from 1 to 100"},
    )
    return _object(
        action={"type": "string", "enum": ["BET", "SELL", "HOLD"]},
        bets={"type": ["array", "null"], "items": bet, "description": "for BET, else null"},
        sells={"type": ["array", "null"], "items": sell, "description": "for SELL, else null"},
        reasoning={"type": "string", "description": "why"},
    )


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
