"""Parser of model answers: every text becomes a decision, and nothing is raised.

Accepted: one JSON object, also in a code fence or in quotes. Accepted and flagged: an object after reasoning or within prose, or with raw line
breaks in its texts. Rejected: several objects that differ, and truncated answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from bellwether.arena.decision import Action, Bet, Decision, Problem, Sell, invalid_decision
from bellwether.arena.methodology import Limit, Methodology
from bellwether.arena.units import CENT, LARGEST, dollars, micros, money_text
from bellwether.forecasting.parsing.sections import split
from bellwether.formatting import replace_surrogates
from bellwether.units import MicroDollars

#: Minimum and maximum percentage of a sale, in millionths of a percent.
_ONE_PERCENT, ALL = 1_000_000, 100_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one decision in micro-dollars.

    least: minimum bet. most: maximum of a bet or of all bets, by `limit`. cash: of the agent. An excess of one cent over `most` is accepted,
    but never more than the cash.
    """

    least: MicroDollars
    most: MicroDollars
    cash: MicroDollars
    limit: Limit = "bet"

    @classmethod
    def of(cls, methodology: Methodology, cash: MicroDollars) -> Limits:
        """Return the limits of a decision. cash: of the agent before the decision, in micro-dollars."""
        return cls(methodology.smallest_bet, methodology.largest_bet(cash), max(cash, MicroDollars(0)), methodology.limit)

    @property
    def accepted(self) -> MicroDollars:
        """Largest amount that is accepted: `most` plus one cent."""
        return MicroDollars(self.most + CENT)


class _InvalidAnswer(Exception):
    def __init__(self, problem: Problem, message: str) -> None:
        self.problem, self.message = problem, message


def validate_answer(answer: Mapping[str, Any], limits: Limits, *, tolerated: bool = False) -> Decision:
    """Return the decision that a parsed JSON object states; INVALID, with the problem, if it violates form or limits. answer: numbers are ints
    and Decimals. tolerated: the text contained more than this object.
    """
    try:
        action = _parse_action(answer)
        reasoning = _parse_reasoning(answer)
        bets = _parse_bets(answer, limits) if action is Action.BET else ()
        sells = (
            tuple(_parse_sell(leg, f"sells[{place}]") for place, leg in enumerate(_parse_legs(answer, "sells", Problem.NO_SELLS)))
            if action is Action.SELL
            else ()
        )
    except _InvalidAnswer as error:
        return invalid_decision(error.problem, error.message, tolerated=tolerated)
    return Decision(action, bets, sells, reasoning, tolerated=tolerated)


def _parse_action(answer: Mapping[str, Any]) -> Action:
    value = answer.get("action")
    if value is None:
        raise _InvalidAnswer(Problem.NO_ACTION, "action is missing; it is BET, SELL or HOLD")
    action = value.strip().upper() if isinstance(value, str) else None
    if action not in (Action.BET, Action.SELL, Action.HOLD):
        raise _InvalidAnswer(Problem.UNKNOWN_ACTION, f"action is {_value_text(value)}; it is BET, SELL or HOLD")
    return Action(action)


def _parse_reasoning(answer: Mapping[str, Any]) -> str:
    value = answer.get("reasoning")
    if not isinstance(value, str) or not value:
        raise _InvalidAnswer(Problem.NO_REASONING, f"reasoning is {_value_text(value)}; give a text")
    return replace_surrogates(value)


def _parse_bets(answer: Mapping[str, Any], limits: Limits) -> tuple[Bet, ...]:
    bets = tuple(_parse_bet(leg, f"bets[{place}]", limits) for place, leg in enumerate(_parse_legs(answer, "bets", Problem.NO_BETS)))
    total = MicroDollars(sum(bet.amount for bet in bets))
    if limits.limit == "decision" and total > limits.accepted:
        raise _InvalidAnswer(
            Problem.TOTAL_ABOVE_LIMIT, f"the bets add up to {_dollar_text(total)}; all together may be {money_text(limits.most)} at most"
        )
    if total > limits.cash:
        raise _InvalidAnswer(Problem.TOTAL_ABOVE_CASH, f"the bets add up to {_dollar_text(total)}; the cash is {money_text(limits.cash)}")
    return bets


def _parse_bet(leg: Any, where: str, limits: Limits) -> Bet:
    leg = _require_object(leg, where)
    market_id = _require_text(leg, "market_id", where, Problem.NO_MARKET)
    side = _require_text(leg, "side", where, Problem.NO_SIDE)
    amount = _parse_amount(leg, where, limits)
    canonical = side.upper() if side.casefold() in ("yes", "no") else side
    return Bet(market_id, canonical, amount, _parse_probability(leg, where))


def _parse_amount(leg: Mapping[str, Any], where: str, limits: Limits) -> MicroDollars:
    value = _require_number(leg, "amount", where)
    if value < dollars(limits.least):
        raise _InvalidAnswer(Problem.BELOW_MINIMUM, f"{where}.amount is {_value_text(value)}; the minimum is {money_text(limits.least)}")
    if value > dollars(limits.accepted):
        bound = "one bet may be" if limits.limit == "bet" else "all bets together may be"
        raise _InvalidAnswer(Problem.ABOVE_LIMIT, f"{where}.amount is {_value_text(value)}; {bound} {money_text(limits.most)} at most")
    return MicroDollars(micros(value))


def _parse_probability(leg: Mapping[str, Any], where: str) -> float | None:
    if leg.get("probability") is None:
        return None
    value = _require_number(leg, "probability", where, Problem.PROBABILITY)
    if not 0 <= value <= 1:
        raise _InvalidAnswer(Problem.PROBABILITY, f"{where}.probability is {_value_text(value)}; it is a number from 0 to 1")
    return float(value)


def _parse_sell(leg: Any, where: str) -> Sell:
    leg = _require_object(leg, where)
    position_id = _require_text(leg, "position_id", where, Problem.NO_POSITION)
    value = _require_number(leg, "percentage", where)
    if not 1 <= value <= 100:
        raise _InvalidAnswer(Problem.PERCENTAGE, f"{where}.percentage is {_value_text(value)}; it is a number from 1 to 100")
    return Sell(position_id, min(max(micros(value), _ONE_PERCENT), ALL))


def _parse_legs(answer: Mapping[str, Any], name: str, problem: Problem) -> list[Any]:
    legs = answer.get(name)
    if not isinstance(legs, list) or not legs:
        raise _InvalidAnswer(problem, f"{name} is {'empty' if legs == [] else _value_text(legs)}; give a list with one entry at least")
    return legs


def _require_object(leg: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(leg, Mapping):
        raise _InvalidAnswer(Problem.NOT_A_LEG, f"{where} is {_value_text(leg)}; give an object")
    return leg


def _require_text(leg: Mapping[str, Any], name: str, where: str, problem: Problem) -> str:
    value = leg.get(name)
    if not isinstance(value, str) or not value.strip():
        raise _InvalidAnswer(problem, f"{where}.{name} is {_value_text(value)}; give a text")
    return replace_surrogates(value.strip())


def _require_number(leg: Mapping[str, Any], name: str, where: str, problem: Problem = Problem.NOT_A_NUMBER) -> Decimal:
    value = leg.get(name)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise _InvalidAnswer(problem, f"{where}.{name} is {_value_text(value)}; give a JSON number")
    # Bound the magnitude before any arithmetic: 1e308 and integers with thousands of digits are valid JSON numbers.
    too_large = value.bit_length() > 128 if isinstance(value, int) else value.adjusted() > 40
    return LARGEST * (1 if value > 0 else -1) if too_large else Decimal(value)


def _dollar_text(amount: MicroDollars) -> str:
    return f"{dollars(amount).normalize():f}"


def _value_text(value: Any) -> str:
    """Format an untrusted value as one short printable line."""
    if value is None:
        return "missing"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else f"{value[:59]}…")
    if isinstance(value, Decimal):
        return format(value, "g")[:60]
    if isinstance(value, bool) or not isinstance(value, int):
        return repr(value) if isinstance(value, bool) else f"a {type(value).__name__}"
    return str(value) if value.bit_length() < 128 else "a number of many digits"


#: A code fence with an optional label.
_FENCE = re.compile(r"```[ \t]*(?:json)?\s*(.*?)\s*(?:```)?", re.DOTALL | re.IGNORECASE)
_QUOTES = ("'", '"')
_BRACE = re.compile(r'[{}]|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
#: Characters that may follow an object in a truncated answer.
_CLOSERS = " \t\r\n`'\"."
#: Maximum number of opening braces and of characters that are parsed.
_MOST_BRACES = 500
_LONGEST = 1_000_000


def parse_decision(text: str | None, limits: Limits, *, ended: bool = True) -> Decision:
    """Parse a model's answer and return its decision; INVALID if the answer is unusable or violates the limits. Never raises. ended: whether the
    model finished the text, by its finish reason.

    Marked reasoning is ignored. In an unfinished answer an object followed by other text is rejected, because a second object may have been
    meant to follow.
    """
    content = _strip_reasoning(text[:_LONGEST] if isinstance(text, str) else "")
    if not content:
        return invalid_decision(Problem.EMPTY, "the answer is empty; give one JSON object")
    parsed = _load_whole_answer(content, _STRICT_DECODER)
    if parsed is not _NOTHING:
        return _validate_object(parsed, limits, tolerated=False)
    sections = split(content)
    content = _strip_reasoning(sections.outside)
    if sections.unclosed is not None:
        objects, _, rest = _find_objects(sections.unclosed)
        if not (ended and objects) or rest.strip(_CLOSERS):
            return invalid_decision(Problem.CUT_OFF, "the reasoning has no end; give one JSON object")
        return _parse_prose(f"{content}\n{sections.unclosed}", limits, ended=ended)
    if not content:
        return invalid_decision(Problem.EMPTY, "the answer is reasoning alone; give one JSON object")
    parsed = _load_whole_answer(content, _DECODER)
    return _validate_object(parsed, limits, tolerated=True) if parsed is not _NOTHING else _parse_prose(content, limits, ended=ended)


def _strip_reasoning(text: str) -> str:
    return text.strip().removeprefix("\ufeff").strip()


def _parse_prose(content: str, limits: Limits, *, ended: bool) -> Decision:
    objects, is_open, rest = _find_objects(content)
    if (is_open and (objects or not ended)) or (objects and not ended and rest.strip(_CLOSERS)):
        return invalid_decision(
            Problem.CUT_OFF, f"the end of the answer is missing{_fault_position(content)}; give one complete JSON object"
        )
    if not objects:
        return invalid_decision(
            Problem.NOT_JSON, f"no JSON object with an action can be read{_fault_position(content)}; give one complete JSON object"
        )
    decisions = {_validate_object(value, limits, tolerated=True) for value in objects}
    if len(decisions) > 1:
        return invalid_decision(Problem.SEVERAL, f"{len(objects)} objects state decisions that differ; give one", tolerated=True)
    return decisions.pop()


_NOTHING = object()


def _validate_object(value: Any, limits: Limits, *, tolerated: bool) -> Decision:
    if not isinstance(value, Mapping):
        kind = "null" if value is None else type(value).__name__
        return invalid_decision(Problem.NOT_AN_OBJECT, f"the answer is JSON, but no object ({kind}); give one JSON object")
    return validate_answer(value, limits, tolerated=tolerated)


def _load_whole_answer(answer: str, decoder: json.JSONDecoder) -> Any:
    """Load an answer that is JSON as a whole, possibly in a code fence or in quotes; return `_NOTHING` for any other answer."""
    fence = _FENCE.fullmatch(answer) if answer.startswith("```") else None
    inner = fence.group(1) if fence else answer
    for text in (inner, _strip_quotes(inner)):
        value = _load_json(text, decoder)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = _load_json(value, decoder)
        if value is not _NOTHING:
            return value
    return _NOTHING


def _strip_quotes(text: str) -> str:
    quoted = len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0]
    return text[1:-1].strip() if quoted else text


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _build_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object from its (name, value) members. Raises ValueError if a name is repeated with a different value."""
    fields = dict(members)
    if len(fields) < len(members) and any(fields[name] != value for name, value in members):
        raise ValueError("a name is stated twice, and differently")
    return fields


#: Decoders of JSON, and of JSON with raw line breaks in its texts.
_STRICT_DECODER, _DECODER = (
    json.JSONDecoder(strict=strict, parse_float=Decimal, parse_constant=_reject_constant, object_pairs_hook=_build_object)
    for strict in (True, False)
)


def _load_json(text: str, decoder: json.JSONDecoder) -> Any:
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError, ArithmeticError):
        return _NOTHING


def _find_objects(text: str) -> tuple[list[Mapping[str, Any]], bool, str]:
    """Return the objects with the key `action` from left to right, whether a brace is open at the end, and the text after the last object.

    Objects within other objects are ignored, also within objects that cannot be parsed.
    """
    objects: list[Mapping[str, Any]] = []
    at, parsed_to, depth = text.find("{"), 0, 0
    for _ in range(_MOST_BRACES):
        if at < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError, ArithmeticError):
            end = at + 1
        else:
            depth, parsed_to = _brace_depth(text[parsed_to:at], depth), end
            if not depth and isinstance(value, Mapping) and "action" in value:
                objects.append(value)
        at = text.find("{", end)
    return objects, _brace_depth(text[parsed_to:], depth) > 0, text[parsed_to:]


def _brace_depth(text: str, depth: int) -> int:
    """Return how many braces are open at the end of a text, if `depth` are open at its beginning. Braces in quoted text are ignored."""
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


def _fault_position(text: str) -> str:
    """Return at which character the JSON of an answer is invalid, and why, as text in parentheses; "" if unknown."""
    start = text.find("{")
    try:
        _DECODER.raw_decode(text, max(start, 0))
    except json.JSONDecodeError as error:
        return f" ({error.msg} at character {error.pos + 1})" if start >= 0 else ""
    except (ValueError, RecursionError, ArithmeticError):
        return ""
    return ""
