"""Parsing of decisions, with valid answers, invalid answers and arbitrary text."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.arena.decision import Action, Bet, Decision, Problem, Sell, answer_schema, response_format
from bellwether.arena.parsing import Limits, parse_decision
from tests.unit.arena.world import V1, V2, usd

LIMITS = Limits.of(V1, usd("10000"))
HOLD = '{"action": "HOLD", "reasoning": "wait"}'
SELL = '{"action": "SELL", "sells": [{"position_id": "pos-1", "percentage": 50}], "reasoning": "r"}'


def bet(**leg: object) -> str:
    return json.dumps({"action": "BET", "bets": [{"market_id": "market-1", "side": "YES", "amount": 100, **leg}], "reasoning": "r"})


def sell(**leg: object) -> str:
    return json.dumps({"action": "SELL", "sells": [{"position_id": "position-1", "percentage": 50, **leg}], "reasoning": "r"})


HELD = {
    "a fenced block": f"```json\n{HOLD}\n```",
    "a fence with a space": f"``` json\n{HOLD}\n```",
    "single quotes": f"'{HOLD}'",
    "double quotes": f'"{HOLD}"',
    "a JSON text": json.dumps(HOLD),
    "an action in lower case": '{"action": "hold", "reasoning": "wait"}',
    "plain": f"  \n{HOLD}\n",
    "byte order mark": f"\ufeff{HOLD}",
}


@pytest.mark.parametrize("case", HELD)
def test_forms_that_are_what_was_asked_for(case: str) -> None:
    assert parse_decision(HELD[case], LIMITS) == Decision(Action.HOLD, reasoning="wait")


def test_an_object_in_prose() -> None:
    said = parse_decision(f"I think so.\n{SELL}\nThat is all.", LIMITS)
    assert (said.action, said.sells, said.tolerated) == (Action.SELL, (Sell("pos-1", 50_000_000),), True)


def test_escaped_quotes_in_the_reasoning() -> None:
    said = parse_decision('So: {"action": "HOLD", "reasoning": "he said \\"{no\\" twice"} Done.', LIMITS)
    assert (said.action, said.reasoning) == (Action.HOLD, 'he said "{no" twice')


@pytest.mark.parametrize(
    "text",
    [
        f"{HOLD} I hope this helps.",
        f"```json\n{HOLD}\n```\nThis is because.",
        f"Here's my thought process:\n1. Prices are fair.\n\n{HOLD}",
        f"[Reasoning]\nPrices are fair.\n\n[Answer]\n```json\n{HOLD}\n```",
        f"<mm:think>{SELL}</mm:think>{HOLD}",
    ],
)
def test_text_around_the_object_is_tolerated_and_flagged(text: str) -> None:
    assert parse_decision(text, LIMITS) == Decision(Action.HOLD, reasoning="wait", tolerated=True)


@pytest.mark.parametrize("around", ["{}", "```json\n{}\n```", "So:\n{}\nDone.", "<think>hm</think>{}"])
def test_raw_control_characters_in_a_text_are_tolerated_and_flagged(around: str) -> None:
    said = parse_decision(around.replace("{}", HOLD.replace("wait", "a\nb\tc\x01d")), LIMITS)
    assert said == Decision(Action.HOLD, reasoning="a\nb\tc\x01d", tolerated=True)


INVALID = {
    "cut off": ('Well, {"action": "HOLD", "reasoning": "wait"', Problem.NOT_JSON),
    "a missing comma": ('{"action": "HOLD" "reasoning": "wait"}', Problem.NOT_JSON),
    "no action": ('{"reasoning": "wait"}', Problem.NO_ACTION),
    "no reasoning": ('{"action": "HOLD"}', Problem.NO_REASONING),
    "no bets": ('{"action": "BET", "bets": [], "reasoning": "r"}', Problem.NO_BETS),
    "no sells": ('{"action": "SELL", "reasoning": "r"}', Problem.NO_SELLS),
    "below the smallest bet": (bet(amount=10), Problem.BELOW_MINIMUM),
    "above the largest bet": (bet(amount=3000), Problem.ABOVE_LIMIT),
    "an empty market": (bet(market_id=""), Problem.NO_MARKET),
    "an empty side": (bet(side=""), Problem.NO_SIDE),
    "a sale of nothing": (sell(percentage=0), Problem.PERCENTAGE),
    "a percentage as text": (sell(percentage="50"), Problem.NOT_A_NUMBER),
    "an array": ("[1, 2]", Problem.NOT_AN_OBJECT),
    "null": ("null", Problem.NOT_AN_OBJECT),
    "a number as action": ('{"action": 5, "reasoning": "r"}', Problem.UNKNOWN_ACTION),
    "null as bet": ('{"action": "BET", "bets": [null], "reasoning": "r"}', Problem.NOT_A_LEG),
    "an action twice": ('{"action": "HOLD", "reasoning": "r", "action": "BET"}', Problem.NOT_JSON),
    "another language": ("Ich würde abwarten.", Problem.NOT_JSON),
    "empty": ("  ", Problem.EMPTY),
    "1e308": (bet(amount=1e308), Problem.ABOVE_LIMIT),
    "1e999999999": (bet().replace("100", "1e999999999"), Problem.ABOVE_LIMIT),
    "an integer of 5000 digits": (bet().replace("100", "1" + "0" * 5000), Problem.NOT_JSON),
    "NaN": (bet().replace("100", "NaN"), Problem.NOT_JSON),
    "infinite": (bet().replace("100", "-Infinity"), Problem.NOT_JSON),
    "as text": (bet(amount="100"), Problem.NOT_A_NUMBER),
    "true": (bet(amount=True), Problem.NOT_A_NUMBER),
    "tiny": (bet().replace("100", "1e-999999999"), Problem.BELOW_MINIMUM),
    "percent for a probability": (bet(probability=62), Problem.PROBABILITY),
    "probability as text": (bet(probability="0.6"), Problem.PROBABILITY),
    "500 bets": (
        json.dumps({"action": "BET", "bets": [{"market_id": "m", "side": "YES", "amount": 50}] * 500, "reasoning": "r"}),
        Problem.TOTAL_ABOVE_CASH,
    ),
    "two that differ": (f"{HOLD} or rather {SELL}", Problem.SEVERAL),
    "nested without end": ('{"a":' * 100_000, Problem.NOT_JSON),
    "nested lists": ('{"action": ' + "[" * 100_000, Problem.NOT_JSON),
}


def test_an_answer_that_cannot_be_used_says_why() -> None:
    for case, (text, problem) in INVALID.items():
        said = parse_decision(text, LIMITS)
        assert (said.action, said.problem, said.bets, said.sells) == (Action.INVALID, problem, (), ()), case
        assert said.message
        assert len(said.message) < 300


DRAFT = HOLD.replace("wait", "a draft")
#: Answers without their end or their second half, also with a normal finish reason.
CUT = {
    "a draft and a cut object": f"{DRAFT}\nOr rather: {SELL[:-2]}",
    "a draft within a cut object": f'{{"draft": {DRAFT}, "action": "SELL", "reasoning": "r',
    "a draft within an object that is broken": f'So: {{"draft": {DRAFT}, "action": SELL, "reasoning": "r"}} {{',
    "a draft in reasoning without an end": f"<think>First {DRAFT}, but then",
    "a draft under a heading without an end": f"[Reasoning]\nFirst {DRAFT}, but then",
    "an answer and reasoning without an end": f"{HOLD}\n[THINK]or rather",
}


@pytest.mark.parametrize("case", CUT)
def test_an_answer_whose_end_is_missing_is_cut_off(case: str) -> None:
    said = parse_decision(CUT[case], LIMITS)
    assert (said.action, said.problem) == (Action.INVALID, Problem.NOT_JSON if "draft within" in case else Problem.CUT_OFF)


@pytest.mark.parametrize(
    "text",
    [
        f"<think>First {DRAFT}.</think>\n{SELL}",
        f"First {DRAFT}.</think>{SELL}",
        f"[THINK]First {DRAFT}.[/THINK]```json\n{SELL}\n```",
        f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>{SELL}<|return|>",
    ],
)
def test_a_draft_in_the_reasoning_is_no_decision(text: str) -> None:
    said = parse_decision(text, LIMITS)
    assert (said.action, said.sells) == (Action.SELL, (Sell("pos-1", 50_000_000),))
    assert said.tolerated


@pytest.mark.parametrize("text", ["<think>hm</think>", "<think>hm</think>\n\n"])
def test_reasoning_alone_is_an_empty_answer(text: str) -> None:
    assert parse_decision(text, LIMITS).problem is Problem.EMPTY


@pytest.mark.parametrize(
    "whole",
    [
        bet(),
        f"```json\n{bet()}\n```",
        f"'{bet()}'",
        json.dumps(bet()),
        f"I think so.\n{bet()}\n",
        f"<think>First {DRAFT}, no.</think>\n{bet()}",
        f"First {DRAFT}, no.\n</think>{bet()}",
        f"{DRAFT}\nOn reflection, I decide otherwise: {SELL}",
    ],
)
def test_a_cut_decision_is_read_as_the_whole_one_or_not_at_all(whole: str) -> None:
    """The exception is a text that ends with the draft itself, because no parser can distinguish the draft from the answer."""
    full = parse_decision(whole, LIMITS)
    for end in range(len(whole)):
        said = parse_decision(whole[:end], LIMITS, ended=False)
        if said.action is Action.INVALID or whole[:end].rstrip(" \n.").endswith('draft"}'):
            continue
        assert replace(said, tolerated=full.tolerated) == full, whole[:end]


def test_a_total_above_the_limit_of_v2() -> None:
    legs = [{"market_id": name, "side": "YES", "amount": 1300} for name in "ab"]
    said = json.dumps({"action": "BET", "bets": legs, "reasoning": "r"})
    assert parse_decision(said, Limits.of(V2, usd("10000"))).problem is Problem.TOTAL_ABOVE_LIMIT
    assert parse_decision(said, LIMITS).action is Action.BET


def test_ids_and_sides_are_trimmed() -> None:
    assert parse_decision(bet(market_id=" market-1 ", side=" yes "), LIMITS).bets == (Bet("market-1", "YES", usd(100)),)


@pytest.mark.parametrize("text", ["2499.99", "2500", "2500.0074"])
def test_what_was_printed_is_accepted_within_a_cent(text: str) -> None:
    limits = Limits.of(V1, usd("9999.99"))
    assert V1.printed_largest_bet(usd("9999.99")) == usd("2499.99")
    assert parse_decision(bet().replace("100", text), limits).action is Action.BET
    assert parse_decision(bet().replace("100", "2500.0076"), limits).problem is Problem.ABOVE_LIMIT


def test_a_stated_probability_is_kept_exactly() -> None:
    assert parse_decision(bet(probability=0.1), LIMITS).bets[0].probability == 0.1
    assert parse_decision(bet(probability=None), LIMITS).bets[0].probability is None


def test_halves_of_surrogate_pairs_do_not_reach_a_table() -> None:
    said = parse_decision('{"action": "HOLD", "reasoning": "a \\ud800 b"}', LIMITS)
    assert said.reasoning.encode() == b"a ? b"


def test_the_schema_admits_what_the_parser_reads_and_every_field_is_required() -> None:
    jsonschema.Draft202012Validator.check_schema(answer_schema())
    answer = {"action": "HOLD", "bets": None, "sells": None, "reasoning": "r"}
    jsonschema.validate(answer, answer_schema())
    assert parse_decision(json.dumps(answer), LIMITS).action is Action.HOLD
    leg = {"market_id": "m", "side": "YES", "amount": 50, "probability": None}
    jsonschema.validate(answer | {"action": "BET", "bets": [leg]}, answer_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"action": "HOLD", "reasoning": "r"}, answer_schema())
    assert response_format()["json_schema"]["strict"] is True


PIECES = (*"{}[]\":,\\`' ", "action", "reasoning", "HOLD", "bets", "1e9", "null", "NaN", HOLD, SELL, bet(), "\ud800", "\x00", "```json\n")


@given(st.lists(st.sampled_from(PIECES) | st.characters(), max_size=12))
def test_any_text_is_read_without_an_exception(pieces: list[str]) -> None:
    said = parse_decision("".join(pieces), LIMITS)
    assert (said.action is Action.INVALID) == (said.problem is not None)


amounts = st.integers(usd(50), usd(2500)).map(lambda amount: amount // 10_000 * 10_000)
legs = st.builds(
    Bet,
    st.text("abc-0 ", min_size=1).map(str.strip).filter(bool),
    st.sampled_from(["YES", "NO", "Candidate A"]),
    amounts,
    st.none() | st.floats(0, 1),
)
reasons = st.text('ab{}"\\\n é', min_size=1)


@given(
    st.builds(lambda bets, why: Decision(Action.BET, bets=tuple(bets), reasoning=why), st.lists(legs, min_size=1, max_size=4), reasons)
    | st.builds(lambda p, why: Decision(Action.SELL, sells=(Sell("p", p),), reasoning=why), st.integers(1_000_000, 100_000_000), reasons)
    | st.builds(lambda why: Decision(Action.HOLD, reasoning=why), reasons)
)
def test_a_decision_is_read_again_from_what_it_writes(decision: Decision) -> None:
    assert parse_decision(decision.to_json(), LIMITS) == decision


def test_long_hostile_answers_are_read_in_time() -> None:
    start = time.process_time()
    for text in ('{"a":[' * 50_000, '{"action":' * 30_000, "{" * 300_000, '{ "' * 100_000, f"{HOLD} " * 7_000, '"' * 300_000):
        parse_decision(text, LIMITS)
    assert time.process_time() - start < 3
