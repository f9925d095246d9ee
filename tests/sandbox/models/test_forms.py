"""Answers follow the format in the prompt. Malformed answers use every wrong format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import jsonschema
import pytest

from bellwether.forecasting.elicitation import protocol
from bellwether.sandbox.models.answer_forms import HUGE, MALFORMED, AnswerForm, read_answer_format
from bellwether.sandbox.models.replies import ModelReply
from bellwether.sandbox.world.model import Market

Says = Callable[..., ModelReply]


def content(reply: ModelReply) -> str:
    assert reply.content is not None
    return reply.content


def p_of(says: Says, market: Market) -> float:
    return json.loads(content(says("calibrated", about(market, 'Answer in JSON: {"p_yes": 0.5}'))))["p_yes"]


def about(market: Market, instructions: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": instructions}, {"role": "user", "content": f"Market {market.ticker}"}]


@pytest.fixture(scope="module")
def unlikely(query_model: Says, settled: list[Market]) -> Market:
    return next(market for market in settled if 0.1 < p_of(query_model, market) < 0.4)


# --- what is wished ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "form", "of_yes", "percent", "fields"),
    [
        ("<answer>[yes or no]</answer>\n<confidence>[0-100]</confidence>", AnswerForm.TAGS, False, True, ("answer", "confidence")),
        (
            '<answer>..</answer> <confidence>0-100, your confidence that the answer is "yes"</confidence>',
            AnswerForm.TAGS,
            True,
            True,
            ("answer", "confidence"),
        ),
        (
            "<answer>yes</answer><confidence>your confidence in the answer, 0-100; yes or no</confidence>",
            AnswerForm.TAGS,
            False,
            True,
            ("answer", "confidence"),
        ),
        ("Give <probability>, from 0 to 1</probability>", AnswerForm.TAGS, False, False, ("probability",)),
        ('Reply with JSON only: {"p_yes": number, "reasoning": text}', AnswerForm.OBJECT, True, False, ("p_yes", "reasoning")),
        ("Return p_yes.", AnswerForm.OBJECT, True, False, ("p_yes",)),
        ('{"answer": "yes" | "no", "confidence": 0-100}', AnswerForm.OBJECT, False, True, ("answer", "confidence")),
        ("What do you think?", AnswerForm.PROSE, False, False, ()),
    ],
)
def test_the_wish_is_read_off_the_words(prompt: str, form: AnswerForm, of_yes: bool, percent: bool, fields: tuple[str, ...]) -> None:
    wish = read_answer_format(prompt, as_object=False)
    assert (wish.form, wish.of_yes, wish.percent, wish.fields) == (form, of_yes, percent, fields)


# --- what is said --------------------------------------------------------------------------------------------------


def test_tags_state_the_confidence_in_the_answer_or_that_of_yes(query_model: Says, unlikely: Market) -> None:
    p = p_of(query_model, unlikely)
    own = content(query_model("calibrated", about(unlikely, "<think></think><answer>yes or no</answer><confidence>0-100</confidence>")))
    of_yes = content(query_model("calibrated", about(unlikely, "<answer>x</answer><confidence>0-100, that the answer is yes</confidence>")))
    assert "<answer>no</answer>" in own
    assert "<answer>no</answer>" in of_yes
    assert float(re.findall(r"<confidence>(.*)</confidence>", own)[0]) == pytest.approx(100 * (1 - p))
    assert float(re.findall(r"<confidence>(.*)</confidence>", of_yes)[0]) == pytest.approx(100 * p)


def test_objects_have_the_members_that_the_prompt_names(query_model: Says, unlikely: Market) -> None:
    p = p_of(query_model, unlikely)
    prompt = 'JSON: {"answer": "yes or no", "probability": "0 to 1", "p_no": "0 to 1", "reasoning": "short"}'
    body = json.loads(content(query_model("calibrated", about(unlikely, prompt))))
    assert list(body) == ["answer", "probability", "p_no", "reasoning"]
    assert body["answer"] == "no"
    assert body["probability"] == pytest.approx(p)
    assert body["p_no"] == pytest.approx(1 - p)


def test_an_answer_by_schema_has_its_properties_and_says_what_the_model_believes(query_model: Says, unlikely: Market) -> None:
    asked = protocol("json").response_format
    schema = asked["json_schema"]["schema"]  # type: ignore[index]
    for model in ("calibrated", "overconfident", "noisy", "slow"):
        body = json.loads(content(query_model(model, about(unlikely, "Will it?"), response_format=asked)))
        jsonschema.validate(body, schema)
        assert model != "calibrated" or body["p_yes"] == p_of(query_model, unlikely)
    wrong = {query_model("malformed", about(unlikely, "Will it?"), sample=sample, response_format=asked).content for sample in range(14)}
    assert {"", "null"} <= wrong


# --- what is wrong -------------------------------------------------------------------------------------------------

TAGS = "<answer>yes or no</answer><confidence>0-100</confidence>"


@pytest.fixture(scope="module")
def wrong(query_model: Says, settled: list[Market]) -> dict[str, str]:
    """Return one answer of each wrong format."""
    by_form: dict[str, str] = {}
    texts = [content(query_model("malformed", about(market, TAGS))) for market in settled[:150]]
    tests: dict[str, Callable[[str], bool]] = {
        "prose": lambda text: "hard to put a number on it" in text,
        "out of range": lambda text: "<confidence>250</confidence>" in text,
        "negative": lambda text: "<confidence>-5</confidence>" in text,
        "not a number": lambda text: "<confidence>NaN</confidence>" in text,
        "in words": lambda text: "about seventy" in text,
        "contradiction": lambda text: {"yes", "no"} <= set(re.findall(r"<answer>(.*)</answer>", text)),
        "unclosed": lambda text: "<answer>" in text and "</answer>" not in text,
        "code fence": lambda text: "```" in text,
        "other form": lambda text: text.startswith("{"),
        "empty": lambda text: text == "",
        "null": lambda text: text == "null",
        "neither": lambda text: "<answer>maybe</answer>" in text,
        "huge": lambda text: len(text) == HUGE,
        "other language": lambda text: "Ich halte" in text,
    }
    for text in texts:
        matching = [form for form, test in tests.items() if test(text)]
        assert len(matching) == 1, (matching, text[:300])
        by_form[matching[0]] = text
    return by_form


def test_every_wrong_format_occurs(wrong: dict[str, str]) -> None:
    assert set(wrong) == set(MALFORMED)
