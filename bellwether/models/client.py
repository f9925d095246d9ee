"""Asks models, each call once: on the journal, within limits, again where that may help, and never twice for what was answered."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, Self

from bellwether.errors import BellwetherError, ConfigError, LakeError
from bellwether.journal import (
    Answered,
    Attempt,
    BudgetExceeded,
    Busy,
    CallKey,
    Claim,
    Failed,
    Journal,
    LeaseLost,
    Outcome,
    Reply,
    Request,
    Usage,
)
from bellwether.journal.facts import NO_USAGE
from bellwether.journal.writer import Urgency, Writer
from bellwether.models.keys import Endpoint
from bellwether.models.lane import Lane, Permit, Run, Stopped
from bellwether.models.limits import Limits
from bellwether.models.model import Model
from bellwether.models.retry import Retry, Verdict, verdict
from bellwether.models.tally import Tally
from bellwether.models.wire.call import Call, Result, ToolCall, Wire

__all__ = ["Answer", "Limits", "ModelClient", "NoAnswer", "Retry", "Stopped", "Tally", "asked_as"]

log = logging.getLogger(__name__)

Messages = Sequence[Mapping[str, Any]]

#: Seconds beyond the model's timeout after which the transport itself is given up, and beyond that until the lease ends.
_GRACE, _LEASE_MARGIN = 5.0, 60.0
#: Seconds between looks at a call that another process asks: the first, and the longest.
_LOOK, _LOOK_CAP = 0.25, 5.0
#: How often an answer is stored again after the journal could not be written.
_STORE_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer, as it is stored in the journal.

    Parameters
    ----------
    key: of the call.
    content: the answer's text; "" where the model only calls tools.
    reasoning: its reasoning, where the provider shows it.
    finish_reason: why it stopped, in the provider's word; `length` and `content_filter` say that the text was cut.
    usage, latency_ms: of the attempt that brought the answer.
    attempts: the number of that attempt, from 1.
    spent: of all attempts of the call, those that failed included; a sum is None as long as a part of it is not known.
    reused: whether it was taken from the journal, and nothing was paid now.
    tool_calls: tools that the model asks for.
    """

    key: CallKey
    content: str
    reasoning: str | None = field(default=None, repr=False)
    finish_reason: str | None = None
    usage: Usage = NO_USAGE
    latency_ms: int | None = None
    attempts: int = 1
    reused: bool = False
    tool_calls: tuple[ToolCall, ...] = ()
    spent: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A call that has no answer, and why.

    Parameters
    ----------
    key: of the call.
    outcome, reason: of the last attempt.
    attempts, usage: of all its attempts so far, in this run and before; what was spent in vain.
    final: whether it was given up for good; otherwise the next run asks again.
    reused: whether it had been given up before.
    """

    key: CallKey
    outcome: Outcome
    reason: str
    attempts: int
    usage: Usage = NO_USAGE
    final: bool = False
    reused: bool = False


@dataclass(frozen=True, slots=True)
class _Asked:
    """One call and what is needed to make it."""

    lane: Lane
    request: Request
    call: Call
    estimate: int | None
    tokens: float

    @property
    def key(self) -> CallKey:
        return self.request.key


@dataclass(frozen=True, slots=True)
class _Missed:
    """An attempt that brought no answer; it is recorded, and the call released or given up."""

    result: Result
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class _Stored:
    """An attempt settled the call."""

    found: Answered | Failed


@dataclass(frozen=True, slots=True)
class _Passed:
    """Somebody else had the call meanwhile; the journal says how it stands."""


_Begun = tuple[Claim, Attempt]
_Landed = Answered | Busy | Failed | _Stored | _Missed | _Passed


def asked_as(model: Model) -> str:
    """The journal's name of a model: its id; at an address of your own also the entry's name, since the id says nothing there."""
    return f"{model.model}@{model.name}" if model.api_base is not None else model.model


class ModelClient:
    """Asks models on a journal; an async context manager. Any number of calls may be asked at once: limits make them wait.

    Leaving it after an error, or after a call was cancelled, waits until requests under way have come back: they are paid for. When it is
    itself cancelled or interrupted, requests under way are cut off and their calls released.

    Parameters
    ----------
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
        self._lanes: dict[str, Lane] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._flights: dict[CallKey, asyncio.Task[_Landed]] = {}
        self._in_the_air: dict[CallKey, str] = {}

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
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None and not issubclass(kind, Exception):
            for flight in self._flights.values():
                flight.cancel()
        try:
            while self._flights:
                await asyncio.wait(list(self._flights.values()))
            await self._writer.settle()
        finally:
            assert self._wire is not None
            await self._wire.__aexit__(kind, error, trace)

    @property
    def tally(self) -> dict[str, Tally]:
        """What was done so far, by model, in the order in which they were first asked."""
        return {name: lane.tally for name, lane in self._lanes.items()}

    async def ask(
        self,
        model: Model,
        messages: Messages,
        *,
        purpose: str,
        scope: str = "",
        sample: int = 0,
        parameters: Mapping[str, Any] | None = None,
    ) -> Answer | NoAnswer:
        """The model's answer, asked for at most once in all runs; or why there is none.

        Parameters
        ----------
        model: whom to ask, with its own parameters.
        messages: OpenAI's form.
        purpose, scope, sample: what tells calls with the same messages apart; see `bellwether.journal.Request`.
        parameters: beside the model's own: response_format, tools, …

        Raises `Stopped` when no more calls are made to the model, `ConfigError` for what cannot be sent, and `LakeError` when the journal
        cannot be used.
        """
        lane = self._lane(model)
        await lane.entrance.take()
        try:
            request = Request(asked_as(model), messages, purpose, {**model.request_parameters, **(parameters or {})}, scope, sample)
            while (flight := self._flights.get(request.key)) is not None:
                await asyncio.wait((flight,))
            found = await self._look(request.key)
            if isinstance(found, Answered | Failed):
                return await self._told(lane, found)
            return await self._ask(self._asked(lane, request, messages), found)
        finally:
            lane.entrance.give_back()

    async def _look(self, key: CallKey) -> Answered | Busy | Failed | None:
        return await self._writer.do(partial(self._journal.look, key), Urgency.LOOK)

    def _lane(self, model: Model) -> Lane:
        lane = self._lanes.get(model.name)
        if lane is None:
            lane = Lane(model, self._shared, retry=self._retry, rng=self._rng, now=self._now, sleep=self._sleep)
            self._lanes[model.name] = lane
        elif lane.model != model:
            raise ConfigError(f"asking {model.name}: the client has asked another entry of this name before; use one client for each")
        return lane

    def _asked(self, lane: Lane, request: Request, messages: Messages) -> _Asked:
        lane.check()
        model = lane.model
        endpoint = self._endpoints.get(model.name)
        if endpoint is None:
            try:
                endpoint = self._endpoints[model.name] = self._endpoint(model)
            except ConfigError as error:
                raise lane.stop("authentication", str(error).removeprefix(f"asking {model.name}: ")) from error
        assert self._most_cost is not None
        estimate = self._most_cost(model, messages, request.parameters)
        if estimate is None and self._limits.budgets(self._run, request.model):
            raise ConfigError(
                f"asking {model.name} within a budget: the price of {model.model} is not known; "
                "give input_price and output_price in models.toml"
            )
        guess = lane.expected_tokens(len(request.text) // 4 + int(request.parameters.get("max_tokens") or model.max_tokens))
        return _Asked(lane, request, Call(model, endpoint, messages, request.parameters), estimate, guess)

    # --- one call, until it is settled -----------------------------------------------------------------------------

    async def _ask(self, asked: _Asked, found: _Landed | None) -> Answer | NoAnswer:
        failed = turned_away = looks = 0
        while True:
            match found:
                case _Stored(found=settled):
                    return await self._end(asked.lane, settled)
                case Answered() | Failed():
                    return await self._told(asked.lane, found)
                case Busy() | _Passed():
                    looks += 1
                    found = await self._look_later(asked.key, looks)
                    continue
                case _Missed(result=result, verdict=judged):
                    limited = result.outcome is Outcome.RATE_LIMIT
                    turned_away, failed = turned_away + limited, failed + (not limited)
                    if judged is not Verdict.AGAIN or failed >= self._retry.attempts or turned_away >= self._retry.turned_away:
                        return await self._miss(asked, result)
                    if not limited:
                        await asked.lane.nap(self._retry.wait(failed, self._rng, result.retry_after))
            found = await self._fly(asked)

    async def _look_later(self, key: CallKey, looks: int) -> Answered | Busy | Failed | None:
        await self._sleep(min(_LOOK_CAP, _LOOK * 2.0 ** min(looks - 1, 10)) * self._rng.uniform(0.5, 1.0))
        return await self._look(key)

    async def _told(self, lane: Lane, found: Answered | Failed) -> Answer | NoAnswer:
        """The journal has the call settled already."""
        lane.tally.reused += 1
        return await self._settled(found, reused=True)

    async def _end(self, lane: Lane, found: Answered | Failed) -> Answer | NoAnswer:
        lane.heard()
        if isinstance(found, Answered):
            lane.tally.answered += 1
        else:
            lane.tally.unanswered += 1
        return await self._settled(found, reused=False)

    async def _miss(self, asked: _Asked, result: Result) -> NoAnswer:
        """The call is left to the next run."""
        asked.lane.tally.unanswered += 1
        asked.lane.missed(f"{result.outcome.value}: {result.reason}")
        attempts, usage = await self._used(asked.key)
        return NoAnswer(asked.key, result.outcome, result.reason, attempts, usage)

    async def _settled(self, found: Answered | Failed, *, reused: bool) -> Answer | NoAnswer:
        if isinstance(found, Failed):
            attempts, usage = await self._used(found.key)
            return NoAnswer(found.key, found.outcome, found.reason, attempts, usage, final=True, reused=reused)
        reply = found.reply
        alone = found.attempt == 1 and not found.late
        return Answer(
            key=found.key,
            content=found.content,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            latency_ms=reply.latency_ms,
            attempts=found.attempt,
            reused=reused,
            tool_calls=_tool_calls(reply.body),
            spent=reply.usage if alone else (await self._used(found.key))[1],
        )

    async def _used(self, key: CallKey) -> tuple[int, Usage]:
        return await self._writer.do(partial(self._journal.used, key), Urgency.LOOK)

    # --- one attempt -----------------------------------------------------------------------------------------------

    async def _fly(self, asked: _Asked) -> _Landed:
        """One attempt, when it may be made. Cancelled, it is called back as long as nothing was sent; what was sent is waited for elsewhere."""
        permit = await asked.lane.enter(asked.tokens)
        if (other := self._flights.get(asked.key)) is not None:
            permit.give_back()
            await asyncio.wait((other,))
            return _Passed()
        flight = self._flights[asked.key] = asyncio.create_task(self._flight(asked, permit))
        flight.add_done_callback(partial(self._landed, asked.key, permit))
        try:
            return await asyncio.shield(flight)
        except asyncio.CancelledError:
            if asked.key not in self._in_the_air:
                flight.cancel()
            raise

    def _landed(self, key: CallKey, permit: Permit, flight: asyncio.Task[_Landed]) -> None:
        permit.give_back()
        self._flights.pop(key, None)
        self._in_the_air.pop(key, None)
        if not flight.cancelled() and (error := flight.exception()) is not None:
            log.debug("model call %s: %s", key[:12], type(error).__name__)

    async def _flight(self, asked: _Asked, permit: Permit) -> _Landed:
        asked.lane.check()
        try:
            begun = await self._begin(asked)
        except LeaseLost:
            return _Passed()
        if not isinstance(begun, tuple):
            return begun
        started = self._now()
        self._in_the_air[asked.key] = asked.lane.model.name
        try:
            result = await self._send(asked.call)
        except BaseException:
            await self._put_back(begun)
            raise
        if result.stop is not None:
            asked.lane.stop(result.stop.value, result.reason)  # before anybody takes the slot
        permit.give_back()
        asked.lane.note(result, started=started, tokens=asked.tokens)
        return await self._store(asked, begun, result)

    async def _begin(self, asked: _Asked) -> _Begun | Answered | Busy | Failed:
        """Claim the call and begin an attempt; while attempts under way hold the rest of a budget, wait for what they really cost."""
        tight = asked.lane.tight
        if not tight.locked():
            try:
                return await self._begun(asked)
            except BudgetExceeded:
                log.debug("%s: the rest of the budget is reserved", asked.lane.model.name)
        async with tight:
            while True:
                asked.lane.check()
                try:
                    return await self._begun(asked)
                except BudgetExceeded as exceeded:
                    beside = self._beside(exceeded)
                    if not beside or exceeded.spending.spent + exceeded.estimate > exceeded.budget.limit:
                        raise asked.lane.stop("budget", str(exceeded).partition("; ")[0]) from exceeded
                await asyncio.wait(beside, return_when=asyncio.FIRST_COMPLETED)

    async def _begun(self, asked: _Asked) -> _Begun | Answered | Busy | Failed:
        work = partial(
            self._journal.begin,
            asked.request,
            lease=timedelta(seconds=asked.lane.model.timeout + _GRACE + _LEASE_MARGIN),
            run=self._run,
            estimate=asked.estimate,
            budgets=self._limits.budgets(self._run, asked.request.model),
        )
        beginning = self._writer.submit(work, Urgency.BEGIN)
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            await self._call_back(beginning)
            raise

    def _beside(self, exceeded: BudgetExceeded) -> list[asyncio.Task[_Landed]]:
        """Flights under way that count towards the budget."""
        of = exceeded.budget.of.model
        return [self._flights[key] for key, name in self._in_the_air.items() if of is None or asked_as(self._lanes[name].model) == of]

    async def _send(self, call: Call) -> Result:
        """What came of it. The transport keeps the model's timeout; should it not, the call ends a little later."""
        assert self._wire is not None
        limit = call.model.timeout + _GRACE
        try:
            async with asyncio.timeout(limit):
                return await self._wire.send(call)
        except TimeoutError:
            return Result(Outcome.TIMEOUT, Reply(latency_ms=round(limit * 1000)), f"no whole answer in {limit:g} seconds")

    async def _store(self, asked: _Asked, begun: _Begun, result: Result) -> _Landed:
        """Record what came of an attempt; money was spent for it, so it is tried again when the journal cannot be written."""
        judged = verdict(result)
        work = partial(_record, begun, result, judged)
        for failures in range(1, _STORE_ATTEMPTS + 1):
            try:
                landed = await self._writer.do(work)
                break
            except LeaseLost:
                return _Passed()
            except LakeError:
                if failures == _STORE_ATTEMPTS:
                    raise
                await self._sleep(self._retry.wait(failures, self._rng))
        if isinstance(landed, _Missed):
            log.info("%s: attempt %d: %s: %s", asked.lane.model.name, begun[1].number, result.outcome.value, result.reason)
        if result.stop is not None:
            raise asked.lane.stop(result.stop.value, result.reason)
        return landed if isinstance(landed, _Missed) else _Stored(landed)

    async def _call_back(self, beginning: asyncio.Future[Any]) -> None:
        """Release a call that was begun, or is being begun, when nobody wants it any more: nothing was sent."""
        try:
            begun = await asyncio.shield(beginning)
        except BellwetherError:
            return
        if isinstance(begun, tuple):
            await self._put_back(begun)

    async def _put_back(self, begun: _Begun) -> None:
        try:
            await self._writer.do(partial(begun[0].release, "the run was interrupted"))
        except BellwetherError as error:
            log.warning("model call %s: it could not be released: %s", begun[0].key[:12], error)


def _record(begun: _Begun, result: Result, judged: Verdict) -> Answered | Failed | _Missed:
    """In the writer's thread: end the attempt, and the call where it is settled."""
    claim, attempt = begun
    if judged is Verdict.ANSWER:
        reply = result.reply
        return attempt.answer(reply if reply.content is not None else replace(reply, content=""))
    outcome = Outcome.MALFORMED if result.outcome is Outcome.OK else result.outcome
    reason = result.reason or "an answer without text"
    attempt.fail(outcome, reason, result.reply)
    if judged is Verdict.FINAL:
        claim.give_up(outcome, reason)
        return Failed(claim.key, outcome, reason, attempt.started_at)
    claim.release(reason, outcome)
    return _Missed(result, judged)


def _tool_calls(body: bytes) -> tuple[ToolCall, ...]:
    if b'"tool_calls"' not in body:
        return ()
    from bellwether.models.wire.message import read_reply

    return read_reply(body).tool_calls
