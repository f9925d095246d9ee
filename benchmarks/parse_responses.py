"""Time to parse 1,000,000 model responses of 1.5 kB: the default parser relative to one compiled regular expression over the same texts.

The expression finds answer and confidence in their exact form only, with `.search` on each text. Three responses in a hundred have one of the odd forms
that models return; in KalshiBench's published answers it is one in a hundred. Texts are all different, and only the two loops are timed.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import Any

from bellwether.forecasting.parsing import read

RESPONSES = 1_000_000
BLOCK = 1_000
LENGTH = 1_500
ODD = 0.03
TARGET = 2.0

PATTERN = re.compile(
    r"</think>\s*<answer>\s*(yes|no)\s*</answer>\s*<confidence>\s*(\d+(?:\.\d+)?)\s*</confidence>",
    re.IGNORECASE,
)

_SENTENCES = (
    "The base rate of such events over the last decade is about one in five. ",
    "Recent polling moved by two points, which is within the usual error. ",
    "The rules require an official announcement before the close, and none is scheduled. ",
    'If the committee meets early the answer would be "yes", but that has happened only once. ',
    "Markets of this kind tend to drift towards the favourite during the last week. ",
    "I have no information after my cutoff, so the outside view carries most of the weight. ",
    "The threshold lies one standard deviation above the current level. ",
    "Weather models agree on the pattern, less on the exact temperature. ",
)

#: Odd forms from (reasoning, answer, confidence).
_ODD: tuple[Callable[[str, str, str], str], ...] = (
    lambda r, a, c: f"{r}\n\n<answer>{a}</answer>\n<confidence>{c}</confidence>",
    lambda r, a, c: f"<think>{r}</think>\n<answer>{a}</answer>\n<confidence>{c}%</confidence>",
    lambda r, a, c: f"<think>{r} So <answer>{a}</answer> then.</think>\n\n<answer>{a}</answer>\n<confidence>{c}</confidence>",
    lambda r, a, c: f"<think>{r}</think>\n```xml\n<answer>{a}</answer>\n<confidence>{c}</confidence>\n```",
    lambda r, a, c: f"<think>{r}</think>\n<answer>{a}\n<confidence>{c}",
    lambda r, a, c: f"<think>{r}</think>\n<answer>**{a.title()}**</answer>\n<confidence>about seventy</confidence>",
    lambda r, a, c: f"<think>{r}</think>\n<answer>{a}</answer>\n<confidence>250</confidence>",
    lambda r, a, c: f"<think>{r} <answer>{a}</answer>\n<confidence>{c}</confidence>",
    lambda r, a, c: f"{r}\n\nFinal answer: {a}\nConfidence: {c}%",
    lambda r, a, c: f'{{"reasoning": "{r.replace(chr(34), chr(39))}", "p_yes": 0.{c.replace(".", "")}}}',
    lambda r, a, c: (
        f"<think>{r}</think><answer>yes</answer><confidence>{c}</confidence> No: <answer>no</answer><confidence>{c}</confidence>"
    ),
    lambda r, a, c: f"{r} I lean {a}, though it is hard to put a number on it.",
    lambda r, a, c: f"<think>{r}",
    lambda r, a, c: "",
)


def _well_formed(reasoning: str, answer: str, confidence: str) -> str:
    return f"<think>\n{reasoning}\n</think>\n\n<answer>{answer}</answer>\n<confidence>{confidence}</confidence>"


def _response(drawn: random.Random, number: int, odd: float) -> str:
    reasoning = f"Question {number}. " + "".join(drawn.choices(_SENTENCES, k=20))[:LENGTH]
    hundredths = drawn.randint(5_000, 9_999)
    # Models state whole percents, but for a few.
    confidence = f"{hundredths / 100:.2f}" if drawn.random() < 0.01 else str(hundredths // 100)
    form = _well_formed if drawn.random() >= odd else drawn.choice(_ODD)
    return form(reasoning, drawn.choice(("yes", "no")), confidence)


_LOOPS: dict[str, Callable[[str], bool]] = {
    "expression": lambda text: PATTERN.search(text) is not None,
    "parser": lambda text: read(text).p_yes is not None,
}


def run() -> list[dict[str, Any]]:
    """Measure the parser's time divided by that of the regular expression. Returns [{name, ratio, target, detail}]."""
    drawn = random.Random(1)
    seconds, hits = dict.fromkeys(_LOOPS, 0.0), dict.fromkeys(_LOOPS, 0)
    characters = 0
    for start in range(0, RESPONSES, BLOCK):
        texts = [_response(drawn, start + index, ODD) for index in range(BLOCK)]
        characters += sum(map(len, texts))
        # The first loop brings the texts into the cache: the loops take turns in that.
        for name in list(_LOOPS) if start // BLOCK % 2 else reversed(_LOOPS):
            found, spent = _timed(_LOOPS[name], texts)
            hits[name] += found
            seconds[name] += spent
    odd = _timed(_LOOPS["parser"], [_response(drawn, index, 1.0) for index in range(10 * BLOCK)])[1] / (10 * BLOCK)
    detail = (
        f"{RESPONSES:,} responses of {characters / RESPONSES:,.0f} characters, {ODD:.0%} in odd forms: {seconds['parser']:.2f} s, the expression "
        f"{seconds['expression']:.2f} s; it finds {hits['expression'] / RESPONSES:.1%}, the parser reads {hits['parser'] / RESPONSES:.1%}; "
        f"an odd form takes {odd * 1e6:.1f} µs"
    )
    return [{"name": "parse_responses", "ratio": seconds["parser"] / seconds["expression"], "target": TARGET, "detail": detail}]


def _timed(finds: Callable[[str], bool], texts: list[str]) -> tuple[int, float]:
    """Return the number of texts for which `finds` is True, and the seconds that the calls took."""
    start = time.perf_counter()
    count = sum(map(finds, texts))
    return count, time.perf_counter() - start
