"""KalshiBench's published parser, including its defects. Used only to compare with the published numbers.

The first match wins, even inside the reasoning. Only numbers in digits are recognized; a missing number counts as 0.5. The confidence of
an answer guessed from the text is not converted to P(yes), because the conversion precedes the guess. Source: arXiv 2512.16030 and its
published code.
"""

from __future__ import annotations

import re

from bellwether.forecasting.parsing.result import Answer, Reading

#: Sources of the answer: its tag, the phrase "the answer is", the more frequent word, or none.
PATHS = ("compat_tag", "compat_phrase", "compat_count", "compat_none")

_ANSWER = re.compile(r"<answer>\s*(yes|no)\s*</answer>", re.IGNORECASE)
_CONFIDENCE = re.compile(r"<confidence>\s*(\d+(?:\.\d+)?)\s*</confidence>", re.IGNORECASE)
_THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)


def read(text: str | None) -> Reading:
    """Parse an answer as KalshiBench's published parser does. Never raises. The field `reasoning` is "" without reasoning.

    `p_yes` is a number even if `answer` is None; the published scores drop such predictions. `confidence` is the stated number, 0.5 if
    none was found. Floats are computed as published, without rounding: c / 100, then 1.0 - p.
    """
    text = text if isinstance(text, str) else ""
    tag = _ANSWER.search(text)
    number = _CONFIDENCE.search(text)
    confidence = max(0.0, min(1.0, float(number[1]) / 100.0)) if number else 0.5
    thought = _first_thought(text)
    if tag:
        answer: Answer = "yes" if tag[1][0] in "yY" else "no"
        return Reading(answer, confidence, 1.0 - confidence if answer == "no" else confidence, "compat_tag", reasoning=thought)
    guess, path = _guess(text.lower())
    problem = None if guess else "no answer: neither a tag nor more words for one side"
    return Reading(guess, confidence, confidence, path, problem, reasoning=thought)


def _first_thought(text: str) -> str:
    """Return the text between the first <think> and the next </think>."""
    start = text.find("<think>")
    block = _THINK.match(text, start) if start >= 0 else None
    return block[1].strip() if block else ""


def _guess(lowered: str) -> tuple[Answer | None, str]:
    """Guess an answer without a tag, from phrases or from the numbers of " yes" and " no"; return answer and path. lowered: the text in
    lower case.
    """
    if "the answer is yes" in lowered:
        return "yes", "compat_phrase"
    if "the answer is no" in lowered:
        return "no", "compat_phrase"
    yes, no = lowered.count(" yes"), lowered.count(" no")
    if yes == no:
        return None, "compat_none"
    return "yes" if yes > no else "no", "compat_count"
