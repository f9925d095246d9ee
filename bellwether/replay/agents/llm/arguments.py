"""Parsing of tool-call arguments from JSON, with error messages for the model.

Prices are cents with at most one decimal (two in markets with such prices), sizes contracts with at most two. Both become integers ($0.0001,
lots) without passing through a float.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from bellwether.replay.units import CENT, CONTRACT, DOLLAR, MILL
from bellwether.units import CentiCents, Lots

#: Maximum length of the arguments' text, characters.
MOST_CHARACTERS = 20_000
#: Maximum size of an order, contracts.
MOST_CONTRACTS = 10_000_000
_MOST_SHOWN = 60
_DECIMAL = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?")
_INTEGER = re.compile(r"[0-9]{1,15}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ArgumentError(ValueError):
    """Invalid arguments of a tool call. The message is sent to the model."""


@dataclass(frozen=True, slots=True)
class Field:
    """Argument of a tool. parse: function that converts its JSON value, and raises `ArgumentError` for an invalid one."""

    schema: Mapping[str, Any]
    parse: Callable[[Any], Any]
    required: bool = True


def build_schema(fields: Mapping[str, Field]) -> dict[str, Any]:
    """Build the JSON schema of a tool's arguments, with keywords that all providers support."""
    return {
        "type": "object",
        "properties": {name: dict(field.schema) for name, field in fields.items()},
        "required": [name for name, field in fields.items() if field.required],
        "additionalProperties": False,
    }


def read_arguments(text: str, fields: Mapping[str, Field]) -> dict[str, Any]:
    """Parse the JSON text of a tool call's arguments. Returns the values by name, without those that are null. Raises `ArgumentError` for
    invalid arguments.
    """
    document = _parse_object(text)
    for name in document:
        if name not in fields:
            raise ArgumentError(f"there is no argument {format_value(name)}; there are {', '.join(fields) or 'none'}")
    values = {}
    for name, field in fields.items():
        if document.get(name) is not None:
            values[name] = _parse_value(name, field, document[name])
        elif field.required:
            raise ArgumentError(f"the argument {name} is missing")
    return values


def _parse_value(name: str, field: Field, value: Any) -> Any:
    try:
        return field.parse(value)
    except ArgumentError as error:
        raise ArgumentError(f"{name} is {format_value(value)}; {error}") from None


def _parse_object(text: str) -> dict[str, Any]:
    if len(text) > MOST_CHARACTERS:
        raise ArgumentError(f"the arguments have {len(text)} characters; at most {MOST_CHARACTERS} are read")
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates)
    except ArgumentError:
        raise
    except (ValueError, RecursionError, ArithmeticError) as error:
        raise ArgumentError(f"the arguments are no JSON object: {str(error)[:100]}") from None
    if not isinstance(value, dict):
        raise ArgumentError(f"the arguments are {format_value(value)}; give a JSON object")
    return value


def _refuse_constant(word: str) -> Any:
    raise ArgumentError(f"{word} is no JSON number")


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    arguments = dict(pairs)
    if len(arguments) < len(pairs):
        raise ArgumentError("an argument is given twice")
    return arguments


def format_value(value: Any) -> str:
    """Format a value as one line of JSON, truncated to 60 characters."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


# --- kinds of arguments ------------------------------------------------------------------------------------------------


def choice_field(words: Sequence[str], description: str, *, required: bool = True) -> Field:
    """Return a field that accepts one of the texts in `words`."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ArgumentError(f"it is one of {', '.join(words)}")
        return value

    return Field({"type": "string", "enum": list(words), "description": description}, read, required)


def price_field(description: str, step: int = MILL, *, required: bool = True) -> Field:
    """Return a field that accepts cents above 0 and below 100, and converts them to $0.0001. step: price step, $0.0001."""
    decimals = "one decimal" if step == MILL else "two decimals"

    def read(value: Any) -> CentiCents:
        scaled = _to_units(value, CENT)
        if scaled is None or scaled % step or not 0 < scaled < DOLLAR:
            raise ArgumentError(f"give cents above 0 and below 100, with at most {decimals}")
        return CentiCents(scaled)

    bounds = {"minimum": step / CENT, "maximum": (DOLLAR - step) / CENT}
    return Field({"type": "number", **bounds, "description": description}, read, required)


def count_field(description: str, *, required: bool = True) -> Field:
    """Return a field that accepts a number of contracts above 0 with at most two decimals, and converts it to lots."""

    def read(value: Any) -> Lots:
        scaled = _to_units(value, CONTRACT)
        if scaled is None or not 0 < scaled <= MOST_CONTRACTS * CONTRACT:
            raise ArgumentError(f"give contracts above 0 and up to {MOST_CONTRACTS}, with at most two decimals")
        return Lots(scaled)

    return Field({"type": "number", "minimum": 0.01, "maximum": MOST_CONTRACTS, "description": description}, read, required)


def integer_field(minimum: int, maximum: int, description: str, *, required: bool = True) -> Field:
    """Return a field that accepts an integer from `minimum` to `maximum`."""

    def read(value: Any) -> int:
        number = _to_units(value, 1)
        if number is None or not minimum <= number <= maximum:
            raise ArgumentError(f"give a whole number from {minimum} to {maximum}")
        return number

    return Field({"type": "integer", "minimum": minimum, "maximum": maximum, "description": description}, read, required)


def time_field(description: str, *, required: bool = True) -> Field:
    """Return a field that accepts an ISO 8601 time with time zone, and converts it to ns UTC."""

    def read(value: Any) -> int:
        try:
            moment = datetime.fromisoformat(value)
            since = moment - _EPOCH
        except (TypeError, ValueError, OverflowError):
            raise ArgumentError("give an ISO 8601 time with its zone, such as 2026-01-20T17:00:00Z") from None
        return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000

    return Field({"type": "string", "format": "date-time", "description": description}, read, required)


def text_field(description: str, maximum: int = 1000, *, required: bool = True) -> Field:
    """Return a field that accepts a text of at most `maximum` characters."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or len(value) > maximum:
            raise ArgumentError(f"give a text of at most {maximum} characters")
        return value

    return Field({"type": "string", "maxLength": maximum, "description": description}, read, required)


def _to_units(value: Any, units: int) -> int | None:
    """Convert a JSON number, or its text, to a whole number of units, each `1 / units`; None for other values, and if the number is too
    large or not whole.
    """
    if isinstance(value, str):
        pattern = _INTEGER if units == 1 else _DECIMAL
        value = Decimal(value) if pattern.fullmatch(value) else None
    if value is None or isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    number = Decimal(value)
    if not number.is_finite() or not Decimal("-1e15") < number < Decimal("1e15") or number.adjusted() < -15:
        return None
    scaled = number * units
    return int(scaled) if scaled == scaled.to_integral_value() else None
