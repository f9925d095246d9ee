"""A model is queried for every question of a release, each result is one row, and an interrupted evaluation continues."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from bellwether.forecasting.elicitation_run import (
    Interrupted,
    describe_estimate,
    evaluate_models,
    forecast_instant,
    list_samples,
    run_elicitation,
)
from bellwether.forecasting.language_model import LanguageModel
from bellwether.journal.journal import Journal
from bellwether.journal.values import CostSource, Outcome, Usage
from bellwether.models.client import ModelClient, Retry
from bellwether.models.failures import Stop
from bellwether.models.keys import Endpoint
from bellwether.models.model import Model
from bellwether.models.response import AttemptResult
from bellwether.models.transport import ModelCall, ProviderWire
from bellwether.questions import Release, build
from bellwether.sandbox import create_app, start_clock
from bellwether.tables.benchmark import FORECASTS
from tests.unit.clean.rows import CLOSE, OPEN, SETTLED, market, markets, prices
from tests.unit.models.scripted_client import FakeWire, make_failure, make_result

RELEASE = Release(name="test", description="test", cutoff=datetime(2026, 1, 1, tzinfo=UTC), seed=1, per_series=0)
YES, NO = (f"<answer>{answer}</answer><confidence>80</confidence>" for answer in ("yes", "no"))

Script = Callable[[ModelCall], Any] | Iterable[Any]


def make_questions(*rows: dict[str, Any]) -> pl.DataFrame:
    return build(RELEASE, markets(*(rows or (market(),))).lazy(), prices().lazy())


def competitor(**changes: Any) -> LanguageModel:
    return LanguageModel(Model.model_validate({"name": "oracle", "model": "acme/oracle", **changes}))


def client(folder: Path, wire: FakeWire | ProviderWire, **changes: Any) -> ModelClient:
    journal = Journal(f"sqlite:///{folder / 'journal.db'}")
    options = {"endpoint": lambda model: Endpoint("http://127.0.0.1:1"), "retry": Retry(attempts=1), "most_cost": lambda *call: 100}
    return ModelClient(journal, run="test", wire=wire, **(options | changes))


async def rows(folder: Path, script: Script, questions: pl.DataFrame | None = None, **model: Any) -> pl.DataFrame:
    async with client(folder, FakeWire(script)) as opened:
        return await run_elicitation(competitor(**model), make_questions() if questions is None else questions, opened)


async def row(folder: Path, script: Script, **model: Any) -> dict[str, Any]:
    return (await rows(folder, script, **model)).row(0, named=True)


async def test_an_answer_is_a_row_with_everything_that_is_known_of_it(tmp_path: Path) -> None:
    found = await row(tmp_path, [make_result(NO)])
    assert (found["answer"], found["confidence"], found["p_yes"]) == ("no", 0.8, pytest.approx(0.2))
    assert (found["error"], found["failure"], found["parsed_by"], found["repaired"]) == (None, None, "tags", False)
    assert (found["input_tokens"], found["output_tokens"], found["reasoning_tokens"]) == (100, 20, 5)
    assert (found["cost"], found["cost_source"], found["attempts"], found["latency"]) == (Decimal("0.000020"), "provider", 1, 0.9)
    assert (found["raw_response"], found["finish_reason"], found["model"], found["elicitation"]) == (NO, "stop", "acme/oracle", "tags/1")
    assert found["price_map"] is None
    assert len(found["call_key"]) == 64


async def test_an_unreadable_answer_is_asked_once_more_for_the_form_and_both_are_paid(tmp_path: Path) -> None:
    found = await row(tmp_path, [make_result("Probably."), make_result(YES)])
    assert (found["p_yes"], found["repaired"], found["attempts"], found["cost"]) == (0.8, True, 2, Decimal("0.000040"))
    assert found["raw_response"] == YES


async def test_what_cannot_be_read_is_a_row_with_the_first_answer_and_the_reason(tmp_path: Path) -> None:
    found = await row(tmp_path, [make_result("Probably."), make_result("Perhaps.")])
    assert (found["p_yes"], found["answer"], found["failure"], found["raw_response"]) == (None, None, "unreadable", "Probably.")
    assert found["error"].startswith("no answer")
    assert (found["attempts"], found["repaired"]) == (2, False)


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.PROVIDER_ERROR, Outcome.RATE_LIMIT, Outcome.REFUSAL])
async def test_a_call_that_failed_is_a_row_with_its_kind(tmp_path: Path, outcome: Outcome) -> None:
    found = await row(tmp_path, lambda call: make_failure(outcome, permanent=outcome is Outcome.RATE_LIMIT))
    assert (found["p_yes"], found["failure"]) == (None, outcome.value)
    assert found["error"]


CUT = {
    "tags": "<answer>no</answer><confidence>8",
    "JSON": '{"reasoning":"x","p_yes": 0.',
    "one that is cut": '{"reasoning":"x","p_yes": 1',
    "labelled lines": "Answer: no\nConfidence: 8",
    "a draft": "First: <answer>yes</answer><confidence>90</confidence>, but on the other",
    "a draft in the reasoning": "[THINK]First <answer>yes</answer><confidence>90</confidence>",
}


@pytest.mark.parametrize(
    ("form", "finish"), zip(CUT, ["length", "model_length", "max_output_tokens", "MAX_TOKENS", "incomplete", "length"], strict=True)
)
async def test_an_answer_that_was_cut_off_is_repaired_or_recorded_as_truncated(tmp_path: Path, form: str, finish: str) -> None:
    cut = make_result(CUT[form], finish=finish)
    found = await row(tmp_path / "cut", [cut, cut])
    assert (found["p_yes"], found["failure"], found["finish_reason"], found["attempts"]) == (None, "truncation", finish, 2)
    found = await row(tmp_path / "repaired", [cut, make_result(NO)])
    assert (found["p_yes"], found["failure"], found["error"], found["repaired"]) == (pytest.approx(0.2), None, None, True)


@pytest.mark.parametrize("form", ["tags", "JSON", "one that is cut"])
async def test_a_value_without_its_end_is_truncated_whatever_the_finish_reason(tmp_path: Path, form: str) -> None:
    for place, finish in enumerate(("stop", None, "something new")):
        found = await row(tmp_path / str(place), lambda call, finish=finish: make_result(CUT[form], finish=finish))
        assert (found["p_yes"], found["failure"]) == (None, "truncation")
        assert found["error"].startswith("cut off")


@pytest.mark.parametrize(("finish", "p"), [("stop", 0.2), ("end_turn", 0.2), (None, None), ("something new", None), ("length", None)])
async def test_the_end_of_the_text_closes_a_line_only_where_the_model_ended_it(tmp_path: Path, finish: str | None, p: float | None) -> None:
    found = await row(tmp_path, lambda call: make_result("Answer: no\nConfidence: 80", finish=finish))
    assert found["p_yes"] == (None if p is None else pytest.approx(p))


async def test_answers_that_contradict_each_other_are_a_failure_of_their_own(tmp_path: Path) -> None:
    both = make_result(f"{YES}\nAnswer: No\nConfidence: 90%")
    found = await row(tmp_path / "both", [both, both])
    assert (found["p_yes"], found["failure"]) == (None, "contradictory")
    assert found["contradiction"].startswith("contradictory answers")
    assert (await row(tmp_path / "repaired", [both, make_result(NO)]))["answer"] == "no"


@pytest.mark.parametrize("outcome", [Outcome.MALFORMED, Outcome.TRUNCATION])
async def test_an_answer_without_text_is_asked_for_once_more(tmp_path: Path, outcome: Outcome) -> None:
    nothing = make_result("", finish="stop" if outcome is Outcome.MALFORMED else "length", outcome=outcome)
    found = await row(tmp_path / "repaired", [nothing, make_result(NO)])
    assert (found["p_yes"], found["failure"], found["repaired"], found["attempts"]) == (pytest.approx(0.2), None, True, 2)
    found = await row(tmp_path / "never", [nothing, nothing])
    assert (found["p_yes"], found["failure"], found["attempts"], found["p_yes_compat"]) == (None, outcome.value, 2, None)


async def test_what_the_published_parser_would_have_read_stands_beside(tmp_path: Path) -> None:
    assert (await row(tmp_path / "a", [make_result(NO)]))["p_yes_compat"] == pytest.approx(0.2)
    assert (await row(tmp_path / "b", [make_result("Perhaps."), make_result("Perhaps.")]))["p_yes_compat"] is None


async def test_half_a_surrogate_pair_spoils_no_forecast(tmp_path: Path) -> None:
    found = await row(tmp_path, [make_result(f"\ud83d {YES}", finish="stop \udfff")])
    assert (found["p_yes"], found["raw_response"], found["finish_reason"]) == (0.8, f"? {YES}", "stop ?")


async def test_other_questions_are_asked_although_one_failed(tmp_path: Path) -> None:
    questions = make_questions(market("A", question="Will A happen?"), market("B", question="Will B happen?"))

    def script(call: ModelCall) -> AttemptResult:
        return make_failure(Outcome.PROVIDER_ERROR) if "Will A" in str(call.messages) else make_result(YES)

    found = await rows(tmp_path, script, questions)
    assert dict(found.select("question_id", "p_yes").rows()) == {"kalshi:A": None, "kalshi:B": 0.8}
    assert found.schema == FORECASTS.schema


async def test_several_samples_are_several_calls_and_rows(tmp_path: Path) -> None:
    found = await rows(tmp_path, [make_result(YES), make_result(NO), make_result(YES)], samples=3, combine="median")
    assert found["sample"].to_list() == [0, 1, 2]
    assert sorted(found["p_yes"]) == pytest.approx([0.2, 0.8, 0.8])
    assert set(found["combine"]) == {"median"}


async def test_samples_of_a_sandbox_model_differ_unless_its_entry_fixes_the_seed(tmp_path: Path) -> None:
    noisy = competitor(model="sandbox/noisy", samples=4)
    fixed = competitor(name="fixed", model="sandbox/noisy", samples=4, parameters={"seed": 1})
    sandbox = httpx.ASGITransport(create_app(7, start_clock(datetime(2025, 1, 2, tzinfo=UTC), 0.0)))
    endpoint = {"endpoint": lambda model: Endpoint("http://sandbox/v1", "sandbox-key")}
    async with client(tmp_path, ProviderWire(sandbox=sandbox), **endpoint) as opened:
        found = [(await run_elicitation(own, make_questions(), opened))["p_yes"] for own in (noisy, fixed)]
    assert [series.n_unique() for series in found] == [4, 1]
    assert found[0].is_between(0, 1).all()


async def test_nothing_is_asked_twice(tmp_path: Path) -> None:
    first = await rows(tmp_path, [make_result(YES)])
    wire = FakeWire([])
    async with client(tmp_path, wire) as opened:
        again = await run_elicitation(competitor(), make_questions(), opened)
    assert again.equals(first)
    assert not wire.calls


async def test_a_stop_keeps_what_was_answered_and_says_how_much(tmp_path: Path) -> None:
    questions = make_questions(market("A", question="Will A happen?"), market("B", question="Will B happen?"))

    def script(call: ModelCall) -> AttemptResult:
        return make_failure(Outcome.OUT_OF_CREDIT, 402, stop=Stop.OUT_OF_CREDIT) if "Will B" in str(call.messages) else make_result(YES)

    async with client(tmp_path, FakeWire(script)) as opened:
        with pytest.raises(Interrupted, match=r"1 of 2 forecasts of oracle are stored"):
            await run_elicitation(competitor(concurrency=1), questions, opened)
    async with client(tmp_path, wire := FakeWire(lambda call: make_result(NO))) as opened:
        found = await run_elicitation(competitor(), questions, opened)
    assert dict(found.select("question_id", "answer").rows()) == {"kalshi:A": "yes", "kalshi:B": "no"}
    assert len(wire.calls) == 1


async def test_a_model_that_stops_stops_no_other(tmp_path: Path) -> None:
    def script(call: ModelCall) -> AttemptResult:
        return make_failure(Outcome.AUTHENTICATION, 401, stop=Stop.AUTHENTICATION) if call.model.name == "shut" else make_result(YES)

    models = [LanguageModel(Model.model_validate({"name": name, "model": f"acme/{name}"})) for name in ("shut", "open")]
    told: list[tuple[str, int, int]] = []
    async with client(tmp_path, FakeWire(script)) as opened:
        ends = await evaluate_models(models, make_questions(), opened, lambda *state: told.append(state))
    assert isinstance(ends["shut"], Interrupted)
    assert ends["open"] is None
    assert ("open", 1, 1) in told


def test_a_forecast_is_dated_before_the_close_and_never_before_the_opening() -> None:
    questions = make_questions(market("LONG"), market("SHORT", open_time=CLOSE - timedelta(hours=3)))
    dated = {
        name: questions.select(pl.col("market_id"), at=forecast_instant(name)).sort("market_id")["at"].to_list() for name in ("24h", "open")
    }
    assert dated["24h"] == [CLOSE - timedelta(hours=24), CLOSE - timedelta(hours=3)]
    assert dated["open"] == [OPEN, CLOSE - timedelta(hours=3)]


def test_the_prompt_knows_the_day_of_the_forecast_and_neither_close_nor_outcome() -> None:
    (sample,) = list_samples(competitor().model, make_questions())
    text = str(sample.prompt)
    assert f"{sample.as_of:%Y-%m-%d}" in text
    for later in (CLOSE, SETTLED):
        assert f"{later:%Y-%m-%d}" not in text


async def test_a_question_without_a_date_is_not_asked(tmp_path: Path) -> None:
    found = await rows(tmp_path, [], make_questions(market(open_time=None)), horizon="open")
    assert found.select("p_yes", "failure", "attempts").rows() == [(None, "not_asked", None)]


@pytest.mark.parametrize(("cutoff", "could"), [(None, False), (CLOSE - timedelta(days=1), False), (CLOSE, True), (SETTLED, True)])
async def test_what_could_have_been_known_is_asked_and_marked(tmp_path: Path, cutoff: datetime | None, could: bool) -> None:
    found = await row(tmp_path, [make_result(YES)], knowledge_cutoff=cutoff)
    assert (found["could_know"], found["knowledge_cutoff"], found["p_yes"]) == (could, cutoff, 0.8)
    assert found["days_from_cutoff"] == (None if cutoff is None else pytest.approx((SETTLED - cutoff) / timedelta(days=1)))


def test_the_version_changes_with_what_is_sent_and_not_with_limits() -> None:
    same = competitor(concurrency=99, requests_per_minute=5, timeout=9.0)
    assert competitor().version == same.version
    others = [{"temperature": 0.5}, {"max_tokens": 9}, {"elicitation": "json"}, {"samples": 2}, {"combine": "median"}, {"horizon": "7d"}]
    assert len({competitor(**change).version for change in [{}, *others]}) == 1 + len(others)


async def test_an_estimate_counts_what_is_still_to_be_asked(tmp_path: Path) -> None:
    questions = make_questions(market("A", question="Will A happen?"), market("B", question="Will B happen?"))
    model = competitor(input_price=Decimal(1), output_price=Decimal(2)).model
    journal = Journal(f"sqlite:///{tmp_path / 'journal.db'}")
    before = describe_estimate(model, questions, journal)
    assert (before["calls"], before["answered already"]) == (2, 0)
    assert Decimal(0) < before["expected $"] < before["at most $"]
    assert not journal.exists()
    await rows(tmp_path, [make_result(YES)], questions.head(1), input_price=Decimal(1), output_price=Decimal(2))
    after = describe_estimate(model, questions, journal)
    assert (after["calls"], after["answered already"], after["answer tokens"]) == (1, 1, 20)


async def test_an_estimate_takes_tokens_per_answer_and_not_per_attempt(tmp_path: Path) -> None:
    """Rejected requests used no tokens and must not lower the estimate of the next release."""
    model = competitor(input_price=Decimal(1), output_price=Decimal(2)).model
    turned_away = [make_failure(Outcome.RATE_LIMIT, 429)] * 3
    journal = Journal(f"sqlite:///{tmp_path / 'journal.db'}")
    wire = FakeWire([*turned_away, make_result(YES)])
    options: dict[str, Any] = {"wire": wire, "most_cost": lambda *call: 100, "retry": Retry(base=0.001)}
    async with ModelClient(journal, endpoint=lambda model: Endpoint("http://127.0.0.1:1"), run="test", **options) as opened:
        await run_elicitation(LanguageModel(model), make_questions(), opened)
    assert len(wire.calls) == 4
    other = describe_estimate(model, make_questions(market("B", question="Will B happen?")), journal)
    assert (other["calls"], other["answered already"], other["answer tokens"]) == (1, 0, 20)
    assert "answers so far" in other["basis"]


async def test_a_forecast_names_the_price_list_of_its_call_whatever_today_s_is(tmp_path: Path) -> None:
    then = Usage(100, 20, 5, 20, CostSource.PRICE_LIST, "litellm 1.0 sha256:ab12cd34")
    whole = make_result(YES)
    found = await row(tmp_path, [replace(whole, reply=replace(whole.reply, usage=then))])
    assert (found["price_map"], found["cost_source"]) == ("litellm 1.0 sha256:ab12cd34", "price_list")
    assert await row(tmp_path, []) == found
