"""The parser behind KalshiBench's published numbers, with its defects: for comparison with them, and for nothing else.

The first match wins, even inside the reasoning; a number in any other form than digits is not seen; a missing number counts as 0.5; and
an answer that is guessed from the words is not converted, because the conversion comes before the guess. Rules: arXiv 2512.16030 and the
code published with it.
"""

from __future__ import annotations

import re

from bellwether.forecasting.parsing.result import Answer, Reading

#: Where the published parser takes the answer from: its tag, the phrase "the answer is", the more frequent word, nowhere.
PATHS = ("compat_tag", "compat_phrase", "compat_count", "compat_none")

_ANSWER = re.compile(r"<answer>\s*(yes|no)\s*</answer>", re.IGNORECASE)
_CONFIDENCE = re.compile(r"<confidence>\s*(\d+(?:\.\d+)?)\s*</confidence>", re.IGNORECASE)
_THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)


def read(text: str | None) -> Reading:
    """The response as the published parser reads it; never raises. `reasoning` is "" where it finds none.

    `p_yes` is a number even where `answer` is None: the published scores drop such a prediction by its answer. `confidence` is the
    stated number, 0.5 if none was found. Floats are computed as published: c / 100, then 1.0 - p, nothing is rounded.
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
    """Text between the first <think> and the </think> after it. Without the latter no later <think> can have one."""
    start = text.find("<think>")
    found = _THINK.match(text, start) if start >= 0 else None
    return found[1].strip() if found else ""


def _guess(lowered: str) -> tuple[Answer | None, str]:
    if "the answer is yes" in lowered:
        return "yes", "compat_phrase"
    if "the answer is no" in lowered:
        return "no", "compat_phrase"
    yes, no = lowered.count(" yes"), lowered.count(" no")
    if yes == no:
        return None, "compat_none"
    return "yes" if yes > no else "no", "compat_count"
