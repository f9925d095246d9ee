"""Asks models, each call once: on the journal, within limits, again where that may help, and never twice for what was answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from bellwether.errors import ConfigError
from bellwether.journal import (
    Answered,
    Budget,
    Busy,
    CallKey,
    Failed,
    Journal,
    Outcome,
    Reply,
    Request,
    Usage,
)
from bellwether.journal.facts import NOT_STATED, Served
from bellwether.journal.writer import Urgency, Writer
from bellwether.models.answers import Answer, NoAnswer
from bellwether.models.in_flight import Asked, CallEnd, InFlight, Missed, Passed, Stored
from bellwether.models.keys import Endpoint
from bellwether.models.limits import Limits
from bellwether.models.model import Model
from bellwether.models.retry import Decision, Retry
from bellwether.models.scheduler import Run, Scheduler, Stopped
from bellwether.models.stats import ModelStats
from bellwether.models.wire.call import Call, Result, Wire

if TYPE_CHECKING:
    from bellwether.models.wire.message import Message

__all__ = ["Answer", "Limits", "ModelClient", "ModelStats", "NoAnswer", "Retry", "Stopped", "asked_as", "request_of"]

Messages = Sequence[Mapping[str, Any]]

#: Seconds between looks at a call that another process asks: the first, and the longest.
_LOOK, _LOOK_CAP = 0.25, 5.0

_BY_A_PERSON = "it was interrupted"


def asked_as(model: Model) -> str:
    """The journal's name of a model: its id; at an address of your own also the entry's name, since the id says nothing there."""
    return f"{model.model}@{model.name}" if model.api_base is not None else model.model


def request_of(
    model: Model, messages: Messages, *, purpose: str, scope: str = "", sample: int = 0, parameters: Mapping[str, Any] | None = None
) -> Request:
    """The call as the journal knows it; arguments as in `ModelClient.ask`."""
    return Request(asked_as(model), messages, purpose, {**model.request_parameters, **(parameters or {})}, scope, sample)


class ModelClient:
    """Asks models on a journal; an async context manager. Any number of calls may be asked at once: limits make them wait.

    Leaving it after an error, or after a call was cancelled, waits until requests under way have come back: they are paid for. When it is
    itself cancelled or interrupted, requests under way are cut off and their calls released.

    Attributes:
        journal: where calls are claimed, recorded and answered.
        endpoint: where a model is asked, and with which key; a `ConfigError` of it stops the model.
        run: who pays; budgets count what the run of this name has spent before.
        limits: of the run. retry: bounds of asking again.
        wire: sends calls; the transport of `bellwether.models.wire` when left out.
        most_cost: the most that a call may cost in micro-dollars, None where it is not known; that of `bellwether.models.prices` when left out.
        sleep, now, seed: what it does to the world, for tests: a coroutine that waits, seconds of a clock that does not jump, and of the jitter.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        endpoint: Callable[[Model], Endpoint],
        run: str,
        limits: Limits | None = None,
        retry: Retry | None = None,
        wire: Wire | None = None,
        most_cost: Callable[[Model, Messages, Mapping[str, Any]], int | None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.monotonic,
        seed: int | None = None,
    ) -> None:
        self._journal = journal
        self._endpoint = endpoint
        self._run = run
        self._limits = limits or Limits()
        self._retry = retry or Retry()
        self._wire = wire
        self._most_cost = most_cost
        self._sleep, self._now, self._rng = sleep, now, Random(seed)
        self._schedulers: dict[str, Scheduler] = {}
        self._interrupted = False
        self._endpoints: dict[str, Endpoint] = {}

    async def __aenter__(self) -> Self:
        self._writer = Writer(self._journal)
        self._shared = Run(self._limits, self._now)
        if self._most_cost is None:
            from bellwether.models.prices import most_cost

            self._most_cost = most_cost
        if self._wire is None:
            from bellwether.models.wire import ProviderWire

            self._wire = ProviderWire()
        await self._wire.__aenter__()
        self._in_flight = InFlight(
            self._journal,
            self._writer,
            self._wire,
            run=self._run,
            retry=self._retry,
            rng=self._rng,
            now=self._now,
            sleep=self._sleep,
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self._in_flight.cut_off()
        try:
            await self._in_flight.settle()
            await self._writer.settle()
        finally:
            assert self._wire is not None
            await self._wire.__aexit__(kind, error, trace)

    @property
    def stats(self) -> dict[str, ModelStats]:
        """What was done so far, by model, in the order in which they were first asked."""
        return {name: scheduler.stats for name, scheduler in self._schedulers.items()}

    def interrupt(self) -> None:
        """Begin no more attempts, of any model. Requests under way come back and are stored: they are paid for.

        From now on `ask` raises `Stopped` for what the journal does not have.
        """
        self._interrupted = True
        for scheduler in self._schedulers.values():
            scheduler.stop("interrupted", _BY_A_PERSON)

    async def ask(
        self,
        model: Model,
        messages: Messages,
        *,
        purpose: str,
        scope: str = "",
        sample: int = 0,
        parameters: Mapping[str, Any] | None = None,
        budgets: tuple[Budget, ...] = (),
    ) -> Answer | NoAnswer:
        """The model's answer, asked for at most once in all runs; or why there is none.

        Args:
            model: whom to ask, with its own parameters.
            messages: OpenAI's form.
            purpose, scope, sample: what tells calls with the same messages apart; see `bellwether.journal.Request`.
            parameters: beside the model's own: response_format, tools, …
            budgets: that the call must fit into beside the limits of the run.

        Raises `Stopped` when no more calls are made to the model, `ConfigError` for what cannot be sent, and `LakeError` when the journal
        cannot be used.
        """
        scheduler = self._scheduler(model)
        await scheduler.entrance.take()
        try:
            request = request_of(model, messages, purpose=purpose, scope=scope, sample=sample, parameters=parameters)
            await self._in_flight.end_of(request.key)
            found = await self._look(request.key)
            if isinstance(found, Answered | Failed):
                return await self._told(scheduler, found)
            return await self._ask(self._asked(scheduler, request, messages, budgets), found)
        finally:
            scheduler.entrance.give_back()

    async def _look(self, key: CallKey) -> Answered | Busy | Failed | None:
        return await self._writer.do(partial(self._journal.look, key), Urgency.LOOK)

    def _scheduler(self, model: Model) -> Scheduler:
        scheduler = self._schedulers.get(model.name)
        if scheduler is None:
            scheduler = Scheduler(model, self._shared, retry=self._retry, rng=self._rng, now=self._now, sleep=self._sleep)
            self._schedulers[model.name] = scheduler
            if self._interrupted:
                scheduler.stop("interrupted", _BY_A_PERSON)
        elif scheduler.model != model:
            raise ConfigError(f"asking {model.name}: the client has asked another entry of this name before; use one client for each")
        return scheduler

    def _asked(self, scheduler: Scheduler, request: Request, messages: Messages, budgets: tuple[Budget, ...]) -> Asked:
        scheduler.check()
        model = scheduler.model
        endpoint = self._endpoints.get(model.name)
        if endpoint is None:
            try:
                endpoint = self._endpoints[model.name] = self._endpoint(model)
            except ConfigError as error:
                raise scheduler.stop("authentication", str(error).removeprefix(f"asking {model.name}: ")) from error
        assert self._most_cost is not None
        estimate = self._most_cost(model, messages, request.parameters)
        budgets = (*self._limits.budgets(self._run, request.model), *budgets)
        if estimate is None and budgets:
            raise ConfigError(
                f"asking {model.name} within a budget: the price of {model.model} is not known; "
                "give input_price and output_price in models.toml"
            )
        guess = scheduler.expected_tokens(len(request.text) // 4 + int(request.parameters.get("max_tokens") or model.max_tokens))
        return Asked(scheduler, request, Call(model, endpoint, messages, request.parameters), estimate, guess, budgets if estimate else ())

    # --- one call, until it is settled -----------------------------------------------------------------------------

    async def _ask(self, asked: Asked, found: CallEnd | None) -> Answer | NoAnswer:
        failed = turned_away = looks = 0
        while True:
            match found:
                case Stored(found=settled):
                    return await self._end(asked.scheduler, settled)
                case Answered() | Failed():
                    return await self._told(asked.scheduler, found)
                case Busy() | Passed():
                    looks += 1
                    found = await self._look_later(asked.key, looks)
                    continue
                case Missed(result=result, decision=decision):
                    limited = result.outcome is Outcome.RATE_LIMIT
                    turned_away, failed = turned_away + limited, failed + (not limited)
                    if decision is not Decision.AGAIN or failed >= self._retry.attempts or turned_away >= self._retry.turned_away:
                        return await self._miss(asked, result)
                    if not limited:
                        await asked.scheduler.nap(self._retry.wait(failed, self._rng, result.retry_after))
            found = await self._in_flight.send(asked)

    async def _look_later(self, key: CallKey, looks: int) -> Answered | Busy | Failed | None:
        await self._sleep(min(_LOOK_CAP, _LOOK * 2.0 ** min(looks - 1, 10)) * self._rng.uniform(0.5, 1.0))
        return await self._look(key)

    async def _told(self, scheduler: Scheduler, found: Answered | Failed) -> Answer | NoAnswer:
        """The journal has the call settled already."""
        scheduler.stats.reused += 1
        return await self._settled(found, reused=True)

    async def _end(self, scheduler: Scheduler, found: Answered | Failed) -> Answer | NoAnswer:
        scheduler.heard()
        if isinstance(found, Answered):
            scheduler.stats.answered += 1
        else:
            scheduler.stats.unanswered += 1
        return await self._settled(found, reused=False)

    async def _miss(self, asked: Asked, result: Result) -> NoAnswer:
        """The call is left to the next run."""
        asked.scheduler.stats.unanswered += 1
        asked.scheduler.missed(f"{result.outcome.value}: {result.reason}")
        attempts, usage = await self._used(asked.key)
        return NoAnswer(asked.key, result.outcome, result.reason, attempts, usage)

    async def _settled(self, found: Answered | Failed, *, reused: bool) -> Answer | NoAnswer:
        if isinstance(found, Failed):
            attempts, usage = await self._used(found.key)
            return NoAnswer(found.key, found.outcome, found.reason, attempts, usage, final=True, reused=reused)
        reply = found.reply
        alone = found.attempt == 1 and not found.late
        asked_for = _tools(reply.body)
        return Answer(
            key=found.key,
            content=found.content,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            latency_ms=reply.latency_ms,
            attempts=found.attempt,
            reused=reused,
            tool_calls=asked_for.tool_calls if asked_for else (),
            thoughts=asked_for.thoughts if asked_for else {},
            spent=reply.usage if alone else (await self._used(found.key))[1],
            served=served_by(reply),
        )

    async def _used(self, key: CallKey) -> tuple[int, Usage]:
        return await self._writer.do(partial(self._journal.used, key), Urgency.LOOK)


def served_by(reply: Reply) -> Served:
    """Served model of a stored reply; read from the body for replies that were stored without it."""
    if reply.served != NOT_STATED or b'"model"' not in reply.body:
        return reply.served
    from bellwether.models.wire.message import read_reply
    from bellwether.models.wire.served import served_of

    return served_of(read_reply(reply.body))


def _tools(body: bytes) -> Message | None:
    """The message, where it calls tools."""
    if b'"tool_calls"' not in body:
        return None
    from bellwether.models.wire.message import read_reply

    found = read_reply(body)
    return found if found.tool_calls else None
