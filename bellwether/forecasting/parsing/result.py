"""Result of parsing an answer."""

from __future__ import annotations

from typing import Literal, NamedTuple

Answer = Literal["yes", "no"]

#: Forms of an answer, strictest first.
FORMS = ("tags", "json", "labels")
#: Deviations of the number from the requested form.
MANNERS = ("fraction", "percent", "words")
#: Paths of the default parser: a form and optionally the manner of its number; `none` if no form was found.
PATHS = (*(path for form in FORMS for path in (form, *(f"{form}/{manner}" for manner in MANNERS))), "none")

#: Kinds of problems of the default parser: the text before the colon of `Reading.problem`.
PROBLEMS = (
    "empty response",
    "cut off",
    "no answer",
    "neither yes nor no",
    "contradictory answers",
    "no number",
    "not a number",
    "out of range",
    "ambiguous number",
)


class Reading(NamedTuple):
    """Parsed answer of a model. It is a named tuple for speed: a million are created per second.

    answer: as given, or yes from P(yes) = 0.5 on if only a probability was given. confidence: probability in [0, 1] that the given
    answer is right. p_yes: forecast probability of yes in [0, 1]; None if the response cannot be read, with the reason in `problem`. path: one
    of `PATHS` (of `compat.PATHS` for the published parser). contradiction: contradictory statements in the response. reasoning: reasoning in the
    response itself; untrusted text, like the quotations in `problem` and `contradiction`.
    """

    answer: Answer | None
    confidence: float | None
    p_yes: float | None
    path: str
    problem: str | None = None
    contradiction: str | None = None
    reasoning: str | None = None


def quote_text(text: str) -> str:
    """Quote untrusted text in a message: on one line, at most 40 characters."""
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
