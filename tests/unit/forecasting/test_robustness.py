"""No text raises an exception or takes long, and both paths of the parser agree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bellwether.forecasting.parsing import PATHS, PROBLEMS, Reading, compat, parser, read

PIECES = st.sampled_from(
    [
        *(
            "<think>",
            "</think>",
            "<Think>",
            "</thinking>",
            "<reasoning>",
            "[THINK]",
            "[/THINK]",
            "<|channel|>final",
            "<answer>",
            "</answer>",
            "<answer>yes</answer>",
            "<answer>no</answer>",
        ),
        *(
            "<confidence>",
            "</confidence>",
            "<confidence>70</confidence>",
            "<confidence>0.7</confidence>",
            "<probability>",
            "yes",
            "no",
            "70",
            "1",
        ),
        *(
            '{"p_yes": 0.3}',
            '"answer": "no"',
            '"confidence": 80',
            '"reasoning": "a\\"',
            "{",
            '"',
            "'",
            "\\",
            "Answer: yes",
            "Confidence: 60%",
        ),
        *("\n", " ", "<", ">", ":", "%", "-", "9", "\x00", "\ud800", "\u2028", "ſ", "İ", "a"),
    ]
)
TEXTS = st.one_of(st.text(st.characters()), st.lists(PIECES, max_size=25).map("".join))


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_any_text_is_a_reading_or_a_reason(text: str) -> None:
    reading = read(text)
    assert reading.path in PATHS
    assert (reading.p_yes is None) == (reading.problem is not None) == (reading.confidence is None)
    if reading.p_yes is None:
        assert str(reading.problem).partition(":")[0] in PROBLEMS
        return
    assert reading.answer in ("yes", "no")
    assert 0 <= reading.p_yes <= 1
    assert reading.confidence == pytest.approx(reading.p_yes if reading.answer == "yes" else 1 - reading.p_yes, abs=1e-15)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join), st.lists(PIECES, max_size=8).map("".join), st.booleans(), st.booleans())
@example(before="", after="\u2028Answer: yes", opened=False, ended=False)
def test_the_short_way_is_the_long_way(before: str, after: str, opened: bool, ended: bool) -> None:
    text = f"{'<think>' if opened else ''}{before}</think>{after}"
    assert read(text, ended=ended) == parser._read(text, ended)


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_the_published_rules_take_any_text(text: str) -> None:
    reading = compat.read(text)
    assert reading.path in compat.PATHS
    assert reading.p_yes is not None
    assert 0 <= reading.p_yes <= 1


@pytest.mark.parametrize("value", [None, b"<answer>yes</answer>", 3, 0.5, [], {"p_yes": 1}])
def test_what_is_no_text_is_no_response(value: Any) -> None:
    assert read(value) == Reading(None, None, None, "none", "empty response")
    assert compat.read(value).answer is None


#: Pieces whose repetition causes backtracking in careless expressions.
HOSTILE = {
    "letters": "a",
    "spaces": " ",
    "lines": "\n",
    "digits": "9",
    "opened reasoning": "<think>",
    "closed reasoning": "</think>",
    "both": "<think></think>",
    "opened answers": "<answer>",
    "answers": "<answer>no</answer>",
    "confidences": "<confidence>70</confidence>",
    "unclosed with spaces": "<answer" + " " * 50,
    "unclosed numbers": "<confidence>" + "9" * 50,
    "braces": "{",
    "nested objects": '{"a":{',
    "nested lists": "[{",
    "closed lists within each other": "[{1" * 100_000 + "}]" * 100_000,
    "lists of one": '[{"a":[1]}]',
    "escaped tags": "&lt;answer ",
    "members": '"answer":"',
    "reasoning members": '"reasoning":"',
    "escapes": '"reasoning":"\\',
    "single quotes": "'answer':'",
    "labels": "Answer: ",
    "lines with labels": "Answer: yes\n",
    "bullets": "> * # - ",
    "fences": "```",
    "colons": '":',
    "other members": '"note":"a",',
    "other members unclosed": "'note':'a",
    "comments": "/*",
    "lines of comments": " # // ",
    "other markers": "[THINK]◁think▷<|channel|>analysis",
    "words of markers": "Here is my response: assistantfinal ",
    "tokens": "<|end|>",
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_a_megabyte_before_the_answer_is_read_over(piece: str) -> None:
    """In quadratic time this would take hours."""
    text = piece * (1_000_000 // len(piece))
    assert read(f"<think>{text}</think>\n<answer>no</answer>\n<confidence>70</confidence>").p_yes == 0.3
    assert read(text).problem is not None or piece == HOSTILE["confidences"]
    assert compat.read(f"{text}<confidence>70</confidence>").p_yes is not None
