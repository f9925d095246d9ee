"""What a prompt asks for: the form of the answer, and the markets, prices and money that it shows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest


class Form(Enum):
    """The form in which an answer is wanted."""

    TAGS = "tags"
    OBJECT = "object"
    DECISION = "decision"
    PROSE = "prose"


@dataclass(frozen=True, slots=True)
class Wish:
    """How the answer is to look.

    form: see `Form`. of_yes: the number is the probability of yes; otherwise it is the confidence in the given answer.
    percent: the number runs from 0 to 100. fields: names of the tags or of the object's members, in the order in which the prompt names them.
    """

    form: Form
    of_yes: bool
    percent: bool
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """A market that a prompt shows: its id, the text about it, and the price of yes in dollars."""

    market_id: str
    text: str
    yes: float


@dataclass(frozen=True, slots=True)
class Holding:
    """A position that a prompt shows: its id, the text about it, its side, and the price of that side in dollars."""

    position_id: str
    text: str
    side: str
    price: float


_FIELDS = "p_yes|p_no|probability|probability_yes|yes_probability|prob|forecast|prediction|answer|outcome|confidence|reasoning|rationale|explanation"
_FIELD = re.compile(rf"[\"'`]({_FIELDS})[\"'`]")
_BARE_FIELD = re.compile(r"\b(p_yes)\b")
_ABOUT_YES = re.compile(r"(?:confidence|probability|likelihood)[^.\n]{0,80}?\byes\b|p_yes|\bP\(yes\)", re.IGNORECASE)
_IN_ANSWER = re.compile(r"(?:in|of) (?:the|your) (?:own |given )?(?:answer|prediction)", re.IGNORECASE)
_PERCENT = re.compile(r"\b0\s*%?\s*(?:-|–|to|and|…|\.\.)\s*100\b")
_UNIT = re.compile(r"\b0(?:\.0+)?\s*(?:-|–|to|and|…|\.\.)\s*1(?:\.0+)?\b(?![\d.])")
_TAGS = re.compile(r"<(answer|confidence|probability)>")

_ID = re.compile(r"(?:^|[^\w])(?:market[_ -]?id|ticker|id)\b[\"'`*]*\s*[:=]\s*[\"'`*]*([\w.-]+)", re.IGNORECASE)
_POSITION = re.compile(r"(?:^|[^\w])position[_ -]?id\b[\"'`*]*\s*[:=]\s*[\"'`*]*([\w.-]+)", re.IGNORECASE)
_YES_PRICE = re.compile(
    r"\b(?:best_)?yes(?:[_ ](?:best_)?(?:ask|price|mid(?:point)?))?(_dollars|_cents)?\b[\"'`*]*\s*[:=@]?\s*[\"'$]*(\d*\.?\d+)\s*(%|¢)?",
    re.IGNORECASE,
)
_SIDE = re.compile(r"side\b[\"'`*]*\s*[:=]\s*[\"'`*]*(yes|no)\b", re.IGNORECASE)
_CURRENT = re.compile(r"current(?:[_ ](?:side[_ ])?price)?\b[\"'`*]*\s*[:=@]?\s*[\"'$]*(\d*\.?\d+)\s*(%|¢)?", re.IGNORECASE)
_CASH = re.compile(r"cash[^\d\n]{0,30}?\$?\s*(\d[\d,]*(?:\.\d+)?)", re.IGNORECASE)
_CASH_CENTS = re.compile(r"cash_cents[\"']?\s*[:=]\s*(\d+)", re.IGNORECASE)
_LEAST = re.compile(r"min(?:imum)?[^\d\n]{0,20}bet[^\d\n]{0,20}\$?\s*(\d[\d,]*(?:\.\d+)?)", re.IGNORECASE)
_SHARE = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*%\s+of\s+(?:\w+\s+){0,3}cash", re.IGNORECASE)


def wish_of(text: str, *, as_object: bool) -> Wish:
    """What the instructions ask for; `as_object` where the request demands JSON."""
    of_yes = bool(_ABOUT_YES.search(text)) and not _IN_ANSWER.search(text)
    percent = bool(_PERCENT.search(text))
    if all(word in text for word in ("BET", "SELL", "HOLD")):
        return Wish(Form.DECISION, of_yes, percent)
    if tags := tuple(dict.fromkeys(_TAGS.findall(text))):
        return Wish(Form.TAGS, of_yes, percent or not _UNIT.search(text), tags)
    fields = tuple(dict.fromkeys(_FIELD.findall(text) or _BARE_FIELD.findall(text)))
    if as_object or fields:
        return Wish(Form.OBJECT, of_yes, percent, fields or ("p_yes", "reasoning"))
    return Wish(Form.PROSE, of_yes, percent)


def dollars(number: str, sign: str | None, unit: str | None = None) -> float:
    """A price as dollars: percent, cents, and bare numbers above 1 are hundredths."""
    value = float(number)
    return value / 100 if sign or unit == "_cents" or value > 1 else value


def offers(text: str) -> list[Offer]:
    """The markets with an id and a price of yes, in the order of the prompt. What stands between two ids is about the first."""
    found = []
    ids = [match for match in _ID.finditer(text) if not _is_position(text, match)]
    for match, following in zip_longest(ids, ids[1:]):
        block = text[match.start() : following.start() if following else match.start() + 4000]
        price = _YES_PRICE.search(block)
        if price and 0 < (yes := dollars(price[2], price[3], price[1])) < 1:
            found.append(Offer(match[1].rstrip("."), block, yes))
    return found


def _is_position(text: str, match: re.Match[str]) -> bool:
    return bool(re.search(r"position[_ -]?$", text[max(0, match.start() - 10) : match.start() + 1], re.IGNORECASE))


def holdings(text: str) -> list[Holding]:
    """The positions with an id, a side of yes or no, and a current price."""
    found = []
    ids = list(_POSITION.finditer(text))
    for match, following in zip_longest(ids, ids[1:]):
        block = text[match.start() : following.start() if following else match.start() + 1000]
        side, price = _SIDE.search(block), _CURRENT.search(block)
        if side and price:
            found.append(Holding(match[1].rstrip("."), block, side[1].upper(), dollars(price[1], price[2])))
    return found


def _amount(text: str) -> float:
    return float(text.replace(",", ""))


def cash(text: str) -> float | None:
    """Dollars that the prompt says are there; None where it does not say."""
    if match := _CASH_CENTS.search(text):
        return int(match[1]) / 100
    match = _CASH.search(text)
    return _amount(match[1]) if match else None


def least_bet(text: str) -> float:
    """The smallest bet in dollars; 50 where the prompt does not say."""
    match = _LEAST.search(text)
    return _amount(match[1]) if match else 50.0


def most_share(text: str) -> float:
    """The largest share of cash that may be bet; a quarter where the prompt does not say."""
    match = _SHARE.search(text)
    return min(_amount(match[1]) / 100, 1.0) if match else 0.25
