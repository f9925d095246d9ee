"""Checks of an answer, field by field, against the limits that were printed in its prompt. One bad leg voids the whole answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bellwether.arena.decision import Action, Bet, Decision, Problem, Sell, invalid
from bellwether.arena.methodology import Limit, Methodology
from bellwether.arena.units import CENT, LARGEST, dollars, micros, money_text
from bellwether.units import MicroDollars

#: Millionths of a percent: the smallest part that can be sold, and all.
_ONE_PERCENT, ALL = 1_000_000, 100_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What one decision may spend, in micro-dollars.

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
