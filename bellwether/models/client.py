"""Client for model calls, with a journal, rate limits and retries. A call that was answered once is never sent again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, Self

from tenacity import AsyncRetrying, retry_if_result

from bellwether.errors import ConfigError
from bellwether.journal import (
    Answered,
    Budget,
    Busy,
    CallKey,
    Failed,
    Journal,
    Request,
    Usage,
)
from bellwether.journal.writer import Urgency, Writer
from bellwether.models.attempt_outcomes import AttemptResult
from bellwether.models.attempts import AttemptRunner, CallEnd, MissedAttempt, PendingCall, SettledCall, TakenCall
from bellwether.models.keys import Endpoint
from bellwether.models.limits import Limits, Retry
from bellwether.models.model import Model
from bellwether.models.prices import compute_max_cost
from bellwether.models.response import Answer, Message, NoAnswer, read_reply
from bellwether.models.scheduler import ModelStats, RetryCounter, RunLimits, Scheduler, Stopped
from bellwether.models.transport import ModelCall, ProviderWire, Wire

__all__ = ["Answer", "Limits", "ModelClient", "ModelStats", "NoAnswer", "Retry", "Stopped", "build_request", "journal_model_name"]

Messages = Sequence[Mapping[str, Any]]

#: Seconds between checks of a call that another process makes: first and maximum.
_POLL, _MAX_POLL = 0.25, 5.0

_BY_THE_USER = "it was interrupted"


def journal_model_name(model: Model) -> str:
    """Return a model's name in the journal: LiteLLM's id, or for a model at a custom address `id@entry`."""
    return f"{model.model}@{model.name}" if model.api_base is not None else model.model


def build_request(
    model: Model, messages: Messages, *, purpose: str, scope: str = "", sample: int = 0, parameters: Mapping[str, Any] | None = None
) -> Request:
    """Build the request of a call, from which its key in the journal is computed. Arguments are those of `ModelClient.ask`."""
    return Request(journal_model_name(model), messages, purpose, {**model.request_parameters, **(parameters or {})}, scope, sample)


class ModelClient:
    """Client that sends a model call once and reuses its answer in all later runs. Use it as an async context manager.

    Any number of calls may be requested at once; limits queue them. On exit, also after an error or a cancelled call, it waits for running requests, which are paid for. If the exit itself is cancelled or
    interrupted, running requests are aborted and their calls released.

    Attributes:
        journal: where calls are claimed, recorded and answered.
        endpoint: returns address and key of a model; its `ConfigError` stops the model.
        run: name under which spending is counted, including earlier runs of this name.
        limits: of the run. retry: bounds of retries.
        wire: sends calls; by default `bellwether.models.transport`.
        most_cost: maximum cost of a call in micro-dollars, None if unknown; that of `bellwether.models.prices` by default.
        sleep, now, seed: for tests: a coroutine that waits, seconds of a monotonic clock, and the seed of the jitter.
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
        self._shared = RunLimits(self._limits, self._run, self._journal.shared_limits())
        if self._most_cost is None:
            self._most_cost = compute_max_cost
        if self._wire is None:
            self._wire = ProviderWire()
        await self._wire.__aenter__()
        self._runner = AttemptRunner(
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
            self._runner.abort()
        try:
            await self._runner.settle()
            await self._writer.settle()
        finally:
            if self._shared.shared is not None:
                self._shared.shared.close()
            assert self._wire is not None
            await self._wire.__aexit__(kind, error, trace)

    @property
    def stats(self) -> dict[str, ModelStats]:
        """Statistics by model of the calls of this client, in the order of the models' first calls."""
        return {name: scheduler.stats for name, scheduler in self._schedulers.items()}

    def interrupt(self) -> None:
        """Begin no more attempts with any model. Attempts in progress are completed and stored, because they are paid for.

        From now on `ask` raises `Stopped` for calls without a stored result.
        """
        self._interrupted = True
        for scheduler in self._schedulers.values():
            scheduler.stop("interrupted", _BY_THE_USER)

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
        """Return the model's answer, or the reason for its absence. A call with the same content as an earlier one returns the stored answer.

        Args:
            model: the model, with its own parameters.
            messages: OpenAI's form.
            purpose, scope, sample: distinguish calls with the same messages; see `bellwether.journal.Request`.
            parameters: in addition to the model's own: response_format, tools, …
            budgets: budgets into which the call must fit, in addition to the limits of the run.

        Raises `Stopped` if no more calls are made to the model, `ConfigError` for an invalid call, and `LakeError` if the journal cannot
        be used.
        """
        scheduler = self._scheduler(model)
        await scheduler.entrance.take()
        try:
            request = build_request(model, messages, purpose=purpose, scope=scope, sample=sample, parameters=parameters)
            await self._runner.wait_for(request.key)
            state = await self._look_up(request.key)
            if isinstance(state, Answered | Failed):
                return await self._reuse(scheduler, state)
            return await self._ask(self._prepare(scheduler, request, messages, budgets), state)
        finally:
            scheduler.entrance.give_back()

    async def _look_up(self, key: CallKey) -> Answered | Busy | Failed | None:
        """Return the state of a call in the journal; None if it can be claimed."""
        return await self._writer.do(partial(self._journal.look, key), Urgency.READ)

    def _scheduler(self, model: Model) -> Scheduler:
        """Return the limits and state of a model's calls, created at its first call."""
        scheduler = self._schedulers.get(model.name)
        if scheduler is None:
            scheduler = Scheduler(model, self._shared, retry=self._retry, rng=self._rng, now=self._now, sleep=self._sleep)
            self._schedulers[model.name] = scheduler
            if self._interrupted:
                scheduler.stop("interrupted", _BY_THE_USER)
        elif scheduler.model != model:
            raise ConfigError(f"calling {model.name}: the client has already called another entry of this name; use one client for each")
        return scheduler

    def _prepare(self, scheduler: Scheduler, request: Request, messages: Messages, budgets: tuple[Budget, ...]) -> PendingCall:
        """Complete a call with the model's address, its key, the maximum cost and the budgets."""
        scheduler.check()
        model = scheduler.model
        endpoint = self._endpoints.get(model.name)
        if endpoint is None:
            try:
                endpoint = self._endpoints[model.name] = self._endpoint(model)
            except ConfigError as error:
                raise scheduler.stop("authentication", str(error).removeprefix(f"calling {model.name}: ")) from error
        assert self._most_cost is not None
        estimate = self._most_cost(model, messages, request.parameters)
        budgets = (*self._limits.budgets(self._run, request.model), *budgets)
        if estimate is None and budgets:
            raise ConfigError(
                f"calling {model.name} within a budget: the price of {model.model} is unknown; "
                "give input_price and output_price in models.toml"
            )
        guess = scheduler.expected_tokens(len(request.text) // 4 + int(request.parameters.get("max_tokens") or model.max_tokens))
        return PendingCall(
            scheduler, request, ModelCall(model, endpoint, messages, request.parameters), estimate, guess, budgets if estimate else ()
        )

    # --- one call, until it is settled -----------------------------------------------------------------------------

    async def _ask(self, pending: PendingCall, state: CallEnd | None) -> Answer | NoAnswer:
        match await self._send_with_retries(pending, state):
            case SettledCall(result=settled):
                return await self._record_result(pending.scheduler, settled)
            case MissedAttempt(result=result):
                return await self._record_failure(pending, result)
            case stored:
                return await self._reuse(pending.scheduler, stored)

    async def _send_with_retries(self, pending: PendingCall, state: CallEnd | None) -> Answered | Failed | SettledCall | MissedAttempt:
        """Make attempts until the call has a final result or no more are allowed in this run. state: of the call in the journal, None if free."""
        retries, first = RetryCounter(self._retry, self._rng), [state]

        async def attempt() -> Answered | Failed | SettledCall | MissedAttempt:
            return await self._send_or_poll(pending, first.pop() if first else None)

        retrying = AsyncRetrying(
            retry=retry_if_result(lambda end: isinstance(end, MissedAttempt) and retries.count_failure(end.result, end.decision)),
            wait=lambda state: retries.seconds,
            sleep=pending.scheduler.nap,
        )
        try:
            end: Answered | Failed | SettledCall | MissedAttempt = await retrying(attempt)
        finally:
            retrying.iter_state.reset()  # its actions refer to themselves and would keep the reply in memory
        return end

    async def _send_or_poll(self, pending: PendingCall, state: CallEnd | None) -> Answered | Failed | SettledCall | MissedAttempt:
        """Make one attempt if the call is free (`state` is None). While another process works on it, wait for that process's result instead."""
        polls = 0
        while state is None or isinstance(state, Busy | TakenCall):
            if state is None:
                state = await self._runner.send(pending)
                continue
            await self._sleep(min(_MAX_POLL, _POLL * 2.0 ** min(polls, 10)) * self._rng.uniform(0.5, 1.0))
            polls += 1
            state = await self._look_up(pending.key)
        return state

    async def _reuse(self, scheduler: Scheduler, stored: Answered | Failed) -> Answer | NoAnswer:
        """Return a result that was in the journal before, and count it as reused."""
        scheduler.stats.reused += 1
        return await self._build_answer(stored, reused=True)

    async def _record_result(self, scheduler: Scheduler, result: Answered | Failed) -> Answer | NoAnswer:
        scheduler.record_answer()
        if isinstance(result, Answered):
            scheduler.stats.answered += 1
        else:
            scheduler.stats.unanswered += 1
        return await self._build_answer(result, reused=False)

    async def _record_failure(self, pending: PendingCall, result: AttemptResult) -> NoAnswer:
        """Count the call as unanswered in this run, and return its last failure. The next run tries the call again."""
        pending.scheduler.stats.unanswered += 1
        pending.scheduler.record_failure(f"{result.outcome.value}: {result.reason}")
        attempts, usage = await self._read_usage(pending.key)
        return NoAnswer(pending.key, result.outcome, result.reason, attempts, usage)

    async def _build_answer(self, stored: Answered | Failed, *, reused: bool) -> Answer | NoAnswer:
        if isinstance(stored, Failed):
            attempts, usage = await self._read_usage(stored.key)
            return NoAnswer(stored.key, stored.outcome, stored.reason, attempts, usage, final=True, reused=reused)
        reply = stored.reply
        is_only_attempt = stored.attempt == 1 and not stored.late
        message = read_reply(reply.body) if b"_call" in reply.body else Message()
        return Answer(
            key=stored.key,
            content=stored.content,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            latency_ms=reply.latency_ms,
            attempts=stored.attempt,
            reused=reused,
            tool_calls=message.tool_calls,
            thoughts=message.thoughts if message.tool_calls else {},
            spent=reply.usage if is_only_attempt else (await self._read_usage(stored.key))[1],
            served=reply.served,
        )

    async def _read_usage(self, key: CallKey) -> tuple[int, Usage]:
        return await self._writer.do(partial(self._journal.used, key), Urgency.READ)
