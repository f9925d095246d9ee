"""Answers cut at every character with every finish reason: the parser reads the whole answer's value or nothing."""

from __future__ import annotations

import itertools
import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.forecasting.parsing import read
from bellwether.journal.values import CallKey, Reply
from bellwether.models.client import Answer
from bellwether.models.response import Ending, parse_ending
from tests.sizes import NIGHTLY

ALL_REASONS = (
    *("stop", "end_turn", "COMPLETE", "length", "max_tokens", "MAX_TOKENS", "model_length", "max_output_tokens", "incomplete"),
    *("content_filter", "something new", "", None),
)
REASONS = ALL_REASONS if NIGHTLY else ("stop", "length", None)
THOUGHTS = 'So "yes" {0.9} at first: <answer>yes</answer><confidence>90</confidence>, "p_yes": 0.9,\nAnswer: yes\nConfidence: 90%\nbut no.'
BLOCKS = (
    ("", ""),
    ("<think>", "</think>\n"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<seed:think>", "</seed:think>"),
    ("<|channel>thought\n", "<channel|>"),
    ("Here is my thought process:\n", "Here is my response:\n"),
)
NUMBERS = ("5", "87.66", "100", "0.75", "62.5%") if NIGHTLY else ("87.66", "0.75")


def tags(answer: str, number: str) -> str:
    return f"<answer>{answer}</answer>\n<confidence>{number}</confidence>"


def member(answer: str, number: str) -> str:
    p = float(number.rstrip("%"))
    p = p if p < 1 else p / 100
    return json.dumps({"reasoning": THOUGHTS, "p_yes": round(p if answer == "yes" else 1 - p, 6)}, indent=1)


def pair(answer: str, number: str) -> str:
    return json.dumps({"reasoning": THOUGHTS, "answer": answer, "confidence": number})


def lines(answer: str, number: str) -> str:
    return f"**Answer:** {answer}\n**Confidence:** {number}"


def nested(answer: str, number: str) -> str:
    scenarios = [{"name": "early", "probability": 0.9, "p_yes": 0.8}, {"name": "late", "p_yes": 0.7}]
    return json.dumps({"scenarios": scenarios, **json.loads(member(answer, number)), "base_rate": {"probability": 0.2, "n": [20]}})


FORMS = {"tags": tags, "json": member, "pair": pair, "labels": lines}


def parsed_probability(text: str, reason: str | None) -> float | None:
    """Return the parser's reading, as in an elicitation."""
    answer = Answer(CallKey("k"), Reply(content=text, finish_reason=reason))
    return read(answer.content, ended=answer.ended).p_yes


# --- the second computation ----------------------------------------------------------------------------------------


class _Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self._open, self._text = "", ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._open, self._text = tag, ""

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == self._open:
            self.values[tag] = self._text


def independent(form: str, text: str, *, ended: bool) -> float | None:
    """Return the value of a text in one form, by Python's own parsers of HTML and JSON, and line by line."""
    if form == "tags":
        return _p(_Tags(text).values)
    if form == "labels":
        whole = [line for line in text.splitlines(keepends=True) if ended or line.endswith("\n")]
        return _p({name.strip(" *").lower(): value.strip(" *\n") for name, _, value in (line.partition(":") for line in whole)})
    try:
        # a quote closes the text, even if the model omits the object's brace
        stated = json.loads(f"{text}}}" if ended and text.endswith('"') else text)
    except ValueError:
        return None
    return float(stated["p_yes"]) if "p_yes" in stated else _p(stated)


def _p(stated: dict[str, str]) -> float | None:
    number = stated.get("confidence", "").strip("%\n ")
    if not number or stated.get("answer") not in ("yes", "no"):
        return None
    c = float(number)
    if 0 < c < 0.5 or c == 1:
        return None  # a percentage or a fraction: ambiguous by rule
    c = c if 0.5 <= c < 1 else c / 100
    return round(c if stated["answer"] == "yes" else 1 - c, 10)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("answer", ["yes", "no"])
@pytest.mark.parametrize("form", FORMS)
def test_a_bare_answer_is_read_as_independent_readers_do_wherever_it_is_cut(form: str, answer: str, number: str) -> None:
    whole = FORMS[form](answer, number)
    assert parsed_probability(whole, "stop") is not None
    for end, reason in itertools.product(range(len(whole) + 1), REASONS):
        ended = parse_ending(reason) is Ending.NORMAL
        found = parsed_probability(whole[:end], reason)
        expected = independent(form, whole[:end], ended=ended)
        assert (found is None) == (expected is None), (whole[:end], reason)
        assert found is None or found == pytest.approx(expected, abs=1e-9)


# --- any complete answer ---------------------------------------------------------------------------------------------


@given(
    st.sampled_from(BLOCKS),
    st.sampled_from([*FORMS, "nested"]),
    st.sampled_from(["yes", "no"]),
    st.sampled_from(NUMBERS),
    st.sampled_from(["", "\n", "\n```", "\n\nThis is no advice. {x}"]),
)
def test_what_is_read_of_a_cut_answer_is_what_the_whole_one_says(
    block: tuple[str, str], form: str, answer: str, number: str, after: str
) -> None:
    opens, closes = block
    whole = f"{opens}{THOUGHTS if opens else ''}{closes}{(FORMS | {'nested': nested})[form](answer, number)}{after}"
    full = parsed_probability(whole, "stop")
    assert full is not None
    for end in range(len(whole)):
        for ended in (False, True):
            if ended and (form == "labels" or end < len(opens + THOUGHTS)):
                continue  # a normal end closes the value of a line, and what ends with an answer is no reasoning without an end
            assert read(whole[:end], ended=ended).p_yes in (None, full), whole[:end]


@pytest.mark.parametrize("final", FORMS)
@pytest.mark.parametrize("draft", FORMS)
@pytest.mark.parametrize("second", ["yes", "no"])
def test_a_draft_before_the_cut_is_not_taken_for_the_answer(draft: str, final: str, second: str) -> None:
    first = f"At first:\n{FORMS[draft]('yes', '60')}\n"
    whole = f"{first}Then I looked again at the rules, and at what is known.\n{FORMS[final](second, '90')}\n"
    full = parsed_probability(whole, "stop")
    assert full == (None if second == "no" else 0.9)
    for end, reason in itertools.product(range(len(first) + 1, len(whole)), ("length", "MAX_TOKENS", None)):
        assert parsed_probability(whole[:end], reason) in (None, full), whole[:end]
