"""Decoding of JSON responses, of which one odd value does not spoil the page."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson


class MalformedBody(ValueError):
    """Body that is not a JSON object: truncated, a web page, or not text."""


def decode_json(body: bytes) -> Any:
    """Decode the JSON value in `body`.

    If the body is not strict JSON, numbers that are not finite become text, so that their record becomes a reject where a number is expected;
    what is not Unicode becomes a character reference, so that other bytes stay another name, and bare control characters are accepted. Raises `MalformedBody` for any other body, also for one that
    is nested too deeply.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        problem = error
    if body[:512].lstrip().startswith(b"<"):
        raise MalformedBody("a web page (HTML) instead of JSON")
    try:
        text = body.decode(errors="surrogateescape")
        value = json.loads(text, strict=False, parse_constant=str, parse_int=_read_number, parse_float=_read_number)
        return orjson.loads(json.dumps(value, ensure_ascii=False).encode(errors="xmlcharrefreplace"))
    except (ValueError, RecursionError):
        raise MalformedBody(f"not JSON, or cut off after {len(body)} bytes ({problem})" if body.strip() else "an empty body") from None


def _read_number(text: str) -> int | float | str:
    """Return a number of JSON; its text if it is too large for a float."""
    number = float(text)
    if math.isinf(number):
        return text
    return int(text) if text.removeprefix("-").isdigit() else number
