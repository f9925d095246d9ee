"""The reading of a response, and the path by which it was read."""

from __future__ import annotations

from typing import Literal, NamedTuple

Answer = Literal["yes", "no"]

#: Forms in which an answer is found, strictest first.
FORMS = ("tags", "json", "labels")
#: Deviations of its number from the requested form.
MANNERS = ("fraction", "percent", "words")
#: Every path of the default parser: a form, with the manner behind it where there is one; `none` where no form was found.
PATHS = (*(path for form in FORMS for path in (form, *(f"{form}/{manner}" for manner in MANNERS))), "none")

#: Every kind of problem of the default parser: the words before the colon of `Reading.problem`.
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
    """Reading of one response. A named tuple, because a million of them are made in a second.

    answer: as given, or yes from P(yes) = 0.5 on where only a probability was given. confidence: probability in [0, 1] that the given
    answer is right. p_yes: forecast probability of yes in [0, 1]; None when the response cannot be read, and `problem` says why. path: one
    of `PATHS` (of `compat.PATHS` for the published parser). contradiction: what in a response contradicts itself. reasoning: the thoughts
    that stand in the response itself; untrusted text, as are the quotations in `problem` and `contradiction`.
    """

    answer: Answer | None
    confidence: float | None
    p_yes: float | None
    path: str
    problem: str | None = None
    contradiction: str | None = None
    reasoning: str | None = None


def quote_text(text: str) -> str:
    """An untrusted text for a message: one printable line of moderate length."""
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
