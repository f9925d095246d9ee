"""Lenient decoding of JSON responses: a record that no table can store does not spoil its page."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

import orjson

#: Keys of lists of records in a response.
RECORD_LISTS = frozenset({"markets", "events", "series", "candlesticks", "trades", "orderbooks", "data", "history"})

#: Maximum characters of an integer; Python converts up to 4,300 digits.
_MOST_DIGITS = 1000
#: Maximum levels of nesting that the lenient parser reads.
_DEEPEST = 200
_TOO_DEEP = "nested too deeply to be read; the stored page has it"
_BRACKET_OR_TEXT = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


class MalformedBody(ValueError):
    """Body that is not a JSON object: truncated, a web page, or not text."""


@dataclass(frozen=True, slots=True)
class UnusableValue:
    """Record that a lenient parser can read but no table can store.

    record: the record as parsed. field, value, reason: path of the first invalid value, the value, and its problem. body: the record as
    ASCII JSON text.
    """

    record: dict[str, Any]
    field: str
    value: str
    reason: str
    body: str


def decode_json(body: bytes) -> Any:
    """Decode the JSON value in `body`; a list is a list of records.

    If the body is not strict JSON, records with invalid values (a NaN, a number too large for 64 bits, deep nesting, half a surrogate pair,
    a byte that is not UTF-8) are replaced by `UnusableValue`, and bare control characters are accepted. Raises `MalformedBody` for any
    other body.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as strict:
        return _decode_leniently(body, strict)


def decode_record(value: Any) -> Any:
    """Check a response that is itself one record: return it, or `UnusableValue` if it contains a value that no table can store."""
    return _record(value)


def _decode_leniently(body: bytes, strict: ValueError) -> Any:
    start = body[:512].lstrip().lower()
    if start.startswith(b"<"):
        raise MalformedBody("a web page (HTML) instead of JSON")
    text = body.decode("utf-8", "surrogateescape")
    try:
        try:
            return _replace_unusable(_loads(text))
        except RecursionError:
            return _replace_unusable(_loads(_flatten(text)))
    except ValueError:
        raise MalformedBody(f"not JSON, or cut off after {len(body)} bytes ({strict})" if body.strip() else "an empty body") from None


def _loads(text: str) -> Any:
    """Parse JSON text, with very long integers as floats."""
    return json.loads(text, strict=False, parse_int=_number)


def _number(digits: str) -> int | float:
    """Parse an integer; return a float if it has more than `_MOST_DIGITS` digits."""
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _flatten(text: str) -> str:
    """Replace values nested deeper than `_DEEPEST` levels by `_TOO_DEEP` in JSON text. Raises `ValueError` for unclosed brackets."""
    parts, depth, start = [], 0, 0
    for match in _BRACKET_OR_TEXT.finditer(text):
        opens, closes = match[0] in ("[", "{"), match[0] in ("]", "}")
        if opens and depth == _DEEPEST:
            parts += [text[start : match.start()], json.dumps(_TOO_DEEP)]
        depth += opens - closes
        if closes and depth == _DEEPEST:
            start = match.end()
    if depth != 0:
        raise ValueError("brackets are left open")
    return "".join([*parts, text[start:]])


def _replace_unusable(value: Any) -> Any:
    """Replace every record with an invalid value by `UnusableValue`, inner records first."""
    if not isinstance(value, dict):
        return [_record(item) for item in value] if isinstance(value, list) else value
    for name in RECORD_LISTS & value.keys():
        if isinstance(value[name], list):
            value[name] = [_record(item) for item in value[name]]
    return value


def _record(item: Any) -> Any:
    """Return a JSON object unchanged, or `UnusableValue` if it contains a value that no table can store."""
    if not isinstance(item, dict):
        return item
    problem = _find_unusable({name: value for name, value in item.items() if name not in RECORD_LISTS})
    _replace_unusable(item)
    if problem is None:
        return item
    field, text, reason = problem
    return UnusableValue(item, field, text, reason, json.dumps(item, ensure_ascii=True, default=lambda nested: nested.record))


def _find_unusable(value: Any, path: str = "") -> tuple[str, str, str] | None:
    """Return path, text and reason of the first value that no table can store; None if all are valid."""
    if isinstance(value, dict):
        for name, inner in value.items():
            where = f"{path}.{name}" if path else name
            if problem := _find_unusable(name, path) or _find_unusable(inner, where):
                return problem
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            if problem := _find_unusable(inner, f"{path}.{index}"):
                return problem
    elif isinstance(value, float) and not math.isfinite(value):
        return path, repr(value), "not a finite number"
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        return path, str(value), "a number too large for 64 bits"
    elif isinstance(value, str):
        return _unusable_text(value, path)
    return None


def _unusable_text(value: str, path: str) -> tuple[str, str, str] | None:
    if value == _TOO_DEEP:
        return path, "", f"nested deeper than {_DEEPEST} levels"
    try:
        value.encode()
    except UnicodeEncodeError:
        return path, ascii(value), "text that is not Unicode"
    return None
