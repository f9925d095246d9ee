"""Default parser of model answers. It reads the last answer after the reasoning and rejects ambiguous ones."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache

import polars as pl

from bellwether.forecasting.parsing import fields, numbers
from bellwether.forecasting.parsing.fields import Field, Form, Statements
from bellwether.forecasting.parsing.numbers import Number
from bellwether.forecasting.parsing.result import Answer, Reading, quote_text
from bellwether.forecasting.parsing.sections import is_tagged, split
from bellwether.formatting import replace_surrogates

#: Readings of answers up to this length (without reasoning) are cached, because such answers repeat.
_SHORT = 200
_CACHED = 1 << 14
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


def read(text: str | None, *, ended: bool = True) -> Reading:
    """Parse a model's answer, in time linear in its length. Never raises.

    ended: True if the model ended the text itself, according to the finish reason. Otherwise the end of the text closes no value, and an answer
    followed by other text is not accepted.
    """
    if not isinstance(text, str):
        return _EMPTY
    head, close, tail = text.rpartition(_CLOSE)
    if len(tail) > _SHORT:
        return _read(text, ended)
    if not close:
        return _read_cached(text, ended)
    start = 7 if head.startswith(_OPEN) else 0
    if not is_tagged(head, start) and not tail.lstrip(" \t\r\n")[:1].isspace():
        # Shortcut for one block of reasoning and a short answer; `_read` gives the same result.
        values = _read_after_reasoning(tail, ended)
        if values is not None:
            return _new(Reading, (*values, head[start:].strip() or None))
    return _read(text, ended)


def read_many(texts: Iterable[str | None]) -> pl.DataFrame:
    """Parse answers into a frame: one row per answer, in order, with the columns of `Reading`. Lone surrogates become question marks."""
    readings = [read(text) for text in texts]
    columns = dict(zip(_SCHEMA, zip(*readings, strict=True), strict=True)) if readings else {}
    try:
        return pl.DataFrame(columns, schema=_SCHEMA)
    except UnicodeEncodeError:
        whole = [text and replace_surrogates(text) for text in columns["reasoning"]]
        return pl.DataFrame({**columns, "reasoning": whole}, schema=_SCHEMA)


def _read(text: str, ended: bool) -> Reading:
    if not text or text.isspace():
        return _EMPTY
    sections = split(text)
    outside = sections.outside
    if sections.unclosed is not None:
        if not (ended and _ends_with_answer(sections.unclosed)):
            return _UNENDED._replace(reasoning="\n\n".join(filter(None, (sections.reasoning, sections.unclosed.strip()))) or None)
        outside = f"{outside}\n{sections.unclosed}"
    outside = fields.normalize_text(outside)
    statements = fields.find_statements(outside, ended=ended)
    reasoning = sections.reasoning if sections.reasoning is not None else _untagged_reasoning(outside, statements)
    return _new(Reading, (*_combine_forms(statements)[:6], reasoning))


def _ends_with_answer(text: str) -> bool:
    """Return True if a complete answer is at the end of a text."""
    statements = fields.find_statements(fields.normalize_text(f"{text.rstrip()}\n"), ended=False)
    return not statements.is_cut and any(form.is_complete for form in statements.forms)


_EMPTY = Reading(None, None, None, "none", "empty response")
_UNENDED = Reading(None, None, None, "none", "no answer: the reasoning has no end")
_read_cached = lru_cache(maxsize=_CACHED)(_read)


@lru_cache(maxsize=_CACHED)
def _read_after_reasoning(text: str, ended: bool) -> tuple[object, ...] | None:
    """Parse the text after a block of reasoning. None if the text states no answer, or contains further reasoning."""
    reading = _read(text, ended)
    return reading[:6] if reading.path != "none" and reading.reasoning is None and not is_tagged(text) else None


def _untagged_reasoning(text: str, statements: Statements) -> str | None:
    """Return reasoning that is not in tags: a member of a JSON object, or else the text before the first statement."""
    if not statements.forms:
        return None
    if statements.forms[0].name == "json":
        return fields.read_reasoning_member(text)
    prose = text[: statements.start].rstrip()
    fence = prose.rfind("```", -12)
    return (prose[:fence] if fence >= 0 else prose).strip() or None


def _combine_forms(statements: Statements) -> Reading:
    """Combine the forms (notations) of an answer to one reading: that of the last complete form, unless the text is cut off or another form
    contradicts it.
    """
    forms = statements.forms
    mixed = fields.merge_strictest_forms(forms)
    if statements.is_cut:
        return Reading(None, None, None, mixed.name if mixed else "none", "cut off: the end of the answer is missing")
    if mixed is None:
        return Reading(None, None, None, "none", "no answer: no tag, member or line states one")
    complete = sorted((form for form in forms if form.is_complete), key=_rank_form) or [mixed]
    if len(forms) > 1:
        complete[-1] = _add_late_numbers(complete[-1], forms)
    readings = [_read_form(form) for form in (*statements.drafts, *complete)]
    if len(readings) == len(forms) == 1:
        return readings[0]
    return _resolve_contradiction(readings, [answer for form in forms for answer in _answers(form.fields)])


def _rank_form(form: Form) -> tuple[bool, int]:
    """Return the key by which complete forms are ordered: by position, after tags and objects that use none of the requested names."""
    return form.name == "labels" or not form.kinds.isdisjoint(("answer", "p_yes")), form.end


def _add_late_numbers(final: Form, forms: tuple[Form, ...]) -> Form:
    """Add to the final form the confidences from a later form that contains no answer."""
    late = [field for form in forms if form.end > final.end and form.kinds == {"confidence"} for field in form.fields]
    numeric = tuple(field for field in late if isinstance(numbers.confidence(field.raw), Number))
    return final._replace(fields=final.fields + numeric) if "answer" in final.kinds else final


def _resolve_contradiction(readings: list[Reading], answers: list[Answer | None]) -> Reading:
    """Return the reading of the final answer; if another reading contradicts it, a reading that states the contradiction."""
    final = readings[-1]
    if (clash := next((reading for reading in readings if reading.contradiction and reading.p_yes is None), None)) is not None:
        return clash
    stated = [reading for reading in readings if reading.p_yes is not None]
    if {"yes", "no"} <= {*answers, *(reading.answer for reading in stated if reading.p_yes != _HALF)}:
        return _contradictory("yes and no", final.path)
    values = list(dict.fromkeys(reading.p_yes for reading in stated))
    if final.p_yes is None or final.contradiction or len(values) < 2:
        return final
    return final._replace(contradiction=f"several numbers: P(yes) = {', '.join(f'{p:g}' for p in values[-3:])}; {final.p_yes:g} counts")


def _read_form(form: Form) -> Reading:
    return (_conclude_cached if len(form.fields) <= _FEW else _conclude)(form.fields, form.name)


def _conclude(statements: tuple[Field, ...], form: str) -> Reading:
    """Return the reading of the statements of one form."""
    texts = [field.raw for field in statements if field.kind == "answer"]
    answers = _answers(statements)
    answer = answers[-1] if answers else None
    if {"yes", "no"} <= set(answers):
        return _contradictory("yes and no", form)
    if texts and answer is None:
        return Reading(None, None, None, form, f"neither yes nor no: {quote_text(texts[-1].strip())}")
    confidences = [numbers.confidence(field.raw) for field in statements if field.kind == "confidence"]
    stated = sorted((field for field in statements if field.kind in ("p_yes", "probability")), key=lambda field: field.kind == "p_yes")
    if probabilities := [numbers.p_yes(raw, as_asked=kind == "p_yes") for kind, raw in stated]:
        return _conclude_probability(answer, probabilities, confidences, form)
    if answer is None:
        return Reading(None, None, None, form, "no answer: a confidence without one")
    if confidences:
        return _conclude_confidence(answer, confidences, form)
    return Reading(answer, None, None, form, "no number: an answer without its confidence")


_conclude_cached = lru_cache(maxsize=_CACHED)(_conclude)


def _answers(statements: tuple[Field, ...]) -> list[Answer | None]:
    return [_parse_answer(raw) for kind, raw in statements if kind == "answer"]


def _parse_answer(raw: str) -> Answer | None:
    plain = numbers.strip_marks(raw).lower()
    return "yes" if plain == "yes" else "no" if plain == "no" else None


def _conclude_probability(answer: Answer | None, stated: list[Number | str], confidences: list[Number | str], form: str) -> Reading:
    """Return the reading of stated values of P(yes), of which the last counts, unless they or the answer contradict each other. stated: those
    under the requested name last.
    """
    number = stated[-1]
    if isinstance(number, str):
        return Reading(answer, None, None, form, number)
    p, path = number.value, _path(form, number)
    values = [number.value for number in stated if isinstance(number, Number)]
    if answer is not None:
        values += [number.value if answer == "yes" else 1 - number.value for number in confidences if isinstance(number, Number)]
    if min(values) < _HALF < max(values):
        return _contradictory(f"P(yes) = {float(min(values)):g} and {float(max(values)):g}", path)
    if answer is not None and (p != _HALF) and (answer == "yes") != (p > _HALF):
        return _contradictory(f"{answer} with P(yes) = {float(p):g}", path)
    side: Answer = answer or ("yes" if p >= _HALF else "no")
    return Reading(side, float(p if side == "yes" else 1 - p), float(p), path, None, _several(stated))


def _conclude_confidence(answer: Answer, stated: list[Number | str], form: str) -> Reading:
    """Return the reading of an answer and its stated confidences, of which the last counts."""
    number = stated[-1]
    if isinstance(number, str):
        return Reading(answer, None, None, form, number)
    c = number.value
    unsure = f"low confidence: {float(100 * c):g} % in the given answer {answer}" if c < _HALF else None
    return Reading(answer, float(c), float(c if answer == "yes" else 1 - c), _path(form, number), None, unsure or _several(stated))


def _contradictory(statements: str, path: str) -> Reading:
    problem = f"contradictory answers: {statements}"
    return Reading(None, None, None, path, problem, problem)


def _path(form: str, number: Number) -> str:
    return f"{form}/{number.manner}" if number.manner else form


def _several(stated: list[Number | str]) -> str | None:
    """Describe several different numbers for the field `contradiction`; None if there is only one."""
    values = [float(number.value) for number in stated if isinstance(number, Number)]
    different = list(dict.fromkeys(values))
    return None if len(different) < 2 else f"several numbers: {', '.join(f'{value:g}' for value in different[-3:])}; {values[-1]:g} counts"
