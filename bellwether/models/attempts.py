"""Execution of attempts: claim a model call within its budgets, send the request, and store the result even if the caller is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

from bellwether.errors import BellwetherError, ConfigError, LakeError
from bellwether.journal import (
    Answered,
    Attempt,
    Budget,
    BudgetExceeded,
    Busy,
    CallKey,
    Claim,
    Failed,
    Journal,
    LeaseLost,
    Outcome,
    Request,
)
from bellwether.journal.writer import Urgency, Writer
from bellwether.models.attempt_outcomes import AttemptResult, NextStep, decide_next_step
from bellwether.models.limits import Retry
from bellwether.models.scheduler import Permit, Scheduler
from bellwether.models.transport import ModelCall, Wire

log = logging.getLogger(__name__)

#: Seconds beyond the model's timeout until the lease ends.
_LEASE_MARGIN = 65.0
#: Number of attempts to store an answer if the journal cannot be written.
_STORE_ATTEMPTS = 4
#: Seconds between checks of a budget that is reserved by calls of other processes.
_CHECK_AGAIN = (0.5, 1.5)


@dataclass(frozen=True, slots=True)
class PendingCall:
    """Call that is ready to be sent. estimate: maximum cost in micro-dollars; tokens: expected number; budgets: limits on the cost."""

    scheduler: Scheduler
    request: Request
    call: ModelCall
    estimate: int | None
    tokens: float
    budgets: tuple[Budget, ...] = ()

    @property
    def key(self) -> CallKey:
        """Key of the call in the journal."""
        return self.request.key


@dataclass(frozen=True, slots=True)
class MissedAttempt:
    """Failed attempt that may be repeated. The failure is recorded, and the call is no longer claimed."""

    result: AttemptResult
    decision: NextStep


@dataclass(frozen=True, slots=True)
class SettledCall:
    """Call with a final result that an attempt of this process has just brought."""

    result: Answered | Failed


@dataclass(frozen=True, slots=True)
class TakenCall:
    """Call that another process or another attempt of this process works on. The result will be in the journal."""


BegunAttempt = tuple[Claim, Attempt]
CallEnd = Answered | Busy | Failed | SettledCall | MissedAttempt | TakenCall


class AttemptRunner:
    """Runner of attempts. Once a request is sent, its result is stored even if the caller is cancelled.

    Attributes:
        journal, writer: record the attempts.
        wire: sends attempts.
        run: name under which spending is counted.
        retry, rng, now, sleep: bounds and clock of the client.
    """

    def __init__(
        self,
        journal: Journal,
        writer: Writer,
        wire: Wire,
        *,
        run: str,
        retry: Retry,
        rng: Random,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._journal, self._writer, self._wire = journal, writer, wire
        self._run = run
        self._retry, self._rng, self._now, self._sleep = retry, rng, now, sleep
        self._in_flight: dict[CallKey, asyncio.Task[CallEnd]] = {}
        self._sent: dict[CallKey, str] = {}
        self._ended_count = 0
        self._is_aborted = False

    async def wait_for(self, key: CallKey) -> None:
        """Wait until this process has no attempt at the call in progress."""
        while (task := self._in_flight.get(key)) is not None:
            await asyncio.wait((task,))

    def abort(self) -> None:
        """Cancel all attempts in progress and begin no more. Results that are already complete are still stored."""
        self._is_aborted = True
        for task in self._in_flight.values():
            task.cancel()

    async def settle(self) -> None:
        """Wait until this process has no attempt in progress."""
        while self._in_flight:
            await asyncio.wait(list(self._in_flight.values()))

    async def send(self, pending: PendingCall) -> CallEnd:
        """Wait until the limits allow another attempt, then make it. If the caller is cancelled, an attempt already sent still completes.

        Raises `asyncio.CancelledError` after `abort`.
        """
        permit = await pending.scheduler.enter(pending.tokens)
        if self._is_aborted:
            permit.give_back()
            raise asyncio.CancelledError
        if (other := self._in_flight.get(pending.key)) is not None:
            permit.give_back()
            await asyncio.wait((other,))
            return TakenCall()
        task = self._in_flight[pending.key] = asyncio.create_task(self._attempt(pending, permit))
        task.add_done_callback(partial(self._ended, pending.key, permit))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if pending.key not in self._sent:
                task.cancel()
            raise

    def _ended(self, key: CallKey, permit: Permit, task: asyncio.Task[CallEnd]) -> None:
        """Free the slots of an ended attempt."""
        permit.give_back()
        self._ended_count += 1
        self._in_flight.pop(key, None)
        self._sent.pop(key, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("model call %s: %s", key[:12], type(error).__name__)

    async def _attempt(self, pending: PendingCall, permit: Permit) -> CallEnd:
        pending.scheduler.check()
        try:
            begun = await self._begin(pending, permit)
        except LeaseLost:
            return TakenCall()
        if not isinstance(begun, tuple):
            return begun
        started = self._now()
        self._sent[pending.key] = pending.request.model
        try:
            result = await self._wire.send(pending.call)
        except BaseException:
            await self._release(begun)
            raise
        if result.stop is not None:
            pending.scheduler.stop(result.stop.value, result.reason)  # Before another call takes the slot.
        permit.give_back()
        pending.scheduler.record_attempt(result, started=started, tokens=pending.tokens)
        return await self._store(pending, begun, result)

    async def _begin(self, pending: PendingCall, permit: Permit) -> BegunAttempt | Answered | Busy | Failed:
        """Claim the call and begin an attempt. If a budget is exhausted only by estimates of attempts in progress, wait for their actual costs."""
        lock = pending.scheduler.budget_lock
        if not lock.locked():
            try:
                return await self._begin_in_writer(pending)
            except BudgetExceeded:
                log.debug("%s: the rest of the budget is reserved", pending.scheduler.model.name)
        permit.step_aside()
        hopeless = 0
        async with lock:
            while True:
                await permit.step_in()
                pending.scheduler.check()
                ended = self._ended_count
                try:
                    return await self._begin_in_writer(pending)
                except BudgetExceeded as exceeded:
                    own_attempts = self._own_attempts(exceeded)
                    is_alone = not own_attempts and self._ended_count == ended
                    hopeless = hopeless + 1 if is_alone and not await self._has_others(exceeded) else 0
                    may_fit = exceeded.spending.spent + exceeded.estimate <= exceeded.budget.limit
                    if not may_fit or hopeless > 1:  # The last attempt of other processes may have ended since the budget was summed.
                        raise pending.scheduler.stop("budget", str(exceeded).partition("; ")[0]) from exceeded
                permit.step_aside()
                if own_attempts:
                    await asyncio.wait(own_attempts, return_when=asyncio.FIRST_COMPLETED)
                elif is_alone and not hopeless:
                    await pending.scheduler.nap(self._rng.uniform(*_CHECK_AGAIN))

    async def _begin_in_writer(self, pending: PendingCall) -> BegunAttempt | Answered | Busy | Failed:
        work = partial(
            self._journal.begin,
            pending.request,
            lease=timedelta(seconds=pending.scheduler.model.timeout + _LEASE_MARGIN),
            run=self._run,
            estimate=pending.estimate,
            budgets=pending.budgets,
        )
        beginning = self._writer.submit(work, Urgency.BEGIN)
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            await self._release_begun(beginning)
            raise

    def _own_attempts(self, exceeded: BudgetExceeded) -> list[asyncio.Task[CallEnd]]:
        """Return this process's attempts in progress with the budget's model, or with any model if the budget names none."""
        of = exceeded.budget.of.model
        return [self._in_flight[key] for key, name in self._sent.items() if of in (None, name)]

    async def _has_others(self, exceeded: BudgetExceeded) -> bool:
        """Return True if a process that still runs has an attempt in progress that counts towards the exceeded budget."""
        return await self._writer.do(partial(self._journal.has_others, exceeded.budget.of), Urgency.READ)

    async def _store(self, pending: PendingCall, begun: BegunAttempt, result: AttemptResult) -> CallEnd:
        """Store the result of an attempt in the journal. The attempt is paid for, so failed writes are repeated."""
        decision = decide_next_step(result)
        work = partial(_record_result, begun, result, decision)
        retrying = AsyncRetrying(
            retry=retry_if_exception_type((LakeError, ConfigError)),  # An unreachable server looks like an invalid setting.
            stop=stop_after_attempt(_STORE_ATTEMPTS),
            wait=lambda state: self._retry.wait(state.attempt_number, self._rng),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            end: Answered | Failed | MissedAttempt = await retrying(self._writer.do, work)
        except LeaseLost:
            return TakenCall()
        finally:
            retrying.iter_state.reset()  # its actions refer to themselves and would keep the reply in memory
        if isinstance(end, MissedAttempt):
            log.info("%s: attempt %d: %s: %s", pending.scheduler.model.name, begun[1].number, result.outcome.value, result.reason)
        if result.stop is not None:
            raise pending.scheduler.stop(result.stop.value, result.reason)
        return end if isinstance(end, MissedAttempt) else SettledCall(end)

    async def _release_begun(self, beginning: asyncio.Future[Any]) -> None:
        """Wait until `beginning` has claimed the call, then release it, because its caller was cancelled before the request was sent."""
        try:
            begun = await asyncio.shield(beginning)
        except BellwetherError:
            return
        if isinstance(begun, tuple):
            await self._release(begun)

    async def _release(self, begun: BegunAttempt) -> None:
        try:
            await self._writer.do(partial(begun[0].release, "the run was interrupted"))
        except BellwetherError as error:
            log.warning("model call %s: it could not be released: %s", begun[0].key[:12], error)


def _record_result(begun: BegunAttempt, result: AttemptResult, decision: NextStep) -> Answered | Failed | MissedAttempt:
    """Record how the attempt ended, and if its result is final, end the call. Runs in the journal's thread."""
    claim, attempt = begun
    if decision is NextStep.ANSWER:
        reply = result.reply
        return attempt.answer(reply if reply.content is not None else replace(reply, content=""))
    outcome = Outcome.MALFORMED if result.outcome is Outcome.OK else result.outcome
    reason = result.reason or "an answer without text"
    attempt.fail(outcome, reason, result.reply)
    if decision is NextStep.FINAL:
        claim.give_up(outcome, reason)
        return Failed(claim.key, outcome, reason, attempt.started_at)
    claim.release(reason, outcome)
    return MissedAttempt(result, decision)
