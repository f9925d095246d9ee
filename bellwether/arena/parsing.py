"""Reads a model's answer: any text in, a decision out, never an exception.

Accepted as asked for: one JSON object, also in a code fence or in quotes. Accepted and flagged: an object behind reasoning or in the midst of prose. An
answer with several objects that do not say the same is no decision, nor is one whose end is missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NoReturn

from bellwether.arena.decision import Decision, Problem, invalid
from bellwether.arena.validation import Limits, validated
from bellwether.forecasting.parsing.sections import split

#: An opening fence with its label, and what ends it.
_FENCE = re.compile(r"```[ \t]*(?:json)?\s*(.*?)\s*(?:```)?", re.DOTALL | re.IGNORECASE)
_QUOTES = ("'", '"')
_BRACE = re.compile(r'[{}]|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
#: What may follow an object in an answer that was cut.
_CLOSERS = " \t\r\n`'\"."
#: So many opening braces of one answer are looked at; and so many characters are read at all.
_MOST_BRACES = 500
_LONGEST = 1_000_000


def parse_decision(text: str | None, limits: Limits, *, ended: bool = True) -> Decision:
    """The decision that an answer states, checked against the limits that the prompt printed. Never raises, whatever the text.

    Reasoning in its markers does not count. ended: whether the model ended the text itself, by its finish reason; otherwise an object that other text
    follows is no decision, since another may have been meant to follow.
    """
    said = _bare(text[:_LONGEST] if isinstance(text, str) else "")
    if not said:
        return invalid(Problem.EMPTY, "the answer is empty; give one JSON object")
    plain = _plain(said)
    if plain is not _NOTHING:
        return _checked(plain, limits, tolerated=False)
    sections = split(said)
    said = _bare(sections.outside)
    if sections.is_open:
        return invalid(Problem.CUT_OFF, "the reasoning has no end; give one JSON object")
    if not said:
        return invalid(Problem.EMPTY, "the answer is reasoning alone; give one JSON object")
    plain = _plain(said)
    return _checked(plain, limits, tolerated=True) if plain is not _NOTHING else _in_prose(said, limits, ended=ended)


def _bare(text: str) -> str:
    return text.strip().removeprefix("\ufeff").strip()


def _in_prose(said: str, limits: Limits, *, ended: bool) -> Decision:
    found, is_open, rest = _objects(said)
    if (is_open and (found or not ended)) or (found and not ended and rest.strip(_CLOSERS)):
        return invalid(Problem.CUT_OFF, f"the end of the answer is missing{_where(said)}; give one complete JSON object")
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
    """The whole answer as JSON, without a fence or quotes around it; `_NOTHING` when it is not JSON."""
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


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object; one that states a name twice, and differently, is not read."""
    said = dict(members)
    if len(said) < len(members) and any(said[name] != value for name, value in members):
        raise ValueError("a name is stated twice, and differently")
    return said


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_object)


def _loaded(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError, ArithmeticError):
        return _NOTHING


def _objects(text: str) -> tuple[list[Mapping[str, Any]], bool, str]:
    """The objects in a text that have an `action`, from left to right; whether a brace stays open; and what follows the last object.

    What lies within an object is not looked at again, and what lies within one that cannot be read is no answer of its own.
    """
    found: list[Mapping[str, Any]] = []
    at, done, depth = text.find("{"), 0, 0
    for _ in range(_MOST_BRACES):
        if at < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError, ArithmeticError):
            end = at + 1
        else:
            depth, done = _depth(text[done:at], depth), end
            if not depth and isinstance(value, Mapping) and "action" in value:
                found.append(value)
        at = text.find("{", end)
    return found, _depth(text[done:], depth) > 0, text[done:]


def _depth(text: str, depth: int) -> int:
    """The number of braces open after a text with `depth` open before it, without those of an object quoted as a JSON text and, within braces, those in
    quotes."""
    at = 0
    while True:
        if not depth:
            at = text.find("{", at) + 1
            if not at:
                return 0
            quoted = _BRACE.match(text, at - 2) if text[at - 2 : at] == '"{' else None
            if quoted is not None and '\\"' in quoted[0] and quoted[0].endswith('"'):
                at = quoted.end()
                continue
            depth = 1
        mark = _BRACE.search(text, at)
        if mark is None:
            return depth
        at, depth = mark.end(), depth + {"{": 1, "}": -1}.get(mark[0], 0)


def _where(text: str) -> str:
    """The place at which the JSON of an answer breaks, for the retry."""
    start = text.find("{")
    try:
        _DECODER.raw_decode(text, max(start, 0))
    except json.JSONDecodeError as error:
        return f" ({error.msg} at character {error.pos + 1})" if start >= 0 else ""
    except (ValueError, RecursionError, ArithmeticError):
        return ""
    return ""
