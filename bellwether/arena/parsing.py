"""Reads a model's answer: any text in, a decision out, never an exception.

Accepted as asked for: one JSON object, also in a code fence or in quotes. Accepted and flagged: an object behind reasoning or in the midst of prose. An
answer with several objects that do not say the same is no decision, nor is one whose end is missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from bellwether.arena.decision import Action, Bet, Decision, Problem, Sell, invalid
from bellwether.arena.methodology import Limit, Methodology
from bellwether.arena.units import CENT, LARGEST, dollars, micros, money_text
from bellwether.forecasting.parsing.sections import split
from bellwether.units import MicroDollars

#: Millionths of a percent: the smallest part that can be sold, and all.
_ONE_PERCENT, ALL = 1_000_000, 100_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one decision, in micro-dollars.

    least: of a bet. most: of a bet or of all bets together, by `limit`. cash: that the agent has. A cent more than `most` is accepted, never more
    than the cash.
    """

    least: MicroDollars
    most: MicroDollars
    cash: MicroDollars
    limit: Limit = "bet"

    @classmethod
    def of(cls, methodology: Methodology, cash: MicroDollars) -> Limits:
        """The limits of an agent with so much cash (micro-dollars) before its decision."""
        return cls(methodology.least, methodology.most(cash), max(cash, MicroDollars(0)), methodology.limit)

    @property
    def accepted(self) -> MicroDollars:
        """The largest amount that is accepted where `most` is printed."""
        return MicroDollars(self.most + CENT)


class _Invalid(Exception):
    def __init__(self, problem: Problem, message: str) -> None:
        self.problem, self.message = problem, message


def validated(said: Mapping[str, Any], limits: Limits, *, tolerated: bool = False) -> Decision:
    """The decision that a JSON object states, or an INVALID one that names the fault and its place. Numbers are ints and Decimals."""
    try:
        action = _action(said)
        reasoning = _reasoning(said)
        bets = _bets(said, limits) if action is Action.BET else ()
        sells = _sells(said) if action is Action.SELL else ()
    except _Invalid as error:
        return invalid(error.problem, error.message, tolerated=tolerated)
    return Decision(action, bets, sells, reasoning, tolerated=tolerated)


def _action(said: Mapping[str, Any]) -> Action:
    given = said.get("action")
    if given is None:
        raise _Invalid(Problem.NO_ACTION, "action is missing; it is BET, SELL or HOLD")
    word = given.strip().upper() if isinstance(given, str) else None
    if word not in (Action.BET, Action.SELL, Action.HOLD):
        raise _Invalid(Problem.UNKNOWN_ACTION, f"action is {_shown(given)}; it is BET, SELL or HOLD")
    return Action(word)


def _reasoning(said: Mapping[str, Any]) -> str:
    given = said.get("reasoning")
    if not isinstance(given, str) or not given:
        raise _Invalid(Problem.NO_REASONING, f"reasoning is {_shown(given)}; give a text")
    return _clean(given)


def _bets(said: Mapping[str, Any], limits: Limits) -> tuple[Bet, ...]:
    bets = tuple(_bet(leg, f"bets[{place}]", limits) for place, leg in enumerate(_legs(said, "bets", Problem.NO_BETS)))
    total = MicroDollars(sum(bet.amount for bet in bets))
    if limits.limit == "decision" and total > limits.accepted:
        raise _Invalid(
            Problem.TOTAL_ABOVE_LIMIT, f"the bets add up to {_dollars(total)}; all together may be {money_text(limits.most)} at most"
        )
    if total > limits.cash:
        raise _Invalid(Problem.TOTAL_ABOVE_CASH, f"the bets add up to {_dollars(total)}; the cash is {money_text(limits.cash)}")
    return bets


def _bet(leg: Any, where: str, limits: Limits) -> Bet:
    leg = _leg(leg, where)
    market_id = _text(leg, "market_id", where, Problem.NO_MARKET)
    side = _text(leg, "side", where, Problem.NO_SIDE)
    amount = _amount(leg, where, limits)
    canonical = side.upper() if side.casefold() in ("yes", "no") else side
    return Bet(market_id, canonical, amount, _probability(leg, where))


def _amount(leg: Mapping[str, Any], where: str, limits: Limits) -> MicroDollars:
    given = _number(leg, "amount", where)
    if given < dollars(limits.least):
        raise _Invalid(Problem.BELOW_MINIMUM, f"{where}.amount is {_shown(given)}; the minimum is {money_text(limits.least)}")
    if given > dollars(limits.accepted):
        what = "one bet may be" if limits.limit == "bet" else "all bets together may be"
        raise _Invalid(Problem.ABOVE_LIMIT, f"{where}.amount is {_shown(given)}; {what} {money_text(limits.most)} at most")
    return MicroDollars(micros(given))


def _probability(leg: Mapping[str, Any], where: str) -> float | None:
    if leg.get("probability") is None:
        return None
    given = _number(leg, "probability", where, Problem.PROBABILITY)
    if not 0 <= given <= 1:
        raise _Invalid(Problem.PROBABILITY, f"{where}.probability is {_shown(given)}; it is a number from 0 to 1")
    return float(given)


def _sells(said: Mapping[str, Any]) -> tuple[Sell, ...]:
    return tuple(_sell(leg, f"sells[{place}]") for place, leg in enumerate(_legs(said, "sells", Problem.NO_SELLS)))


def _sell(leg: Any, where: str) -> Sell:
    leg = _leg(leg, where)
    position_id = _text(leg, "position_id", where, Problem.NO_POSITION)
    given = _number(leg, "percentage", where)
    if not 1 <= given <= 100:
        raise _Invalid(Problem.PERCENTAGE, f"{where}.percentage is {_shown(given)}; it is a number from 1 to 100")
    return Sell(position_id, min(max(micros(given), _ONE_PERCENT), ALL))


def _legs(said: Mapping[str, Any], name: str, problem: Problem) -> list[Any]:
    legs = said.get(name)
    if not isinstance(legs, list) or not legs:
        raise _Invalid(problem, f"{name} is {'empty' if legs == [] else _shown(legs)}; give a list with one entry at least")
    return legs


def _leg(leg: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(leg, Mapping):
        raise _Invalid(Problem.NOT_A_LEG, f"{where} is {_shown(leg)}; give an object")
    return leg


def _text(leg: Mapping[str, Any], name: str, where: str, problem: Problem) -> str:
    given = leg.get(name)
    if not isinstance(given, str) or not given.strip():
        raise _Invalid(problem, f"{where}.{name} is {_shown(given)}; give a text")
    return _clean(given.strip())


def _number(leg: Mapping[str, Any], name: str, where: str, problem: Problem = Problem.NOT_A_NUMBER) -> Decimal:
    given = leg.get(name)
    if isinstance(given, bool) or not isinstance(given, int | Decimal):
        raise _Invalid(problem, f"{where}.{name} is {_shown(given)}; give a JSON number")
    # The magnitude is bounded before any arithmetic: 1e308, and integers of thousands of digits, are numbers too.
    too_large = given.bit_length() > 128 if isinstance(given, int) else given.adjusted() > 40
    return LARGEST * (1 if given > 0 else -1) if too_large else Decimal(given)


def _dollars(amount: MicroDollars) -> str:
    return f"{dollars(amount).normalize():f}"


def _shown(value: Any) -> str:
    """An untrusted value for a message: one printable line of moderate length."""
    if value is None:
        return "missing"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else f"{value[:59]}…")
    if isinstance(value, Decimal):
        return format(value, "g")[:60]
    if isinstance(value, bool) or not isinstance(value, int):
        return repr(value) if isinstance(value, bool) else f"a {type(value).__name__}"
    return str(value) if value.bit_length() < 128 else "a number of many digits"


def _clean(text: str) -> str:
    """Text without halves of surrogate pairs, which JSON can spell and no file can hold."""
    return text.encode(errors="replace").decode()


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
