"""Answers of the sandbox's models to chat requests."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum

from bellwether.sandbox.models.answer_forms import MALFORMED, REFUSAL, AnswerForm, Statement, read_answer_format, write_thoughts
from bellwether.sandbox.models.arena_bets import ArenaPrompt, Belief, complete_fields, decide_bets, read_arena_prompt
from bellwether.sandbox.models.beliefs import Subject, Truth, captured_subject, hash_text
from bellwether.sandbox.models.exchange_tools import (
    ExchangeTools,
    ToolQuote,
    ToolUse,
    garble_order,
    read_exchange_tools,
    trade_beliefs,
)
from bellwether.sandbox.models.personalities import round_stated
from bellwether.sandbox.models.request import ChatRequest
from bellwether.sandbox.models.research_tools import continue_research, read_research


class Failure(Enum):
    """Kind of a failed answer."""

    MALFORMED = "malformed"
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True)
class ModelReply:
    """Answer of a model: text, reasoning, refusal and tool calls."""

    content: str | None
    reasoning: str = ""
    refusal: str | None = None
    calls: tuple[ToolUse, ...] = ()


class ReplyWriter:
    """Writer of the answers to one chat request. The same request, answer number (`sample`) and time give the same answer."""

    def __init__(self, truth: Truth, request: ChatRequest, now: int) -> None:
        self._truth = truth
        self._request = request
        self._now = now

    def reply(self, sample: int) -> ModelReply:
        """Write answer number `sample`."""
        request = self._request
        if (slip := read_arena_prompt(request)) is not None:
            return self._bet(slip, sample)
        exchange = read_exchange_tools(request)
        if exchange is None and (calls := continue_research(request)):
            return ModelReply(None, calls=tuple(calls))
        return self._forecast(sample) if exchange is None else self._trade(exchange, sample)

    def _failure(self, key: int) -> Failure | None:
        """Return how the model fails to answer a question; None for a valid answer. key: hash of the question."""
        return (None, Failure.MALFORMED, Failure.REFUSAL)[key % 3] if self._request.personality.fails else None

    def _refuse(self, *, as_field: bool) -> ModelReply:
        """Write a refusal. as_field: put it into the field `refusal` instead of the text."""
        return ModelReply(None, refusal=REFUSAL) if as_field else ModelReply(REFUSAL)

    def _answer(self, text: str, thoughts: str) -> ModelReply:
        return ModelReply(text, thoughts if self._request.personality.reasons else "")

    def _state(self, subject: Subject, sample: int) -> float:
        """Return the probability that the model states about a subject."""
        return self._request.personality.states(subject.probability, self._truth.seed, subject.key, sample)

    def _bet(self, slip: ArenaPrompt, sample: int) -> ModelReply:
        """Write the decision for an arena prompt (`slip`)."""
        request, truth, personality = self._request, self._truth, self._request.personality
        failure = self._failure(hash_text(request.question))
        if failure is Failure.REFUSAL:
            return self._refuse(as_field=request.json_schema is not None)

        def belief(market_id: str) -> Belief | None:
            estimate = truth.estimate(market_id, slip.at, self._now)
            if estimate is None:
                return None
            return Belief(estimate.outcome, personality.states(estimate.probability, truth.seed, estimate.key, sample))

        thoughts = f"{len(slip.markets)} markets are listed and {len(slip.positions)} positions can be sold. I act where the price is furthest from what I expect."
        decision = decide_bets(slip, belief, thoughts)
        text = json.dumps(decision if request.json_schema is None else complete_fields(decision), ensure_ascii=False)
        return self._answer(text[: len(text) // 2] if failure is Failure.MALFORMED else text, thoughts)

    def _trade(self, exchange: ExchangeTools, sample: int) -> ModelReply:
        """Write the tool calls of a trading model."""
        request, truth = self._request, self._truth
        failure = self._failure(hash_text(request.question))
        if failure is Failure.REFUSAL:
            return self._refuse(as_field=True)

        def belief(quote: ToolQuote) -> float:
            subject = truth.by_id(quote.ticker, self._now, exchange.at) or captured_subject(quote.ticker, quote.middle)
            return self._state(subject or truth.invent(quote.ticker), sample)

        calls = trade_beliefs(exchange, belief)
        if failure is Failure.MALFORMED and exchange.has_queried and not exchange.has_acted:
            calls = garble_order(exchange)
        thoughts = f"{len(exchange.quotes)} markets are quoted; I call {', '.join(call.name for call in calls) or 'nothing'}."
        return ModelReply(None if calls else thoughts, thoughts if request.personality.reasons else "", calls=tuple(calls))

    def _forecast(self, sample: int) -> ModelReply:
        """Write an answer with a probability, in the requested format."""
        request, subject = self._request, self._truth.subject(self._request.question, self._now)
        failure = self._failure(subject.key)
        if failure is Failure.REFUSAL:
            return self._refuse(as_field=request.json_schema is not None)
        researched = read_research(request)
        p = self._state(subject, sample) if researched is None else round_stated(researched)
        thoughts = write_thoughts(p)
        wish = read_answer_format(request.instructions, as_object=request.wants_object)
        if request.json_schema is not None:
            wish = replace(wish, form=AnswerForm.OBJECT, fields=tuple(request.json_schema.get("properties", ())))
        statement = Statement(wish, p, thoughts, thinks=not request.personality.reasons)
        malform = MALFORMED[(subject.key // 3 + sample) % len(MALFORMED)]
        return self._answer(malform(statement) if failure is Failure.MALFORMED else statement.text(), thoughts)


def cut_reply(reply: ModelReply, room: int) -> ModelReply:
    """Truncate a reply to `room` characters. The reasoning counts first, then the text or the arguments of tool calls."""
    reasoning, room = reply.reasoning[:room], max(0, room - len(reply.reasoning))
    content = None if reply.content is None else reply.content[:room]
    calls = []
    for call in reply.calls:
        calls.append(ToolUse(call.name, call.arguments[:room]))
        room = max(0, room - len(call.arguments))
    return replace(reply, reasoning=reasoning, content=content, calls=tuple(calls))
