"""Detection of the answer format that a prompt requests, and answers in that format or in a deliberately wrong one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

_OF_P = ("p_yes", "probability", "probability_yes", "yes_probability", "prob", "forecast")
_THOUGHTS = "Two things count here: how much can still happen before the close, and where things stand. Together they suggest {p} for yes."
_FIELDS = "p_yes|p_no|probability|probability_yes|yes_probability|prob|forecast|prediction|answer|outcome|confidence|reasoning|rationale|explanation"
_FIELD = re.compile(rf"[\"'`]({_FIELDS})[\"'`]")
_BARE_FIELD = re.compile(r"\b(p_yes)\b")
_ABOUT_YES = re.compile(r"(?:confidence|probability|likelihood)[^.\n]{0,80}?\byes\b|p_yes|\bP\(yes\)", re.IGNORECASE)
_IN_ANSWER = re.compile(r"(?:in|of) (?:the|your) (?:own |given )?(?:answer|prediction)", re.IGNORECASE)
_PERCENT = re.compile(r"\b0\s*%?\s*(?:-|–|to|and|…|\.\.)\s*100\b")
_UNIT = re.compile(r"\b0(?:\.0+)?\s*(?:-|–|to|and|…|\.\.)\s*1(?:\.0+)?\b(?![\d.])")
_TAGS = re.compile(r"<(answer|confidence|probability)>")


class AnswerForm(Enum):
    """Kind of answer: tags, a JSON object, or prose."""

    TAGS = "tags"
    OBJECT = "object"
    PROSE = "prose"


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """Requested format of an answer.

    of_yes: the number is the probability of yes; otherwise it is the confidence in the given answer. percent: the number is from 0 to 100.
    fields: names of the tags or of the object's members, in the order of the prompt.
    """

    form: AnswerForm
    of_yes: bool
    percent: bool
    fields: tuple[str, ...] = ()


def read_answer_format(text: str, *, as_object: bool) -> AnswerFormat:
    """Detect the requested format in instructions. as_object: the request demands JSON."""
    of_yes = bool(_ABOUT_YES.search(text)) and not _IN_ANSWER.search(text)
    percent = bool(_PERCENT.search(text))
    if tags := tuple(dict.fromkeys(_TAGS.findall(text))):
        return AnswerFormat(AnswerForm.TAGS, of_yes, percent or not _UNIT.search(text), tags)
    fields = tuple(dict.fromkeys(_FIELD.findall(text) or _BARE_FIELD.findall(text)))
    if as_object or fields:
        return AnswerFormat(AnswerForm.OBJECT, of_yes, percent, fields or ("p_yes", "reasoning"))
    return AnswerFormat(AnswerForm.PROSE, of_yes, percent)


def write_thoughts(p: float) -> str:
    """Write some sentences of reasoning that end with the probability."""
    return _THOUGHTS.format(p=f"{100 * p:.0f}%")


def format_number(value: float) -> str:
    """Format a number without trailing zeros: 63.27, 70, 0.5."""
    return f"{value:.4f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class Statement:
    """Content of an answer to be formatted. wish: the requested format. p: probability of yes. thinks: include the reasoning. number: replaces
    the stated number, for malformed answers.
    """

    wish: AnswerFormat
    p: float
    thoughts: str
    thinks: bool = True
    number: str | None = None

    @property
    def label(self) -> str:
        """The answer: "yes" or "no"."""
        return "yes" if self.p >= 0.5 else "no"

    def _number(self, value: float, *, percent: bool) -> str:
        return self.number if self.number is not None else format_number(100 * value if percent else value)

    @property
    def confidence(self) -> float:
        """The number to state: the probability of yes or, if the format asks for confidence, that of the more probable answer."""
        return self.p if self.wish.of_yes else max(self.p, 1 - self.p)

    def _tags(self) -> str:
        values = {
            "answer": self.label,
            "confidence": self._number(self.confidence, percent=self.wish.percent),
            "probability": self._number(self.p, percent=self.wish.percent),
        }
        think = f"<think>\n{self.thoughts}\n</think>\n" if self.thinks else ""
        return think + "\n".join(f"<{tag}>{values[tag]}</{tag}>" for tag in self.wish.fields or ("answer", "confidence"))

    def _member(self, name: str) -> str:
        """Return the value of a member of the answer's JSON object, as JSON text."""
        if name in ("answer", "prediction", "outcome"):
            return json.dumps(self.label)
        if name in ("reasoning", "rationale", "explanation"):
            return json.dumps(self.thoughts)
        value = 1 - self.p if name == "p_no" else self.p if name in _OF_P else self.confidence
        return self._number(value, percent=self.wish.percent and name not in ("p_yes", "p_no"))

    def _object(self) -> str:
        members = ", ".join(f'"{name}": {self._member(name)}' for name in self.wish.fields or ("p_yes", "reasoning"))
        return f"{{{members}}}"

    def text(self) -> str:
        """Format the answer as text."""
        if self.wish.form is AnswerForm.TAGS:
            return self._tags()
        if self.wish.form is AnswerForm.OBJECT:
            return self._object()
        return f"{self.thoughts}\n\nProbability of yes: {self._number(self.p, percent=True)}%"


def _unclosed(statement: Statement) -> str:
    """Format an answer without its closing tags or brackets."""
    return re.sub(r"</(answer|confidence|probability)>", "", statement.text()).rstrip("}%. ")


#: Malformed answers: functions that convert the right answer.
MALFORMED: tuple[Callable[[Statement], str], ...] = (
    lambda right: f"{right.thoughts} So I lean {right.label}, though it is hard to put a number on it.",
    lambda right: replace(right, number="250").text(),
    lambda right: replace(right, number="NaN").text(),
    _unclosed,
    lambda right: "",
)

REFUSAL = "I'm sorry, but I can't help with predicting the outcome of real-world events."
