"""One attempt at a call: claimed, begun within its budgets, sent, and stored, whatever becomes of who asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

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
)
from bellwether.journal.writer import Urgency, Writer
from bellwether.models.lane import Lane, Permit
from bellwether.models.limits import Limits
from bellwether.models.retry import Retry, Verdict, verdict
from bellwether.models.wire.call import Call, Result, Wire

log = logging.getLogger(__name__)

#: Seconds beyond the model's timeout after which the transport itself is given up, and beyond that until the lease ends.
_GRACE, _LEASE_MARGIN = 5.0, 60.0
#: How often an answer is stored again after the journal could not be written.
_STORE_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class Asked:
    """One call and what is needed to make it."""

    lane: Lane
    request: Request
    call: Call
    estimate: int | None
    tokens: float

    @property
    def key(self) -> CallKey:
        """Key of the call."""
        return self.request.key


@dataclass(frozen=True, slots=True)
class Missed:
    """An attempt that brought no answer; it is recorded, and the call released or given up."""

    result: Result
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Stored:
    """An attempt settled the call."""

    found: Answered | Failed


@dataclass(frozen=True, slots=True)
class Passed:
    """Somebody else had the call meanwhile; the journal says how it stands."""


Begun = tuple[Claim, Attempt]
Landed = Answered | Busy | Failed | Stored | Missed | Passed


class Flights:
    """The attempts that are under way. One that was sent is waited for and stored even when who asked for it is cancelled.

    Attributes:
        journal, writer: where attempts are recorded, and what does so.
        wire: sends them.
        run, limits: who pays, and how much at most.
        retry, rng, now, sleep: bounds and clock of the client.
    """

    def __init__(
        self,
        journal: Journal,
        writer: Writer,
        wire: Wire,
        *,
        run: str,
        limits: Limits,
        retry: Retry,
        rng: Random,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._journal, self._writer, self._wire = journal, writer, wire
        self._run, self._limits = run, limits
        self._retry, self._rng, self._now, self._sleep = retry, rng, now, sleep
        self._flights: dict[CallKey, asyncio.Task[Landed]] = {}
        self._in_the_air: dict[CallKey, str] = {}

    async def end_of(self, key: CallKey) -> None:
        """Wait while an attempt at this call is under way."""
        while (flight := self._flights.get(key)) is not None:
            await asyncio.wait((flight,))

    def cut_off(self) -> None:
        """Call back everything that is under way; what has come back is stored."""
        for flight in self._flights.values():
            flight.cancel()

    async def settle(self) -> None:
        """Wait until nothing is under way."""
        while self._flights:
            await asyncio.wait(list(self._flights.values()))

    async def fly(self, asked: Asked) -> Landed:
        """One attempt, when it may be made. Cancelled, it is called back as long as nothing was sent; what was sent is waited for elsewhere."""
        permit = await asked.lane.enter(asked.tokens)
        if (other := self._flights.get(asked.key)) is not None:
            permit.give_back()
            await asyncio.wait((other,))
            return Passed()
        flight = self._flights[asked.key] = asyncio.create_task(self._flight(asked, permit))
        flight.add_done_callback(partial(self._landed, asked.key, permit))
        try:
            return await asyncio.shield(flight)
        except asyncio.CancelledError:
            if asked.key not in self._in_the_air:
                flight.cancel()
            raise

    def _landed(self, key: CallKey, permit: Permit, flight: asyncio.Task[Landed]) -> None:
        permit.give_back()
        self._flights.pop(key, None)
        self._in_the_air.pop(key, None)
        if not flight.cancelled() and (error := flight.exception()) is not None:
            log.debug("model call %s: %s", key[:12], type(error).__name__)

    async def _flight(self, asked: Asked, permit: Permit) -> Landed:
        asked.lane.check()
        try:
            begun = await self._begin(asked, permit)
        except LeaseLost:
            return Passed()
        if not isinstance(begun, tuple):
            return begun
        started = self._now()
        self._in_the_air[asked.key] = asked.request.model
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

    async def _begin(self, asked: Asked, permit: Permit) -> Begun | Answered | Busy | Failed:
        """Claim the call and begin an attempt; while attempts under way hold the rest of a budget, wait for what they really cost."""
        tight = asked.lane.tight
        if not tight.locked():
            try:
                return await self._begun(asked)
            except BudgetExceeded:
                log.debug("%s: the rest of the budget is reserved", asked.lane.model.name)
        permit.step_aside()
        async with tight:
            while True:
                await permit.step_in()
                asked.lane.check()
                try:
                    return await self._begun(asked)
                except BudgetExceeded as exceeded:
                    beside = self._beside(exceeded)
                    if not beside or exceeded.spending.spent + exceeded.estimate > exceeded.budget.limit:
                        raise asked.lane.stop("budget", str(exceeded).partition("; ")[0]) from exceeded
                permit.step_aside()
                await asyncio.wait(beside, return_when=asyncio.FIRST_COMPLETED)

    async def _begun(self, asked: Asked) -> Begun | Answered | Busy | Failed:
        work = partial(
            self._journal.begin,
            asked.request,
            lease=timedelta(seconds=asked.lane.model.timeout + _GRACE + _LEASE_MARGIN),
            run=self._run,
            estimate=asked.estimate,
            budgets=self._limits.budgets(self._run, asked.request.model) if asked.estimate else (),
        )
        beginning = self._writer.submit(work, Urgency.BEGIN)
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            await self._call_back(beginning)
            raise

    def _beside(self, exceeded: BudgetExceeded) -> list[asyncio.Task[Landed]]:
        """Flights under way that count towards the budget."""
        of = exceeded.budget.of.model
        return [self._flights[key] for key, name in self._in_the_air.items() if of in (None, name)]

    async def _send(self, call: Call) -> Result:
        """What came of it. The transport keeps the model's timeout; should it not, the call ends a little later."""
        limit = call.model.timeout + _GRACE
        try:
            async with asyncio.timeout(limit):
                return await self._wire.send(call)
        except TimeoutError:
            return Result(Outcome.TIMEOUT, Reply(latency_ms=round(limit * 1000)), f"no whole answer in {limit:g} seconds")

    async def _store(self, asked: Asked, begun: Begun, result: Result) -> Landed:
        """Record what came of an attempt; money was spent for it, so it is tried again when the journal cannot be written."""
        judged = verdict(result)
        work = partial(_record, begun, result, judged)
        for failures in range(1, _STORE_ATTEMPTS + 1):
            try:
                landed = await self._writer.do(work)
                break
            except LeaseLost:
                return Passed()
            except (LakeError, ConfigError):  # a server that does not answer looks like one that is set wrong
                if failures == _STORE_ATTEMPTS:
                    raise
                await self._sleep(self._retry.wait(failures, self._rng))
        if isinstance(landed, Missed):
            log.info("%s: attempt %d: %s: %s", asked.lane.model.name, begun[1].number, result.outcome.value, result.reason)
        if result.stop is not None:
            raise asked.lane.stop(result.stop.value, result.reason)
        return landed if isinstance(landed, Missed) else Stored(landed)

    async def _call_back(self, beginning: asyncio.Future[Any]) -> None:
        """Release a call that was begun, or is being begun, when nobody wants it any more: nothing was sent."""
        try:
            begun = await asyncio.shield(beginning)
        except BellwetherError:
            return
        if isinstance(begun, tuple):
            await self._put_back(begun)

    async def _put_back(self, begun: Begun) -> None:
        try:
            await self._writer.do(partial(begun[0].release, "the run was interrupted"))
        except BellwetherError as error:
            log.warning("model call %s: it could not be released: %s", begun[0].key[:12], error)


def _record(begun: Begun, result: Result, judged: Verdict) -> Answered | Failed | Missed:
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
    return Missed(result, judged)
