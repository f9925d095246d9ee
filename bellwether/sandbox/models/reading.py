"""The form of answer that a prompt asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


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


_FIELDS = "p_yes|p_no|probability|probability_yes|yes_probability|prob|forecast|prediction|answer|outcome|confidence|reasoning|rationale|explanation"
_FIELD = re.compile(rf"[\"'`]({_FIELDS})[\"'`]")
_BARE_FIELD = re.compile(r"\b(p_yes)\b")
_ABOUT_YES = re.compile(r"(?:confidence|probability|likelihood)[^.\n]{0,80}?\byes\b|p_yes|\bP\(yes\)", re.IGNORECASE)
_IN_ANSWER = re.compile(r"(?:in|of) (?:the|your) (?:own |given )?(?:answer|prediction)", re.IGNORECASE)
_PERCENT = re.compile(r"\b0\s*%?\s*(?:-|–|to|and|…|\.\.)\s*100\b")
_UNIT = re.compile(r"\b0(?:\.0+)?\s*(?:-|–|to|and|…|\.\.)\s*1(?:\.0+)?\b(?![\d.])")
_TAGS = re.compile(r"<(answer|confidence|probability)>")


def wish_of(text: str, *, as_object: bool) -> Wish:
    """What the instructions ask for; `as_object` where the request demands JSON."""
    of_yes = bool(_ABOUT_YES.search(text)) and not _IN_ANSWER.search(text)
    percent = bool(_PERCENT.search(text))
    if tags := tuple(dict.fromkeys(_TAGS.findall(text))):
        return Wish(Form.TAGS, of_yes, percent or not _UNIT.search(text), tags)
    fields = tuple(dict.fromkeys(_FIELD.findall(text) or _BARE_FIELD.findall(text)))
    if as_object or fields:
        return Wish(Form.OBJECT, of_yes, percent, fields or ("p_yes", "reasoning"))
    return Wish(Form.PROSE, of_yes, percent)
