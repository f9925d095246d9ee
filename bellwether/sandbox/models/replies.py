"""Answers of the sandbox's models to chat requests."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property

from bellwether.sandbox.models.answer_forms import (
    MALFORMED,
    REFUSALS,
    AnswerForm,
    AnswerFormat,
    Statement,
    choose_malformed,
    read_answer_format,
    write_thoughts,
)
from bellwether.sandbox.models.arena_bets import ArenaPrompt, Belief, complete_fields, decide_bets, read_arena_prompt
from bellwether.sandbox.models.beliefs import Subject, Truth, hash_text
from bellwether.sandbox.models.exchange_tools import ExchangeTools, ToolUse, choose_trader, read_exchange_tools
from bellwether.sandbox.models.request import ChatRequest
from bellwether.sandbox.world.random_draws import Purpose, RandomDraws


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

    @cached_property
    def _subject(self) -> Subject:
        return self._truth.subject(self._request.question, self._now)

    @property
    def _manner(self) -> str:
        return self._request.personality.manner

    def _states(self, subject: Subject, sample: int) -> float:
        """Return the probability that the model states about a subject."""
        return self._request.personality.states(subject.probability, self._truth.seed, subject.key, sample)

    def reply(self, sample: int) -> ModelReply:
        """Write answer number `sample`."""
        request = self._request
        if (slip := read_arena_prompt(request)) is not None:
            return self._bet(slip, sample)
        exchange = read_exchange_tools(request)
        if self._manner == "refusing":
            return self._refuse(self._subject.key, as_field=request.json_schema is not None or exchange is not None)
        if exchange is not None:
            return self._trade(exchange, sample)
        return self._forecast(sample)

    def _refuse(self, key: int, *, as_field: bool) -> ModelReply:
        """Write a refusal. as_field: put it into the field `refusal` instead of the text."""
        text = REFUSALS[key % len(REFUSALS)]
        return ModelReply(None, refusal=text) if as_field else ModelReply(text)

    def _bet(self, slip: ArenaPrompt, sample: int) -> ModelReply:
        """Write the decision for an arena prompt (`slip`)."""
        request, truth, personality = self._request, self._truth, self._request.personality
        key = hash_text(request.question)
        if self._manner == "refusing":
            return self._refuse(key, as_field=request.json_schema is not None)

        def belief(market_id: str) -> Belief | None:
            estimate = truth.estimate(market_id, slip.at, self._now)
            if estimate is None:
                return None
            return Belief(estimate.outcome, personality.states(estimate.probability, truth.seed, estimate.key, sample))

        thoughts = f"{len(slip.markets)} markets are listed and {len(slip.positions)} positions can be sold. I act where the price is furthest from what I expect."
        decision = decide_bets(slip, belief, thoughts)
        reasoning = thoughts if personality.reasons else ""
        if request.json_schema is not None and self._manner != "malformed":
            return ModelReply(json.dumps(complete_fields(decision), ensure_ascii=False), reasoning)
        statement = Statement(AnswerFormat(AnswerForm.DECISION, of_yes=True, percent=False), 0.5, thoughts, decision)
        return ModelReply(
            MALFORMED[choose_malformed(key, sample)](statement) if self._manner == "malformed" else statement.text(), reasoning
        )

    def _trade(self, exchange: ExchangeTools, sample: int) -> ModelReply:
        """Write the tool calls of a trading model."""
        request = self._request

        def belief(ticker: str) -> float:
            subject = self._truth.by_id(ticker, self._now, exchange.at) or self._truth.invent(ticker)
            return self._states(subject, sample)

        key = hash_text(f"{request.question}\0{len(request.turns)}\0{sample}")
        calls = choose_trader(self._manner)(exchange, belief, RandomDraws(self._truth.seed, Purpose.MODEL, key))
        thoughts = f"{len(exchange.quotes)} markets are quoted; I call {', '.join(call.name for call in calls) or 'nothing'}."
        return ModelReply(None if calls else thoughts, thoughts if request.personality.reasons else "", calls=tuple(calls))

    def _forecast(self, sample: int) -> ModelReply:
        """Write an answer with a probability, in the requested format."""
        request, subject = self._request, self._subject
        p = self._states(subject, sample)
        thoughts = write_thoughts(p, subject.key)
        wish = read_answer_format(request.instructions, as_object=request.wants_object)
        if request.json_schema is not None and self._manner != "malformed":
            wish = replace(wish, form=AnswerForm.OBJECT, fields=tuple(request.json_schema.get("properties", ())))
        statement = Statement(wish, p, thoughts, thinks=not request.personality.reasons)
        text = MALFORMED[choose_malformed(subject.key, sample)](statement) if self._manner == "malformed" else statement.text()
        return ModelReply(text, thoughts if request.personality.reasons else "")


def cut_reply(reply: ModelReply, room: int) -> ModelReply:
    """Truncate a reply to `room` characters. The reasoning counts first, then the text or the arguments of tool calls."""
    reasoning, room = reply.reasoning[:room], max(0, room - len(reply.reasoning))
    content = None if reply.content is None else reply.content[:room]
    calls = []
    for call in reply.calls:
        calls.append(ToolUse(call.name, call.arguments[:room]))
        room = max(0, room - len(call.arguments))
    return replace(reply, reasoning=reasoning, content=content, calls=tuple(calls))
