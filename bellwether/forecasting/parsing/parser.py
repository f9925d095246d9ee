"""The default parser: the last answer after the reasoning, read strictly where it could mean two things."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache

import polars as pl

from bellwether.forecasting.parsing import fields, numbers
from bellwether.forecasting.parsing.fields import Field, Found
from bellwether.forecasting.parsing.numbers import Number
from bellwether.forecasting.parsing.reading import Answer, Reading, quoted
from bellwether.forecasting.parsing.sections import is_tagged, split

#: Answers up to this length, without the reasoning before them, are read once and remembered: they repeat.
_SHORT = 200
_REMEMBERED = 1 << 14
_FEW = 4
_OPEN, _CLOSE = "<think>", "</think>"
_HALF = Decimal("0.5")
_new = tuple.__new__

_SCHEMA = {
    "answer": pl.String(),
    "confidence": pl.Float64(),
    "p_yes": pl.Float64(),
    "path": pl.String(),
    "problem": pl.String(),
    "contradiction": pl.String(),
    "reasoning": pl.String(),
}


def read(text: str | None) -> Reading:
    """What a response says. Never raises, whatever the text; the time is linear in its length."""
    if not isinstance(text, str):
        return _EMPTY
    before, close, behind = text.rpartition(_CLOSE)
    if len(behind) > _SHORT:
        return _read(text)
    if not close:
        return _remembered(text)
    start = 7 if before.startswith(_OPEN) else 0
    if before.find("<", start) < 0 or not is_tagged(before, start):
        # One block of reasoning, then a short answer: `_read` would find the same.
        said = _behind_reasoning(behind)
        if said is not None:
            return _new(Reading, (*said, before[start:].strip() or None))
    return _read(text)


def read_many(texts: Iterable[str | None]) -> pl.DataFrame:
    """One row per response, in order: the columns are those of `Reading`. Lone surrogates become question marks, as UTF-8 has none."""
    readings = [read(text) for text in texts]
    columns = dict(zip(_SCHEMA, zip(*readings, strict=True), strict=True)) if readings else {}
    try:
        return pl.DataFrame(columns, schema=_SCHEMA)
    except UnicodeEncodeError:
        whole = [text and text.encode(errors="replace").decode() for text in columns["reasoning"]]
        return pl.DataFrame({**columns, "reasoning": whole}, schema=_SCHEMA)


def _read(text: str) -> Reading:
    if not text or text.isspace():
        return _EMPTY
    sections = split(text)
    found = fields.find(sections.outside)
    if not found.fields and sections.last is not None:
        found = fields.at_end(sections.last)
    conclude = _known if len(found.fields) <= _FEW else _conclude
    reasoning = sections.reasoning if sections.reasoning is not None else _before(sections.outside, found)
    return _new(Reading, (*conclude(found.fields, found.form)[:6], reasoning))


_EMPTY = Reading(None, None, None, "none", "empty response")
_remembered = lru_cache(maxsize=_REMEMBERED)(_read)


@lru_cache(maxsize=_REMEMBERED)
def _behind_reasoning(text: str) -> tuple[object, ...] | None:
    """All but the reasoning of what follows it, read alone; None where that states nothing or has reasoning of its own."""
    said = _read(text)
    return said[:6] if said.path != "none" and said.reasoning is None and not is_tagged(text) else None


def _before(text: str, found: Found) -> str | None:
    """Reasoning without tags of its own: the member of the JSON that holds it, else the prose before the first statement."""
    if not found.fields:
        return None
    if found.form == "json":
        return fields.thoughts(text)
    prose = text[: found.start].rstrip()
    fence = prose.rfind("```", -12)
    return (prose[:fence] if fence >= 0 else prose).strip() or None


def _conclude(found: tuple[Field, ...], form: str) -> Reading:
    if not found:
        return Reading(None, None, None, "none", "no answer: no tag, member or line states one")
    answers = [field.raw for field in found if field.kind == "answer"]
    words = [_word(raw) for raw in answers]
    answer = words[-1] if words else None
    if {"yes", "no"} <= set(words):
        return _contradictory("yes and no", form)
    if answers and answer is None:
        return Reading(None, None, None, form, f"neither yes nor no: {quoted(answers[-1].strip())}")
    if probabilities := [numbers.p_yes(field.raw) for field in found if field.kind == "p_yes"]:
        return _of_probability(answer, probabilities, form)
    return _of_answer(answer, found, form)


def _of_answer(answer: Answer | None, found: tuple[Field, ...], form: str) -> Reading:
    if answer is None:
        return Reading(None, None, None, form, "no answer: a confidence without one")
    if confidences := [numbers.confidence(field.raw) for field in found if field.kind == "confidence"]:
        return _of_confidence(answer, confidences, form)
    return Reading(answer, None, None, form, "no number: an answer without its confidence")


_known = lru_cache(maxsize=_REMEMBERED)(_conclude)


def _word(raw: str) -> Answer | None:
    plain = numbers.bare(raw).lower()
    return "yes" if plain == "yes" else "no" if plain == "no" else None


def _of_probability(answer: Answer | None, stated: list[Number | str], form: str) -> Reading:
    number = stated[-1]
    if isinstance(number, str):
        return Reading(answer, None, None, form, number)
    p, path = number.value, _path(form, number)
    values = [one.value for one in stated if isinstance(one, Number)]
    if min(values) < _HALF < max(values):
        return _contradictory(f"P(yes) = {float(min(values)):g} and {float(max(values)):g}", path)
    if answer is not None and (p != _HALF) and (answer == "yes") != (p > _HALF):
        return _contradictory(f"{answer} with P(yes) = {float(p):g}", path)
    given: Answer = answer or ("yes" if p >= _HALF else "no")
    return Reading(given, float(p if given == "yes" else 1 - p), float(p), path, None, _several(stated))


def _of_confidence(answer: Answer, stated: list[Number | str], form: str) -> Reading:
    number = stated[-1]
    if isinstance(number, str):
        return Reading(answer, None, None, form, number)
    c = number.value
    unsure = f"low confidence: {float(100 * c):g} % in the given answer {answer}" if c < _HALF else None
    return Reading(answer, float(c), float(c if answer == "yes" else 1 - c), _path(form, number), None, unsure or _several(stated))


def _contradictory(what: str, path: str) -> Reading:
    words = f"contradictory answers: {what}"
    return Reading(None, None, None, path, words, words)


def _path(form: str, number: Number) -> str:
    return f"{form}/{number.manner}" if number.manner else form


def _several(stated: list[Number | str]) -> str | None:
    values = list(dict.fromkeys(number.value for number in stated if isinstance(number, Number)))
    if len(values) < 2:
        return None
    return f"several numbers: {', '.join(f'{float(value):g}' for value in values[-3:])}; the last one counts"
