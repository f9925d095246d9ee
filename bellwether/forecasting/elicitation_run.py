"""Forecasts of one language model for the questions of a release. Every sample becomes a row, including failed ones.

A sample is a conversation: a single call, or rounds of tool calls before the answer. Every answer is in the journal, and so is every result of a tool,
as a record of the answer that called it, and every response of a search service. A repeated run gets them from there, also when the tools would return
something else today.
Prompts are in prompt.py, parsers of answers in parsing/, requests to providers and their costs in bellwether/models.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Protocol, TypeVar

import polars as pl

from bellwether.corpus import LONGEST_TEXT
from bellwether.errors import BellwetherError
from bellwether.forecasting.forecaster import Forecaster
from bellwether.forecasting.parsing import Reading, compat, read
from bellwether.forecasting.prompt import VERSION as PROMPT_VERSION
from bellwether.forecasting.prompt import Message, messages, prompt_hash, repair, response_format
from bellwether.forecasting.tools import MOST_CALLS, Sources, Tools, open_sources, tool_instructions
from bellwether.formatting import replace_surrogates
from bellwether.journal.journal import Journal
from bellwether.journal.tables import Scope, sum_known
from bellwether.journal.values import CostSource, Outcome
from bellwether.models.client import Answer, ModelClient, NoAnswer, Stopped, build_request, journal_model_name
from bellwether.models.model import Model
from bellwether.models.prices import compute_max_cost, estimate
from bellwether.models.providers import SANDBOX
from bellwether.models.response import Ending, ToolCall, parse_ending
from bellwether.models.tool_calls import build_turn
from bellwether.tables.benchmark import FORECASTS, HORIZONS
from bellwether.tables.exports import redact_rows
from bellwether.tables.knowledge import knowledge_columns

PURPOSE = "benchmark/forecasts"
#: Kind of the journal's records with results of tools.
RECORD = "tool_result"
_NOT_EXECUTED = json.dumps({"error": f"not carried out: an answer may call {MOST_CALLS} tools"})

UNREADABLE = "unreadable"
NOT_ASKED = "not_asked"
#: Characters that a step of a model with tools adds to the prompt, about those of a search.
_USUAL_RESULT = 4_000

CONTRADICTORY = "contradictory"

#: Kind of failure of an unreadable answer, by its ending.
_ENDED = {Ending.CUT: Outcome.TRUNCATION.value, Ending.FILTERED: Outcome.REFUSAL.value}
#: Kinds of problems that have their own kind of failure.
_PROBLEMS = {"cut off": Outcome.TRUNCATION.value, "contradictory answers": CONTRADICTORY}

#: Failures without a response of the model, which count against the server.
_ON_THE_WAY = (Outcome.PROVIDER_ERROR.value, Outcome.TIMEOUT.value, Outcome.RATE_LIMIT.value)
#: Reasons of `MALFORMED` for responses that come from no model; empty answers and reasoning alone come from the model.
_NO_ANSWER = r"^HTTP |\(finish reason: none\)$"

#: Columns of a row that do not come from the question.
_ROW = {"id": pl.String()} | {
    column.name: column.dtype
    for column in FORECASTS.columns
    if column.name not in {"question_id", "release", "known_at", "knowledge_cutoff", "days_from_cutoff", "could_know"}
}

T = TypeVar("T")
Row = dict[str, Any]
#: Progress callback, called after each sample with the completed and total numbers of samples.
Progress = Callable[[int, int], None]
#: The same for several models, with the name of the model first.
ModelProgress = Callable[[str, int, int], None]


class Interrupted(BellwetherError):
    """Raised when the evaluation of a model ends early, for a reason that the operator must fix. Stored answers are kept.

    answered, total: samples with a row, and all planned samples.
    """

    def __init__(self, model: str, cause: Stopped, answered: int, total: int) -> None:
        self.cause, self.answered, self.total = cause, answered, total
        super().__init__(f"{cause} ({answered} of {total} forecasts of {model} are stored)")


@dataclass(frozen=True, slots=True)
class Sample:
    """Planned forecast: row of the question, number of the sample (repetition), time of the forecast, and prompt.

    prompt: empty without a time.
    """

    question: Row
    sample: int
    as_of: datetime | None
    prompt: list[Message]


async def evaluate_models(
    forecasters: Sequence[ModelForecaster], questions: pl.DataFrame, client: ModelClient, progress: ModelProgress
) -> dict[str, BellwetherError | None]:
    """Evaluate all models on all questions concurrently. Returns for each model by name the error that stopped it, or None.

    The other models continue. A model whose requests all failed at the server counts as stopped.
    """

    async def run(forecaster: ModelForecaster) -> BellwetherError | None:
        try:
            rows = await run_elicitation(forecaster, questions, client, lambda done, total: progress(forecaster.name, done, total))
        except BellwetherError as error:
            return error
        return _server_failure(forecaster.name, rows)

    errors = await asyncio.gather(*(run(forecaster) for forecaster in forecasters))
    return dict(zip((forecaster.name for forecaster in forecasters), errors, strict=True))


def _server_failure(name: str, rows: pl.DataFrame) -> BellwetherError | None:
    """Return an error with the most frequent reason if every request of a model failed at the server, else None. Requests that the server
    rejected do not count as failures.
    """
    sent = rows.filter(pl.col("failure").is_null() | (pl.col("failure") != NOT_ASKED))
    unspoken = (pl.col("output_tokens").fill_null(0) == 0) & pl.col("error").str.contains(_NO_ANSWER)
    refused = (pl.col("failure") == Outcome.PROVIDER_ERROR.value) & pl.col("error").str.starts_with("HTTP 4")
    failed = pl.col("failure").is_in(_ON_THE_WAY) & ~refused
    lost = sent.filter(failed | ((pl.col("failure") == Outcome.MALFORMED.value) & unspoken))
    if lost.is_empty() or lost.height < sent.height:
        return None
    errors = lost["error"]
    return BellwetherError(f"calling {name}: all {len(errors)} calls failed: {errors.mode().sort()[0]}; repeat when that is fixed")


def list_samples(model: Model, questions: pl.DataFrame) -> list[Sample]:
    """List the samples (planned forecasts) of all questions in the release's order. questions: rows of benchmark/questions."""
    dated = questions.sort("ordinal").with_columns(as_of=forecast_instant(model.horizon))
    further = tool_instructions(model)
    return [
        Sample(row, sample, row["as_of"], [] if row["as_of"] is None else messages(row, row["as_of"], model.elicitation, further))
        for row in dated.iter_rows(named=True)
        for sample in range(model.samples)
    ]


def forecast_instant(horizon: str) -> pl.Expr:
    """Return an expression for the time of a forecast: `horizon` before the close, but not before the opening; null if these times are
    unknown.

    horizon: a name in `HORIZONS`, or "open" for the opening.
    """
    if horizon == "open":
        return pl.col("open_time")
    return pl.max_horizontal(pl.col("close_time") - timedelta(hours=HORIZONS[horizon]), "open_time")


class ModelForecaster(Forecaster, Protocol):
    """Interface of forecasters that call a model."""

    model: Model


async def run_elicitation(
    forecaster: ModelForecaster, questions: pl.DataFrame, client: ModelClient, progress: Progress = lambda done, total: None
) -> pl.DataFrame:
    """Ask a model for all samples of all questions; return rows of benchmark/forecasts. Calls run concurrently within the client's limits.

    The row of a failed sample has the reason. Answers in the journal are reused, so that an interrupted evaluation continues where it stopped.
    progress: called after each sample. Raises `Interrupted` if no more calls are made to the model.
    """
    samples = list_samples(forecaster.model, questions)
    done = 0

    async def run_sample(sample: Sample, sources: Sources) -> Row:
        nonlocal done
        row = await _row(forecaster.model, sample, client, sources)
        done += 1
        progress(done, len(samples))
        return row

    progress(0, len(samples))
    with open_sources(forecaster.model) as sources:
        results = await _gather_results([run_sample(sample, sources) for sample in samples])
    rows = [row for row in results if not isinstance(row, BaseException)]
    stopped = next((error for error in results if isinstance(error, Stopped)), None)
    if stopped is not None:
        raise Interrupted(forecaster.name, stopped, len(rows), len(samples))
    return _build_frame(forecaster, questions, rows)


async def _gather_results(work: Sequence[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
    """Run `work` concurrently and return the results. The exception `Stopped` is returned like a result, so that running calls are still
    stored; other exceptions are raised.
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, Stopped):
            raise result
    return results


async def _row(model: Model, sample: Sample, client: ModelClient, sources: Sources) -> Row:
    """Ask the model for one sample and return the sample's row. After an empty or unreadable answer, one repair request asks only for the
    right format.
    """
    row: Row = {"id": sample.question["id"], "sample": sample.sample, "as_of": sample.as_of}
    if sample.as_of is None:
        return row | {"error": "no opening time at which the forecast could be dated", "failure": NOT_ASKED}
    row |= {"prompt_hash": prompt_hash(sample.prompt)}
    tools = _tools(model, sources, sample)
    terms = call_terms(model, sample.sample, tools)
    conversation = await hold_conversation(model, sample.prompt, client, terms, tools)
    first = conversation.results[-1]
    if isinstance(first, NoAnswer):
        reading, text = read(None), ""
        row |= {"call_key": first.key, "error": first.reason, "failure": first.outcome.value}
        if not first.without_text:
            return row | _total_usage(conversation.results)
    else:
        reading, text, published = _read(first), first.content, compat.read(first.content)
        row |= {"p_yes_compat": published.p_yes if published.answer else None, "repaired": False} | _answered_row(first, reading)
        if reading.problem is None:
            return row | _total_usage(conversation.results)
        row |= {"error": reading.problem, "failure": _failure_kind(first, reading.problem)}
    request = repair(conversation.messages, text, reading, model.elicitation)
    second = await client.ask(model, request, **forbid_tools(terms))
    row |= _total_usage([*conversation.results, second])
    if isinstance(second, Answer) and (repaired := _read(second)).problem is None:
        return row | _answered_row(second, repaired) | {"repaired": True, "error": None, "failure": None}
    return row


def _tools(model: Model, sources: Sources, sample: Sample) -> Tools | None:
    """Return the tools of a sample; None for a model without tools."""
    return Tools(model, sources, sample.as_of) if model.tools and sample.as_of is not None else None


def _read(answer: Answer) -> Reading:
    return read(answer.content, ended=answer.ended)


def _failure_kind(answer: Answer, problem: str) -> str:
    """Return the kind of failure of an unreadable answer. problem: what the parser reported."""
    return _PROBLEMS.get(problem.partition(":")[0]) or _ENDED.get(parse_ending(answer.reply.finish_reason), UNREADABLE)


def _answered_row(answer: Answer, reading: Reading) -> Row:
    """Return the columns of a row that come from the model's answer."""
    reply = answer.reply
    return {
        "answer": reading.answer,
        "confidence": reading.confidence,
        "p_yes": reading.p_yes,
        "parsed_by": reading.path,
        "contradiction": reading.contradiction,
        "raw_response": answer.content,
        "reasoning": reply.reasoning or reading.reasoning,
        "finish_reason": reply.finish_reason,
        "latency": None if reply.latency_ms is None else reply.latency_ms / 1000,
        "call_key": answer.key,
        "served_model": reply.served.model,
        "system_fingerprint": reply.served.system_fingerprint,
        "served_by": reply.served.by,
    }


def _total_usage(calls: Sequence[Answer | NoAnswer]) -> Row:
    """Return requests, known tokens and total cost of a sample's calls. The cost is null if that of any call is unknown."""
    usages = [call.spent if isinstance(call, Answer) else call.usage for call in calls]
    costs = [usage.cost for usage in usages]
    sources = {usage.cost_source for usage in usages if usage.cost_source is not None}
    return {
        "input_tokens": sum_known([usage.prompt_tokens for usage in usages]),
        "output_tokens": sum_known([usage.completion_tokens for usage in usages]),
        "reasoning_tokens": sum_known([usage.reasoning_tokens for usage in usages]),
        "cost": None if None in costs else _to_dollars(sum_known(costs)),
        "cost_source": "+".join(sorted(sources - {CostSource.UNBILLED} or sources)) or None,
        "price_map": " + ".join(sorted({usage.price_list for usage in usages if usage.price_list is not None})) or None,
        "attempts": sum(call.attempts for call in calls),
    }


def _build_frame(forecaster: ModelForecaster, questions: pl.DataFrame, rows: Sequence[Row]) -> pl.DataFrame:
    model = forecaster.model
    same = {
        "forecaster": forecaster.name,
        "combine": model.combine,
        "model": model.model,
        "elicitation": f"{model.elicitation}/{PROMPT_VERSION}",
        "rules": forecaster.version,
    }
    facts = questions.select("id", "release", "known_at", **knowledge_columns(forecaster.knowledge_cutoff))
    # The journal has the original texts.
    written = [
        {name: replace_surrogates(value) if isinstance(value, str) else value for name, value in (row | same).items()} for row in rows
    ]
    frame = pl.DataFrame(written, schema=_ROW, infer_schema_length=None)
    table = frame.join(facts, on="id", how="left").rename({"id": "question_id"})
    return FORECASTS.validate(redact_rows(FORECASTS.name, table.select(FORECASTS.names).sort(FORECASTS.order)))


# --- conversations ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Conversation:
    """Finished conversation. messages: the last request. results: of all requests, searches included; the last one is the answer, or the reason of a
    missing one.
    """

    messages: Sequence[Message]
    results: Sequence[Answer | NoAnswer]


def call_terms(model: Model, sample: int, tools: Tools | None) -> dict[str, Any]:
    """Return the arguments of `ModelClient.ask` and `build_request` that all calls of a sample share."""
    form = response_format(model.elicitation)
    parameters: dict[str, Any] = {} if form is None else {"response_format": form}
    if sample and model.provider == SANDBOX and "seed" not in model.parameters:
        parameters["seed"] = sample  # The sandbox answers equal requests equally.
    if tools is not None:
        parameters["tools"] = tools.definitions
    return {"purpose": PURPOSE, "sample": sample, "scope": "" if tools is None else tools.scope, "parameters": parameters}


async def hold_conversation(
    model: Model, prompt: Sequence[Message], client: ModelClient, terms: Mapping[str, Any], tools: Tools | None
) -> Conversation:
    """Send the prompt, and execute tool calls until the model answers. After `model.steps` rounds it must answer without tools.

    A failed search of a service ends the conversation without an answer.
    """
    messages, results = list(prompt), list[Answer | NoAnswer]()
    for number in range(model.steps if tools is not None else 0):
        answer = await client.ask(model, messages, **terms)
        results.append(answer)
        if isinstance(answer, NoAnswer) or answer.cut or not answer.tool_calls:
            return Conversation(messages, results)
        assert tools is not None
        message, calls = build_turn(answer, number, len(answer.tool_calls))
        messages = [*messages, message]
        for position, call in enumerate(calls):
            if position < MOST_CALLS:
                searched = await tools.search(call, client, answer.key, position)
                results += [] if searched is None else [searched]
                if isinstance(searched, NoAnswer):
                    return Conversation(messages, results)
                execute = partial(_execute, tools, call)
                content = (await client.record_once(RECORD, answer.key, execute, position)).decode()
            else:
                content = _NOT_EXECUTED
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    results.append(await client.ask(model, messages, **forbid_tools(terms)))
    return Conversation(messages, results)


def forbid_tools(terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the terms of a call in which the model must answer. The tools stay in it, because the earlier messages call them."""
    parameters = terms["parameters"]
    return {**terms, "parameters": parameters | ({"tool_choice": "none"} if "tools" in parameters else {})}


def _execute(tools: Tools, call: ToolCall) -> bytes:
    return tools.execute(call).encode(errors="replace")


# --- estimates ----------------------------------------------------------------------------------------------------------


def describe_estimate(model: Model, questions: pl.DataFrame, journal: Journal) -> dict[str, Any]:
    """Estimate calls, tokens and cost of an evaluation, for the terminal. Nothing is sent; answers already in the journal cost nothing.

    A model with tools is assumed to use all its steps with one call each, whose results lengthen the next prompts; a conversation that began counts as
    answered. Dollars are Decimals, null if the price is unknown. Repair requests are not included.
    """
    samples = [sample for sample in list_samples(model, questions) if sample.as_of is not None]
    with open_sources(model) as sources:
        calls = [(sample, call_terms(model, sample.sample, _tools(model, sources, sample))) for sample in samples]
    keys = [build_request(model, sample.prompt, **terms).key for sample, terms in calls]
    stored = journal.answers(keys) if journal.exists() else {}
    average = _tokens_per_answer(journal, journal_model_name(model)) if journal.exists() else None
    prompts = [sample.prompt for sample, key in zip(samples, keys, strict=True) if key not in stored]
    parameters = calls[0][1]["parameters"] if calls else {}
    parameters = {**model.request_parameters, **parameters}
    expected = estimate(model, _lengthen(model, prompts, _USUAL_RESULT), parameters=parameters, completion_tokens=average)
    most = estimate(model, _lengthen(model, prompts, LONGEST_TEXT + model.max_tokens), parameters=parameters).most_cost
    searches = len(prompts) * model.steps * (compute_max_cost(model.searches, []) or 0) if model.searches is not None else 0
    return {
        "questions": questions.height,
        "answered already": len(samples) - len(prompts),
        "calls": expected.calls,
        "prompt tokens": expected.prompt_tokens,
        "answer tokens": expected.completion_tokens,
        "expected $": None if expected.expected_cost is None else _to_dollars(expected.expected_cost + searches),
        "at most $": None if most is None else _to_dollars(most + searches),
        "price map": expected.price_map,
        "basis": expected.basis + _describe_steps(model),
    }


def _lengthen(model: Model, prompts: Sequence[list[Message]], characters: int) -> list[list[Message]]:
    """Return the requests of conversations that use all steps of a model. characters: added to the prompt by each step."""
    added: Message = {"role": "tool", "content": "x" * characters}
    return [[*prompt, *[added] * step] for prompt in prompts for step in range(model.steps + 1 if model.tools else 1)]


def _describe_steps(model: Model) -> str:
    """Return the end of an estimate's basis for a model with tools; "" for others."""
    if not model.tools:
        return ""
    search = "" if model.search_price is None else f", and a search for ${model.search_price / 1000:f}"
    return (
        f"; {model.steps} steps per question, each with one tool call and {_USUAL_RESULT:,} more characters of prompt{search}; "
        f"at most {LONGEST_TEXT:,} and its longest answer"
    )


def _tokens_per_answer(journal: Journal, name: str) -> float | None:
    used = journal.usage("outcome", of=Scope(purpose=PURPOSE, model=name)).filter(outcome=Outcome.OK.value)
    tokens, answers = int(used["completion_tokens"].sum()), int(used["attempts"].sum())
    return tokens / answers if tokens and answers else None


def _to_dollars(micro: int | None) -> Decimal | None:
    return None if micro is None else Decimal(micro).scaleb(-6)
