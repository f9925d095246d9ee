"""Client for model calls, with a journal, rate limits and retries. A call that was answered once is never sent again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from bellwether.errors import BellwetherError, ConfigError, LakeError
from bellwether.journal.journal import Attempt, BudgetExceeded, InFlight, Journal
from bellwether.journal.limits import renewing
from bellwether.journal.records import Records
from bellwether.journal.tables import Budget
from bellwether.journal.values import NO_USAGE, Answered, Busy, CallKey, Failed, Full, Outcome, Reply, Request, Usage
from bellwether.models.keys import Endpoint, endpoints
from bellwether.models.model import Model
from bellwether.models.prices import compute_max_cost
from bellwether.models.response import AttemptResult, Ending, Message, NextStep, ToolCall, decide_next_step, parse_ending, read_reply
from bellwether.models.scheduler import Limits, ModelStats, Retry, RetryCounter, Scheduler, Stopped
from bellwether.models.transport import ModelCall, ProviderWire, Wire
from bellwether.settings import settings
from bellwether.worlds import addresses

__all__ = [
    "Answer",
    "Limits",
    "ModelClient",
    "ModelStats",
    "NoAnswer",
    "Retry",
    "Stopped",
    "WorldModels",
    "build_request",
    "journal_model_name",
]

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

Messages = Sequence[Mapping[str, Any]]

#: Seconds between checks of a call that another process makes: first and maximum.
_POLL, _MAX_POLL = 0.25, 5.0
#: Seconds between checks of a limit that requests in flight reach, maybe those of other processes.
_CHECK_AGAIN = (0.2, 0.6)
#: Seconds beyond the model's timeout in which its reply is stored, until another attempt may begin.
_MARGIN = 15.0
#: Number of attempts to store a reply if the journal cannot be written.
_STORE_ATTEMPTS = 4

_BY_THE_USER = "it was interrupted"


def journal_model_name(model: Model) -> str:
    """Return a model's name in the journal: LiteLLM's id, or for a model at a custom address `id@entry`."""
    return f"{model.model}@{model.name}" if model.api_base is not None else model.model


def build_request(
    model: Model, messages: Messages, *, purpose: str, scope: str = "", sample: int = 0, parameters: Mapping[str, Any] | None = None
) -> Request:
    """Build the request of a call, from which its key in the journal is computed. Arguments are those of `ModelClient.ask`."""
    return Request(journal_model_name(model), messages, purpose, {**model.request_parameters, **(parameters or {})}, scope, sample)


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer, as stored in the journal.

    Attributes:
        key: of the call.
        reply: response of the attempt with the answer.
        attempts: the number of that attempt, from 1.
        spent: usage of all attempts of the call, including failed ones; a sum is None if any part is unknown.
        reused: whether it was taken from the journal without payment.
        tool_calls: tools that the model calls.
        thoughts: fields that the provider requires back in the message with these calls.
    """

    key: CallKey
    reply: Reply
    attempts: int = 1
    spent: Usage = NO_USAGE
    reused: bool = False
    tool_calls: tuple[ToolCall, ...] = ()
    thoughts: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def content(self) -> str:
        """Text of the answer; "" if the model only calls tools."""
        return self.reply.content or ""

    @property
    def ended(self) -> bool:
        """True if the model itself ended the text; False if a limit cut it, or if the finish reason is unknown."""
        return parse_ending(self.reply.finish_reason) is Ending.NORMAL

    @property
    def cut(self) -> bool:
        """True if a limit ended the text, according to the finish reason."""
        return parse_ending(self.reply.finish_reason) is Ending.CUT


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A call without an answer, and the reason.

    Attributes:
        key: of the call.
        outcome, reason: of the last attempt.
        attempts, usage: of all its attempts so far, in this run and earlier ones.
        final: whether the failure is final; otherwise the next run retries the call.
        reused: whether the final failure was taken from the journal.
    """

    key: CallKey
    outcome: Outcome
    reason: str
    attempts: int
    usage: Usage = NO_USAGE
    final: bool = False
    reused: bool = False

    @property
    def without_text(self) -> bool:
        """True if the model responded without usable text (empty, or reasoning only), so that another request may bring it."""
        return self.final and self.outcome in (Outcome.MALFORMED, Outcome.TRUNCATION)


@dataclass(frozen=True, slots=True)
class _Call:
    """Call that is ready to be sent. estimate: maximum cost in micro-dollars; tokens: expected number; budgets: limits on the cost."""

    scheduler: Scheduler
    request: Request
    content: ModelCall
    estimate: int | None
    tokens: float
    budgets: tuple[Budget, ...]


@dataclass(frozen=True, slots=True)
class _Missed:
    """Failed attempt that may be repeated."""

    result: AttemptResult
    decision: NextStep


@dataclass(frozen=True, slots=True)
class _Brought:
    """Final result that an attempt of this client has brought."""

    result: Answered | Failed


_End = Answered | Failed | _Brought | _Missed


class ModelClient:
    """Client that sends a model call once and reuses its answer in all later runs. Use it as an async context manager.

    Any number of calls may be requested at once; limits queue them. On exit, also after an error or a cancelled call, it waits for running requests, which are paid for. If the exit itself is cancelled or
    interrupted, running requests are aborted and their calls released.

    Attributes:
        journal: where calls are claimed, recorded and answered.
        endpoint: returns address and key of a model; its `ConfigError` stops the model.
        run: name under which spending is counted, including earlier runs of this name.
        limits: budgets of the run. retry: bounds of retries.
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
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        now: Callable[[], float] = time.monotonic,
        seed: int | None = None,
    ) -> None:
        self._journal = journal
        self._endpoint = endpoint
        self._run = run
        self._limits = limits or Limits()
        self._retry = retry or Retry()
        self._wire = wire
        self._most_cost = most_cost or compute_max_cost
        self._sleep, self._now, self._rng = sleep, now, Random(seed)
        self._schedulers: dict[str, Scheduler] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._tasks: set[asyncio.Task[_End | Busy | None]] = set()
        self._sent: set[asyncio.Task[_End | Busy | None]] = set()
        self._in_flight: set[Attempt] = set()
        self._is_interrupted = self._is_aborted = False
        #: Operations of the journal in progress.
        self.journal_work: set[asyncio.Future[Any]] = set()

    async def __aenter__(self) -> Self:
        self._one_ended = asyncio.Event()
        self._stack = AsyncExitStack()
        if self._wire is None:
            self._wire = ProviderWire()
        await self._stack.enter_async_context(self._wire)
        await self._stack.enter_async_context(renewing(self._renew, "attempts"))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self._is_aborted = True
            for task in self._tasks:
                task.cancel()
        try:
            while pending := self._tasks | self.journal_work:
                await asyncio.wait(pending)
        finally:
            await self._stack.__aexit__(kind, error, trace)

    def _renew(self) -> None:
        if self._in_flight:
            self._journal.renew(tuple(self._in_flight))

    async def _do(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation of the journal in a thread. It completes even if the caller is cancelled."""
        future = asyncio.get_running_loop().run_in_executor(None, partial(work, *args, **kwargs))
        self.journal_work.add(future)
        future.add_done_callback(self.journal_work.discard)
        return await asyncio.shield(future)

    @property
    def stats(self) -> dict[str, ModelStats]:
        """Statistics by model of the calls of this client, in the order of the models' first calls."""
        return {name: scheduler.stats for name, scheduler in self._schedulers.items()}

    def interrupt(self) -> None:
        """Begin no more attempts with any model. Attempts in progress are completed and stored, because they are paid for.

        From now on `ask` raises `Stopped` for calls without a stored result.
        """
        self._is_interrupted = True
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
            purpose, scope, sample: distinguish calls with the same messages; see `bellwether.journal.values.Request`.
            parameters: in addition to the model's own: response_format, tools, …
            budgets: budgets into which the call must fit, in addition to the limits of the run.

        Raises `Stopped` if no more calls are made to the model, `ConfigError` for an invalid call, and `LakeError` if the journal cannot
        be used.
        """
        scheduler = self._scheduler(model)
        async with scheduler.entrance:
            request = build_request(model, messages, purpose=purpose, scope=scope, sample=sample, parameters=parameters)
            async with scheduler.look_up:
                state = await self._do(self._journal.look, request.key)
            if isinstance(state, Answered | Failed):
                return await self._reuse(scheduler, state)
            call = self._prepare(scheduler, request, messages, budgets)
            match await self._settle(call, state):
                case _Brought(result=brought):
                    return await self._record_result(scheduler, brought)
                case _Missed(result=result):
                    return await self._record_failure(call, result)
                case stored:
                    return await self._reuse(scheduler, stored)

    async def record_once(self, kind: str, subject: str, make: Callable[[], bytes], number: int = 0) -> bytes:
        """Return the bytes of a record of the journal, computed with `make` in a thread and stored if they are missing; see `Records.once`."""
        return await self._do(Records(self._journal, self._run).once, kind, subject, make, number)

    def _scheduler(self, model: Model) -> Scheduler:
        """Return the limits and state of a model's calls, created at its first call."""
        scheduler = self._schedulers.get(model.name)
        if scheduler is None:
            scheduler = Scheduler(model, self._journal.limits, retry=self._retry, rng=self._rng, now=self._now, sleep=self._sleep)
            self._schedulers[model.name] = scheduler
            if self._is_interrupted:
                scheduler.stop("interrupted", _BY_THE_USER)
        elif scheduler.model != model:
            raise ConfigError(f"calling {model.name}: the client has already called another entry of this name; use one client for each")
        return scheduler

    def _prepare(self, scheduler: Scheduler, request: Request, messages: Messages, budgets: tuple[Budget, ...]) -> _Call:
        """Complete a call with the model's address, its key, the maximum cost and the budgets."""
        scheduler.check()
        model = scheduler.model
        endpoint = self._endpoints.get(model.name)
        if endpoint is None:
            try:
                endpoint = self._endpoints[model.name] = self._endpoint(model)
            except ConfigError as error:
                raise scheduler.stop("authentication", str(error).removeprefix(f"calling {model.name}: ")) from error
        estimate = self._most_cost(model, messages, request.parameters)
        budgets = (*self._limits.budgets(self._run, request.model), *budgets)
        if estimate is None and budgets:
            raise ConfigError(
                f"calling {model.name} within a budget: the price of {model.model} is unknown; "
                "give input_price and output_price in models.toml"
            )
        guess = scheduler.expected_tokens(len(request.text) // 4 + int(request.parameters.get("max_tokens") or model.max_tokens))
        content = ModelCall(model, endpoint, messages, request.parameters)
        return _Call(scheduler, request, content, estimate, guess, budgets if estimate else ())

    # --- one call, until it is settled -----------------------------------------------------------------------------

    async def _settle(self, call: _Call, state: _End | Busy | None) -> _End:
        """Make attempts until the call has a final result or no more are allowed in this run. While another process makes one, wait for its result.

        state: of the call in the journal; None if an attempt may begin.
        """
        retries, polls = RetryCounter(self._retry, self._rng), 0
        while True:
            if state is None:
                state = await self._send(call)
            elif isinstance(state, Busy):
                await self._sleep(min(_MAX_POLL, _POLL * 2.0 ** min(polls, 10)) * self._rng.uniform(0.5, 1.0))
                polls += 1
                state = await self._do(self._journal.look, call.request.key)
            elif isinstance(state, _Missed) and retries.count_failure(state.result, state.decision):
                await call.scheduler.nap(retries.seconds)
                state = None
            else:
                return state

    async def _send(self, call: _Call) -> _End | Busy | None:
        """Make an attempt in a task of its own. If the caller is cancelled, an attempt that was sent still completes, because it is paid for."""
        if self._is_aborted:
            raise asyncio.CancelledError
        task = asyncio.create_task(self._attempt(call))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task not in self._sent:
                task.cancel()
            raise

    def _ended(self, task: asyncio.Task[_End | Busy | None]) -> None:
        self._tasks.discard(task)
        self._sent.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("model call: %s", type(error).__name__)

    async def _attempt(self, call: _Call) -> _End | Busy | None:
        scheduler, task = call.scheduler, asyncio.current_task()
        assert task is not None
        begun = await self._begin(call)
        if not isinstance(begun, Attempt):
            return begun
        self._sent.add(task)
        self._in_flight.add(begun)
        try:
            result = await self._request(call, begun)
            return await self._store(call, begun, result)
        finally:
            # The journal counts an attempt as in flight until its result is stored.
            self._in_flight.discard(begun)
            scheduler.in_flight -= 1
            self._one_ended.set()
            self._one_ended = asyncio.Event()

    async def _request(self, call: _Call, begun: Attempt) -> AttemptResult:
        """Send the request of an attempt and return its result. The attempt is abandoned if there is none."""
        started = self._now()
        assert self._wire is not None
        try:
            result = await self._wire.send(call.content)
            if result.stop is not None:
                call.scheduler.stop(result.stop.value, result.reason)  # before another call begins
            call.scheduler.record_attempt(result, started=started, tokens=call.tokens)
        except BaseException:
            await self._abandon(begun)
            raise
        return result

    async def _begin(self, call: _Call) -> Attempt | Answered | Busy | Failed:
        """Begin an attempt as soon as the limits allow it. If a budget is exhausted only by estimates of attempts in flight, wait for their costs."""
        scheduler = call.scheduler
        async with scheduler.turn:
            await scheduler.wait_out_pause()
            await scheduler.take_rates(call.tokens)
            while True:
                await scheduler.wait_out_pause()
                one_ended = self._one_ended
                if scheduler.is_full:
                    await scheduler.wait_for(one_ended.wait())
                    continue
                try:
                    begun = await self._begin_in_thread(call)
                except BudgetExceeded as exceeded:
                    if not exceeded.may_pass:
                        raise scheduler.stop("budget", str(exceeded).partition("; ")[0]) from exceeded
                else:
                    if not isinstance(begun, Full):
                        scheduler.in_flight += isinstance(begun, Attempt)
                        return begun
                await scheduler.nap(self._rng.uniform(*_CHECK_AGAIN), one_ended)

    async def _begin_in_thread(self, call: _Call) -> Attempt | Answered | Busy | Failed | Full:
        model = call.scheduler.model
        beginning = asyncio.ensure_future(
            self._do(
                self._journal.begin,
                call.request,
                timeout=timedelta(seconds=model.timeout + _MARGIN),
                run=self._run,
                estimate=call.estimate,
                budgets=call.budgets,
                in_flight=InFlight(model.name, model.concurrency),
            )
        )
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            begun = (await asyncio.gather(beginning, return_exceptions=True))[0]
            if isinstance(begun, Attempt):
                await self._abandon(begun)
            raise

    async def _abandon(self, attempt: Attempt) -> None:
        try:
            await self._do(attempt.abandon, "the run was interrupted")
        except BellwetherError as error:
            log.warning("model call %s: it could not be released: %s", attempt.key[:12], error)

    async def _store(self, call: _Call, attempt: Attempt, result: AttemptResult) -> _End | None:
        """Store the result of an attempt. It is paid for, so failed writes are repeated."""
        decision, scheduler = decide_next_step(result), call.scheduler
        for failures in range(1, _STORE_ATTEMPTS + 1):
            try:
                end = await self._do(_end_attempt, attempt, result, decision)
                break
            except (LakeError, ConfigError):  # an unreachable server looks like an invalid setting
                if failures == _STORE_ATTEMPTS:
                    raise
                await self._sleep(self._retry.wait(failures, self._rng))
        if result.stop is not None:
            raise scheduler.stop(result.stop.value, result.reason)
        if isinstance(end, Answered) and end.attempt != attempt.number:
            return end
        if end is not None:
            return _Brought(end)
        log.info("%s: attempt %d: %s: %s", scheduler.model.name, attempt.number, result.outcome.value, result.reason)
        return None if decision is NextStep.FINAL else _Missed(result, decision)

    # --- results ---------------------------------------------------------------------------------------------------

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

    async def _record_failure(self, call: _Call, result: AttemptResult) -> NoAnswer:
        """Count the call as unanswered in this run, and return its last failure. The next run tries the call again."""
        call.scheduler.stats.unanswered += 1
        call.scheduler.record_failure(f"{result.outcome.value}: {result.reason}")
        attempts, usage = await self._read_usage(call.request.key)
        return NoAnswer(call.request.key, result.outcome, result.reason, attempts, usage)

    async def _build_answer(self, stored: Answered | Failed, *, reused: bool) -> Answer | NoAnswer:
        if isinstance(stored, Failed):
            attempts, usage = await self._read_usage(stored.key)
            return NoAnswer(stored.key, stored.outcome, stored.reason, attempts, usage, final=True, reused=reused)
        reply = stored.reply
        is_only_attempt = stored.attempt == 1 and not stored.late
        message = read_reply(reply.body) if b"_call" in reply.body else Message()
        return Answer(
            stored.key,
            reply,
            attempts=stored.attempt,
            spent=reply.usage if is_only_attempt else (await self._read_usage(stored.key))[1],
            reused=reused,
            tool_calls=message.tool_calls,
            thoughts=message.thoughts if message.tool_calls else {},
        )

    async def _read_usage(self, key: CallKey) -> tuple[int, Usage]:
        return await self._do(self._journal.used, key)


def _end_attempt(attempt: Attempt, result: AttemptResult, decision: NextStep) -> Answered | Failed | None:
    """Record how an attempt ended. Returns the call's result; None if another attempt may follow."""
    if decision is NextStep.ANSWER:
        reply = result.reply
        return attempt.answer(reply if reply.content is not None else replace(reply, content=""))
    outcome = Outcome.MALFORMED if result.outcome is Outcome.OK else result.outcome
    return attempt.fail(outcome, result.reason or "an answer without text", result.reply, final=decision is NextStep.FINAL)


class WorldModels:
    """Source of model clients that use the journal of this process's world. run: name under which costs are counted. dollars: their maximum."""

    def __init__(self, run: str, dollars: Decimal) -> None:
        self._run, self._dollars = run, dollars

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ModelClient]:
        """Open a model client, which is closed at the end of the `async with` block."""
        config, limits = settings(), Limits(dollars=self._dollars)
        with addresses(config, served=False) as venues, Journal.of(config) as journal:
            wire = ProviderWire(sandbox=venues.transport)
            async with ModelClient(journal, endpoint=endpoints(venues.models), run=self._run, limits=limits, wire=wire) as client:
                yield client
