"""Reads a model's answer: any text in, a decision out, never an exception.

Accepted as asked for: one JSON object, also in a code fence or in quotes. Accepted and flagged: an object in the midst of prose. An answer with
several objects that do not say the same is no decision.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NoReturn

from bellwether.arena.decision import Decision, Problem, invalid
from bellwether.arena.validation import Limits, validated

#: An opening fence with its label, and what ends it.
_FENCE = re.compile(r"```[ \t]*(?:json)?\s*(.*?)\s*(?:```)?", re.DOTALL | re.IGNORECASE)
_QUOTES = ("'", '"')
#: So many opening braces of one answer are looked at; and so many characters are read at all.
_MOST_BRACES = 500
_LONGEST = 1_000_000


def parse_decision(text: str | None, limits: Limits) -> Decision:
    """The decision that an answer states, checked against the limits that the prompt printed. Never raises, whatever the text."""
    if not isinstance(text, str) or not text.strip():
        return invalid(Problem.EMPTY, "the answer is empty; give one JSON object")
    said = text[:_LONGEST].strip().removeprefix("\ufeff").strip()
    plain = _plain(said)
    if plain is not _NOTHING:
        return _checked(plain, limits, tolerated=False)
    found = list(_objects(said))
    if not found:
        return invalid(
            Problem.NOT_JSON, f"no JSON object with an action can be read{_where(said)}; give one complete JSON object", tolerated=False
        )
    decisions = {_checked(one, limits, tolerated=True) for one in found}
    if len(decisions) > 1:
        return invalid(Problem.SEVERAL, f"{len(found)} objects state decisions that differ; give one", tolerated=True)
    return decisions.pop()


_NOTHING = object()


def _checked(said: Any, limits: Limits, *, tolerated: bool) -> Decision:
    if not isinstance(said, Mapping):
        kind = "null" if said is None else type(said).__name__
        return invalid(Problem.NOT_AN_OBJECT, f"the answer is JSON, but no object ({kind}); give one JSON object")
    return validated(said, limits, tolerated=tolerated)


def _plain(said: str) -> Any:
    """What the whole answer says as JSON, without a fence or quotes around it; `_NOTHING` when it is not JSON."""
    fence = _FENCE.fullmatch(said) if said.startswith("```") else None
    inner = fence.group(1) if fence else said
    for text in (inner, _unquoted(inner)):
        value = _loaded(text)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = _loaded(value)
        if value is not _NOTHING:
            return value
    return _NOTHING


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0]
    return text[1:-1].strip() if quoted else text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant)


def _loaded(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError, ArithmeticError):
        return _NOTHING


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """The objects in a text that have an `action`, from left to right; what lies within one is not looked at again."""
    at = text.find("{")
    for _ in range(_MOST_BRACES):
        if at < 0:
            return
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError, ArithmeticError):
            end = at + 1
        else:
            if isinstance(value, Mapping) and "action" in value:
                yield value
        at = text.find("{", end)


def _where(text: str) -> str:
    """Where the JSON of an answer breaks, for the model that is asked again."""
    start = text.find("{")
    try:
        _DECODER.raw_decode(text, max(start, 0))
    except json.JSONDecodeError as error:
        return f" ({error.msg} at character {error.pos + 1})" if start >= 0 else ""
    except (ValueError, RecursionError, ArithmeticError):
        return ""
    return ""
