"""Parser of numbers in model answers (digits, percentages, words) as a confidence or as P(yes)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from bellwether.forecasting.parsing.result import quote_text

_LONGEST = 60
_AROUND = " \t\r\n\f\v\xa0*_\"'`“”‘’[](){}$\\"
#: LaTeX around a value, and its escapes.
_LATEX = re.compile(r"\\(?:boxed|text|textbf|mathrm|mathbf|mathit)\{([^{}]*)\}")
_ABOUT = r"(?:(?:about|around|approximately|approx\.?|roughly|circa|ca\.?|~|≈)\s{0,3})?"
_UNIT = r"\s{0,3}\\?(%|percent|per cent|/ ?100|out of 100)?"
_DIGITS = re.compile(rf"{_ABOUT}([+-]?(?:[0-9]{{1,20}}(?:\.[0-9]{{0,25}})?|\.[0-9]{{1,25}})(?:e[+-]?[0-9]{{1,3}})?){_UNIT}", re.ASCII)
_WORDS = re.compile(rf"{_ABOUT}([a-z]+(?:[ -][a-z]+)?){_UNIT}", re.ASCII)

_UNITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SPELLED: Final = {
    **{name: number for number, name in enumerate(_UNITS + _TEENS)},
    **{tens: 10 * number for number, tens in enumerate(_TENS, start=2)},
    **{f"{tens} {unit}": 10 * number + rest for number, tens in enumerate(_TENS, start=2) for rest, unit in enumerate(_UNITS) if rest},
    **dict.fromkeys(("hundred", "a hundred", "one hundred"), 100),
}

_HUNDRED = Decimal(100)
_HALF = Decimal("0.5")


@dataclass(frozen=True, slots=True)
class Number:
    """Probability stated in an answer. value: exact, in [0, 1]. manner: how it was written, one of `MANNERS`; "" if as requested."""

    value: Decimal
    manner: str


@dataclass(frozen=True, slots=True)
class _Stated:
    """Number as written. of_hundred: it is marked as a percentage."""

    value: Decimal
    of_hundred: bool
    in_words: bool


def strip_marks(text: str) -> str:
    """Remove quotes, brackets, emphasis and LaTeX around a value, and a full stop at its end."""
    if "\\" in text:
        text = _LATEX.sub(r"\1", _LATEX.sub(r"\1", text)).replace("\\(", "").replace("\\)", "")
    return text.strip(_AROUND).rstrip(".!").strip(_AROUND)


def _parse_stated(text: str) -> _Stated | None:
    plain = strip_marks(text[: 2 * _LONGEST]).lower()
    if len(text) > 2 * _LONGEST or len(plain) > _LONGEST:
        return None
    if match := _DIGITS.fullmatch(plain):
        return _Stated(Decimal(match[1]) + 0, match[2] is not None, in_words=False)
    match = _WORDS.fullmatch(plain)
    number = _SPELLED.get(match[1].replace("-", " ")) if match else None
    return None if match is None or number is None else _Stated(Decimal(number), match[2] is not None, in_words=True)


def confidence(text: str) -> Number | str:
    """Parse the confidence in the given answer, which the prompt requests as 0 to 100. Returns the number, or a description of the problem.

    A bare 0 is 0. Bare numbers from 0.5 to below 1 are fractions: as percentages they would contradict their answer. Other bare numbers
    up to 1 are ambiguous.
    """
    stated = _parse_stated(text)
    if stated is None:
        return f"not a number: {quote_text(text)}"
    value = stated.value
    if not 0 <= value <= _HUNDRED:
        return f"out of range: {quote_text(text)} is not from 0 to 100"
    manner = "words" if stated.in_words else ""
    if stated.of_hundred or value == 0 or value > 1:
        return Number(value / _HUNDRED, manner)
    if _HALF <= value < 1:
        return Number(value, "fraction")
    return f"ambiguous number: {quote_text(text)} may be a percentage or a fraction"


def p_yes(text: str, *, as_asked: bool = True) -> Number | str:
    """Parse P(yes), which the prompt requests as 0 to 1. Returns the number, or a description of the problem. as_asked: the number is where
    the prompt requests it.

    Bare numbers from 2 on are percentages; those between 1 and 2 are ambiguous. A bare 1 is certainty only in the place that the prompt
    requests (`as_asked`). Elsewhere it may be 1 %.
    """
    stated = _parse_stated(text)
    if stated is None:
        return f"not a number: {quote_text(text)}"
    value = stated.value
    if not 0 <= value <= _HUNDRED:
        return f"out of range: {quote_text(text)} is no probability"
    if value == 1 and not stated.of_hundred and (stated.in_words or not as_asked):
        return f"ambiguous number: {quote_text(text)} may be a percentage or a probability"
    if stated.in_words:
        return Number(value / _HUNDRED, "words")
    if stated.of_hundred or value >= 2:
        return Number(value / _HUNDRED, "percent")
    return Number(value, "") if value <= 1 else f"ambiguous number: {quote_text(text)} is no probability, and hardly a percentage"
