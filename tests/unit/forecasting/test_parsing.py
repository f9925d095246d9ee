"""Parsers of answers: how each readable answer was found (its path), why others are unreadable, the published rules, and any text at all."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bellwether.forecasting.parsing import PATHS, PROBLEMS, Reading, compat, parser, read, read_many
from tests.sizes import NIGHTLY


def tags(answer: str, confidence: str) -> str:
    return f"<answer>{answer}</answer>\n<confidence>{confidence}</confidence>"


# --- what is read --------------------------------------------------------------------------------------------------


def test_what_is_clear_is_read_to_the_last_digit() -> None:
    for text, p_yes, path in [
        ("<think>\nWhy.\n</think>\n\n" + tags("yes", "70"), 0.7, "tags"),
        (tags("no", "87.66"), 0.1234, "tags"),
        (tags(" YES\n", " 70 % "), 0.7, "tags"),
        (tags("**No**", "**70%**."), 0.3, "tags"),
        ("<ANSWER>No</ANSWER> <Confidence>60</Confidence>", 0.4, "tags"),
        (tags("yes", "100"), 1.0, "tags"),
        (tags("yes", "80 out of 100"), 0.8, "tags"),
        (tags("yes", "approx. 6.5e1 percent"), 0.65, "tags"),
        (tags("no", "about seventy"), 0.3, "tags/words"),
        (tags("yes", "0.7"), 0.7, "tags/fraction"),
        ("```xml\n" + tags("yes", "70") + "\n```", 0.7, "tags"),
        ("Sure! Here it is:\n\n```\n<think>a</think>\n" + tags("no", "70") + "\n```\n\nAnything else?", 0.3, "tags"),
        ("<probability>0.3</probability>", 0.3, "tags"),
        ('{"reasoning": "because", "p_yes": 0.1234}', 0.1234, "json"),
        ('{"p_yes": "0.2"}', 0.2, "json"),
        ("{'p_yes': 0.2}", 0.2, "json"),
        ('{"probability": 62.5}', 0.625, "json/percent"),
        ('{"p_yes": about seventy, "reasoning": "x"}', 0.7, "json/words"),
        ('{"answer": "no", "confidence": 80}', 0.2, "json"),
        ('{"answer": "no", "confidence": 0.8}', 0.2, "json/fraction"),
        ('{"p_yes": 0.25, "reasoning": "never closed', 0.25, "json"),
        ("I think so.\n\nFinal answer: No\nConfidence: 85%", 0.15, "labels"),
        ("**Answer:** yes\n**Confidence (0-100):** 64", 0.64, "labels"),
        ("Some thoughts.\n\nProbability of yes: 63.27%", 0.6327, "labels/percent"),
        ("P(yes) = 0.08", 0.08, "labels"),
        ("<answer>no</answer>\nConfidence: 80", 0.2, "labels"),
        ('<answer type="final">no</answer>\n<confidence unit="%">80</confidence>', 0.2, "tags"),
        ("&lt;answer&gt;no&lt;/answer&gt;&lt;confidence&gt;80&lt;/confidence&gt;", 0.2, "tags"),
        ("<details><summary>Sources</summary>None.</details>" + tags("no", "80"), 0.2, "tags"),
        (tags("no", r"$\boxed{80\%}$"), 0.2, "tags"),
        (tags(r"\text{no}", r"\(80\)"), 0.2, "tags"),
        ("＜answer＞no＜/answer＞＜confidence＞80＜/confidence＞", 0.2, "tags"),
        (tags("n\u200bo", "8\u200b0\u2060"), 0.2, "tags"),
        ("Answer：no\nConfidence：80 %", 0.2, "labels"),
        ('{"p_yes": 0.3 // about 30 %, not "p_yes": 0.9\n}', 0.3, "json"),
        ('{/* "p_yes": 0.9, */ "p_yes": 0.3 /* sure */, "n": 1}', 0.3, "json"),
        ('{\n  # "p_yes": 0.9,\n  "p_yes": 0.3\n}', 0.3, "json"),
        ('{"p_yes": 1.0, "reasoning": "sure"}', 1.0, "json"),
        ('{"reasoning": "a draft was \'p_yes\': 0.9, and <answer>yes</answer><confidence>90</confidence>", "p_yes": 0.3}', 0.3, "json"),
        ('{"p_yes": 0.3\n"reasoning": "the comma is forgotten"}', 0.3, "json"),
        ('{"p_yes": 0.3, "base_rate": {"probability": 0.05, "n": [1, {"p_yes": 0.9}]}}', 0.3, "json"),
        ('{"scenarios": [{"name": "}]", "Probability": 0.2}, {"p_yes": 0.9}], // 2\n"P_YES": 0.3}', 0.3, "json"),
        ("{'scenarios': {'it''s': {'p_yes': 0.9}}, 'p_yes': 0.3}", 0.3, "json"),
        ('{scenarios: [{"probability": 0.2}], "p_yes": 0.3}', 0.3, "json"),
        ('{"notes": ["say \'p_yes\': 0.9"], "draft": "{\\"p_yes\\": 0.9}", "p_yes": 0.3}', 0.3, "json"),
        ('{"answer": "no", "details": {"confidence": 20}, "confidence": 80}', 0.2, "json"),
        ('[{"p_yes": 0.3}]', 0.3, "json"),
    ]:
        reading = read(text)
        assert (reading.p_yes, reading.path, reading.problem, reading.contradiction) == (p_yes, path, None, None), text
        assert reading.answer == ("yes" if p_yes > 0.5 else reading.answer if p_yes == 0.5 else "no")


def test_a_probability_of_one_half_alone_answers_yes() -> None:
    assert read('{"p_yes": 0.5}').answer == "yes"


# --- the reasoning -------------------------------------------------------------------------------------------------


def test_answers_inside_the_reasoning_do_not_count() -> None:
    text = f"<think>First {tags('yes', '90')}, or rather the other.</think>\n{tags('no', '60')}"
    reading = read(text)
    assert (reading.answer, reading.p_yes, reading.contradiction) == ("no", 0.4, None)


def test_everything_before_a_closing_tag_that_was_never_opened_is_reasoning() -> None:
    reading = read(f"So {tags('yes', '10')} would do.\n</think>\n\n{tags('no', '60')}")
    assert (reading.p_yes, reading.contradiction) == (0.4, None)
    assert reading.reasoning is not None
    assert reading.reasoning.startswith("So <answer>")


def test_an_opening_tag_that_is_only_talked_about_opens_nothing() -> None:
    reading = read(f"<think>The form is <think>, then {tags('yes', '0-100')}.</think>{tags('no', '60')}")
    assert (reading.answer, reading.p_yes, reading.contradiction) == ("no", 0.4, None)


@pytest.mark.parametrize(
    "text",
    [
        f"<think>I could say {tags('no', '60')} but let me think about",
        f"<think>It is so. {tags('no', '60')}</think>\n",
        f"{tags('no', '60')}\n<think>or rather",
        f"<think>{tags('no', '60')} Or not.</think>",
        "<think><answer>no</answer> it is. <confidence>60</confidence></think>",
    ],
)
def test_an_answer_in_the_middle_of_the_reasoning_does_not_count(text: str) -> None:
    reading = read(text)
    assert (reading.p_yes, reading.path) == (None, "none")
    assert reading.problem in ("no answer: no tag, member or line states one", "no answer: the reasoning has no end")


#: Start and end of the reasoning in the forms of models and servers, with the text around the answer.
BLOCKS = {
    "DeepSeek": ("<think>", "</think>"),
    "with an attribute": ('<thinking budget="200">', "</thinking>"),
    "EXAONE": ("<thought>", "</thought>"),
    "Seed": ("<seed:think>", "</seed:think>"),
    "Magistral": ("[THINK]", "[/THINK]"),
    "Kimi": ("◁think▷", "◁/think▷"),
    "Cohere": ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    "OpenThoughts": ("<|begin_of_thought|>", "<|end_of_thought|>\n<|begin_of_solution|>"),
    "tokens": ("<|thinking|>", "<|/thinking|>"),
    "tokens of full width": ("<｜begin▁of▁thinking｜>", "<｜end▁of▁thinking｜>"),
    "brackets": ("[thinking]", "[/thinking]"),
    "heading": ("[Reasoning]", "[/Reasoning]"),
    "rationale": ("<rationale>", "</rationale>"),
    "LongCat": ("<longcat_think>", "</longcat_think>"),
    "MiniMax": ("<mm:think>", "</mm:think>"),
    "Anthropic": ("<antThinking>", "</antThinking>"),
    "process": ("<thinking_process>", "</thinking_process>"),
    "MedGemma": ("<unused94>thought\n", "<unused95>"),
    "Pangu": ("[unused16]", "[unused17]"),
    "Open WebUI": ('<details done="true" type="reasoning">', "</details>"),
    "escaped": ("&lt;think&gt;", "&lt;/think&gt;"),
    "Apertus": ("<|inner_prefix|>", "<|inner_suffix|>"),
    "MiniCPM": ("<|thought_start|>", "<|thought_end|>"),
    "Solar": ("<|think|>", "<|end|><|begin|>assistant<|content|>"),
    "Gemma": ("<|channel>thought\n", "<channel|>"),
    "harmony": ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    "harmony without its tokens": ("analysisWe look. ", "assistantfinal"),
    "Granite": ("Here is my thought process:\n", "\nHere is my response:\n"),
    "Apriel": ("Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n"),
}
FINAL = {"tags": tags("no", "60"), "json": '{"p_yes": 0.4}', "labels": "\nAnswer: no\nConfidence: 60%"}


@pytest.mark.parametrize("form", FINAL)
def test_a_draft_in_the_reasoning_of_any_model_does_not_count(form: str) -> None:
    drafts = (tags("yes", "90"), '{"p_yes": 0.9}', "\nAnswer: yes\nConfidence: 90%\n")
    for (opens, closes), draft in itertools.product(BLOCKS.values(), drafts):
        whole = read(f"{opens}A draft: {draft} Or not.{closes}{FINAL[form]}<|return|>")
        assert (whole.p_yes, whole.contradiction, whole.path) == (0.4, None, form)
        if closes != "</details>":  # Plain HTML without its opening tag.
            assert read(f"A draft: {draft} Or not.{closes}{FINAL[form]}").p_yes == 0.4
        assert read(f"{opens}A draft: {draft} Or not.").p_yes is None
        assert read(f"{opens}A draft: {draft}\n", ended=False).p_yes is None
        assert read(f"{opens}At first: {draft} Rather: {FINAL[form]}").p_yes is None
        assert read(f"{opens}Base rates are low.\n{FINAL[form]}").p_yes == 0.4
        assert read(f"{FINAL[form]}\n{opens if opens[0] in '<[◁' else '<think>'}A draft: {draft}").p_yes is None


@pytest.mark.parametrize(
    ("text", "reasoning"),
    [
        ("<think>\nBecause.\n</think>\n" + tags("yes", "70"), "Because."),
        ("<Thinking> a < b </Thinking>" + tags("yes", "70"), "a < b"),
        ("<think>a</think>\n<reasoning>b</reasoning>" + tags("yes", "70"), "a\n\nb"),
        ("Because of this.\n\n```xml\n" + tags("yes", "70") + "```", "Because of this."),
        ('{"reasoning": "say \\"p_yes\\": 0.9\\nthen", "p_yes": 0.3}', 'say "p_yes": 0.9\nthen'),
        (tags("yes", "70"), None),
        ("<think></think>" + tags("yes", "70"), None),
        ("I cannot say.", None),
    ],
)
def test_reasoning_is_what_stands_in_its_tags_or_before_the_answer(text: str, reasoning: str | None) -> None:
    assert read(text).reasoning == reasoning


# --- contradictions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"{tags('yes', '70')}\nOn second thought:\n{tags('no', '70')}",
        f"<think>a</think>{tags('yes', '70')} Hm. <think>b</think>{tags('no', '70')}",
        '{"p_yes": 0.8}\nOn second thought:\n{"p_yes": 0.2}',
        "<answer>yes</answer><probability>0.2</probability>",
        f"{tags('yes', '60')}\nAnswer: No\nConfidence: 90%",
        f"{tags('yes', '60')}\nOr rather:\n" + '{"answer": "no", "confidence": 90}',
        f"Answer: No\nConfidence: 90%\n{'Then again. ' * 60}\n{tags('yes', '60')}",
        f"Final answer: no\n{tags('yes', '60')}",
        '{"answer": "yes", "confidence": 20, "p_yes": 0.8}',
    ],
)
def test_two_different_answers_are_not_read(text: str) -> None:
    reading = read(text)
    assert (reading.answer, reading.p_yes) == (None, None)
    assert reading.problem is not None
    assert reading.problem.startswith("contradictory answers: ")
    assert reading.contradiction == reading.problem


@pytest.mark.parametrize(("answer", "number", "p_yes"), [("no", "30", 0.7), ("yes", "30", 0.3), ("no", "0", 1.0), ("yes", "49.99", 0.4999)])
def test_low_confidence_in_the_own_answer_is_converted_as_stated_and_flagged(answer: str, number: str, p_yes: float) -> None:
    reading = read(tags(answer, number))
    assert (reading.answer, reading.p_yes, reading.problem) == (answer, p_yes, None)
    assert reading.contradiction == f"low confidence: {float(number):g} % in the given answer {answer}"


def test_the_last_of_several_numbers_counts_and_is_flagged() -> None:
    reading = read(f"{tags('no', '60')}\nMore precisely:\n{tags('no', '65')}")
    assert (reading.p_yes, reading.contradiction) == (0.35, "several numbers: 0.6, 0.65; 0.65 counts")


@pytest.mark.parametrize(
    ("text", "p_yes"),
    [
        (f"{tags('no', '60')}\nAnswer: No\nConfidence: 65%", 0.35),
        (f"{tags('no', '60')}\nConfidence: 65%", 0.35),
        ('Probability of yes: 35%\n{"p_yes": 0.4}', 0.4),
        ('{"p_yes": 0.4, "probability": 0.3}', 0.4),
        ('{"probability": 0.3, "p_yes": 0.4}', 0.4),
        ('{"p_yes": 0.4}\nHistory:\n{"name": "base rate", "probability": 0.3}', 0.4),
        ("p_yes: 0.4\nscenarios:\n- name: early\n  probability: 0.3", 0.4),
        (f'{{"p_yes": 0.4}}\n{tags("no", "65")}', 0.35),
    ],
)
def test_of_several_numbers_the_requested_and_then_the_last_counts(text: str, p_yes: float) -> None:
    reading = read(text)
    assert reading.p_yes == p_yes
    assert str(reading.contradiction).startswith("several numbers: ")


def test_an_answer_in_two_forms_is_no_contradiction() -> None:
    assert read(f"{tags('no', '60')}\nAnswer: No\nConfidence: 60%").contradiction is None
    assert read(f"Final answer:\n{tags('no', '60')}").p_yes == 0.4
    assert read(f"{tags('no', '60')}\nConfidence: moderate").contradiction is None


def test_the_form_repeated_before_the_answer_is_no_contradiction() -> None:
    reading = read(f"As you asked: {tags('[yes or no]', '[0-100]')}\n{tags('no', '60')}")
    assert (reading.p_yes, reading.contradiction) == (0.4, None)


# --- what is not read ----------------------------------------------------------------------------------------------


def test_what_is_unclear_has_a_reason_and_no_forecast() -> None:
    for text, problem, path in [
        (None, "empty response", "none"),
        ("", "empty response", "none"),
        ("The answer is no, with 70% confidence.", "no answer", "none"),
        ("I lean yes, though it is hard to put a number on it.", "no answer", "none"),
        ("<confidence>70</confidence>", "no answer", "tags"),
        (tags("maybe", "70"), "neither yes nor no", "tags"),
        (tags("I would say that yes is less likely than no", "70"), "neither yes nor no", "tags"),
        ("<answer>no</answer><answer></answer><confidence>70</confidence>", "neither yes nor no", "tags"),
        ("<answer>yes</answer>", "no number", "tags"),
        (tags("yes", ""), "not a number", "tags"),
        (tags("yes", "inf"), "not a number", "tags"),
        (tags("yes", "very likely"), "not a number", "tags"),
        (tags("yes", ">95"), "not a number", "tags"),
        (tags("yes", "७०"), "not a number", "tags"),
        (tags("yes", "9" * 500), "not a number", "tags"),
        (tags("yes", "250"), "out of range", "tags"),
        (tags("yes", "-5"), "out of range", "tags"),
        (tags("no", "1"), "ambiguous number", "tags"),
        (tags("no", "0.3"), "ambiguous number", "tags"),
        ('{"p_yes": 1.5}', "ambiguous number", "json"),
        ("<probability>1.01</probability>", "ambiguous number", "tags"),
        ('{"p_yes": NaN}', "not a number", "json"),
        ('{"p_yes": null}', "not a number", "json"),
        ('{"p_yes": 0.7}\nProbability of yes: 65-70%', "not a number", "labels"),
        ("Probability: 1", "ambiguous number", "labels"),
        ("<probability>1</probability>", "ambiguous number", "tags"),
        ('{"probability": 1}', "ambiguous number", "json"),
        ('{"p_yes": one}', "ambiguous number", "json"),
        ('{"p_yes": 0,3}', "not a number", "json"),
        ('{"drivers": [{"factor": "polls", "probability": 0.2}], "final_probability": 0.7}', "no answer", "none"),
        ('{"early": {"p_yes": 0.2}, "late": {"p_yes": 0.1}}', "no answer", "none"),
        ('[{"name": "early", "probability": 0.2}, {"name": "late", "probability": 0.1}]', "no answer", "none"),
        ('{"scenarios": [{"probability": 0.2}', "no answer", "none"),
        ('{"p_yes": {"low": 0.2, "high": 0.4}}', "not a number", "json"),
        ('{"p_yes": [0.2, 0.4]}', "not a number", "json"),
        ('{"prediction": "{\'p_yes\': 0.3}"}', "neither yes nor no", "json"),
        ('{"p_yes": 0.3, "probability": 0.8}', "contradictory answers", "json"),
        ("<answer>no\n<confidence>96.3", "cut off", "tags"),
        ("<answer>yes</answer><confidence>70", "cut off", "tags"),
        ("<answer>yes</confidence><confidence>70</answer>", "cut off", "tags"),
        (f"{tags('no', '60')} <answer>yes<confidence>90</confidence>", "cut off", "tags"),
        (f"{tags('no', '60')} Then: <answ", "cut off", "tags"),
        ('{"p_yes": 1', "cut off", "json"),
        ('{"p_yes": 0.3\n', "cut off", "json"),
        ('{"p_yes": "0.3', "cut off", "json"),
        ('{"p_yes": 0.3 // abo', "cut off", "json"),
        ('{"p_yes": 0.7} and then {"p_y', "cut off", "json"),
    ]:
        reading = read(text)
        assert (reading.p_yes, reading.confidence, reading.path) == (None, None, path), text
        assert str(reading.problem).partition(":")[0] == problem, text


def test_a_percent_sign_makes_a_small_number_clear() -> None:
    assert read(tags("yes", "0.7%")).p_yes == 0.007


def test_labelled_lines_count_only_near_the_end() -> None:
    assert read("Probability of yes: 30%\n" + "Then again. " * 100).path == "none"
    assert read("Base rate.\nProbability of yes: 30%\n" + "Then again. " * 10).p_yes == 0.3


def test_a_reason_quotes_at_most_one_short_printable_line() -> None:
    problem = read(tags("\x1b[31m\n\ud800 " + "x" * 100, "70")).problem
    assert problem is not None
    assert problem.isprintable()
    assert len(problem) < 100


# --- many ----------------------------------------------------------------------------------------------------------


def test_many_responses_become_a_frame_in_their_order() -> None:
    frame = read_many([tags("no", "70"), None, f"<think>\ud800</think>{tags('yes', '80')}"])
    assert frame.columns == list(Reading._fields)
    assert frame["p_yes"].to_list() == [0.3, None, 0.8]
    assert frame["problem"].to_list() == [None, "empty response", None]
    assert frame["reasoning"].to_list() == [None, None, "?"]


# --- the published rules -------------------------------------------------------------------------------------------


def test_the_published_rules_including_their_defects() -> None:
    for text, answer, p_yes, path in [
        ("<answer>yes</answer><confidence>70</confidence>", "yes", 0.7, "compat_tag"),
        ("<answer>no</answer><confidence>70</confidence>", "no", 1.0 - 0.7, "compat_tag"),
        ("<Answer> NO </Answer> <CONFIDENCE>62.5</CONFIDENCE>", "no", 0.375, "compat_tag"),
        # The first match counts, even inside the reasoning.
        ("<think><answer>yes</answer></think><answer>no</answer><confidence>70</confidence>", "yes", 0.7, "compat_tag"),
        # Other number formats are not recognised and count as 0.5.
        ("<answer>no</answer><confidence>70%</confidence>", "no", 0.5, "compat_tag"),
        ("<answer>yes</answer><confidence>-5</confidence>", "yes", 0.5, "compat_tag"),
        ("<answer>yes</answer><confidence>about 70</confidence>", "yes", 0.5, "compat_tag"),
        ("<answer>yes</answer><confidence>.7</confidence>", "yes", 0.5, "compat_tag"),
        ("<answer>yes</answer>", "yes", 0.5, "compat_tag"),
        ("<answer>yes</answer><confidence>250</confidence>", "yes", 1.0, "compat_tag"),
        ("<answer>no</answer><confidence>250</confidence>", "no", 0.0, "compat_tag"),
        # A guessed "no" is not converted.
        ("I say the answer is NO. <confidence>80</confidence>", "no", 0.8, "compat_phrase"),
        ("the answer is no, or the answer is yes?", "yes", 0.5, "compat_phrase"),
        ("it will not: nothing is known <confidence>95</confidence>", "no", 0.95, "compat_count"),
        ("perhaps yes, yesterday", "yes", 0.5, "compat_count"),
        ("yes and no", "no", 0.5, "compat_count"),
        ("a yes, a no", None, 0.5, "compat_none"),
        ("", None, 0.5, "compat_none"),
        ("<answer>maybe</answer><confidence>70</confidence>", None, 0.7, "compat_none"),
    ]:
        reading = compat.read(text)
        assert (reading.answer, reading.p_yes, reading.path) == (answer, p_yes, path), text


def test_floats_are_those_of_the_published_arithmetic() -> None:
    assert compat.read("<answer>no</answer><confidence>42</confidence>").p_yes == 0.5800000000000001
    assert compat.read("<answer>no</answer><confidence>90</confidence>").p_yes == 0.09999999999999998


@pytest.mark.parametrize(
    ("text", "reasoning"),
    [
        ("<think>\n a\nb </think><think>c</think>", "a\nb"),
        ("<Think>a</Think>", ""),
        ("<think>a", ""),
        ("a</think>", ""),
        ("</think><think>b</think>", "b"),
    ],
)
def test_the_first_thought_is_kept(text: str, reasoning: str) -> None:
    assert compat.read(text).reasoning == reasoning


# --- any text ------------------------------------------------------------------------------------------------------

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


@given(st.lists(PIECES, max_size=8).map("".join), st.lists(PIECES, max_size=8).map("".join), st.booleans(), st.booleans())
@example(before="", after="\u2028Answer: yes", opened=False, ended=False)
def test_the_short_way_is_the_long_way(before: str, after: str, opened: bool, ended: bool) -> None:
    text = f"{'<think>' if opened else ''}{before}</think>{after}"
    assert read(text, ended=ended) == parser._read(text, ended)


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
    "closed lists within each other": "[{1" * 10_000 + "}]" * 10_000,
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


@pytest.mark.parametrize("part", range(3))
def test_long_text_before_the_answer_is_read_over(part: int) -> None:
    """In quadratic time a megabyte would take hours."""
    length = 1_000_000 if NIGHTLY else 100_000
    for name, piece in list(HOSTILE.items())[part::3]:
        text = piece * (length // len(piece))
        assert read(f"<think>{text}</think>\n<answer>no</answer>\n<confidence>70</confidence>").p_yes == 0.3, name
        assert read(text).problem is not None or name == "confidences", name
        assert compat.read(f"{text}<confidence>70</confidence>").p_yes is not None
