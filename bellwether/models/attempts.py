"""Attempts in progress: claimed, begun within budgets, sent and stored, even if the caller is cancelled."""

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
_LOOK_AGAIN = (0.5, 1.5)


@dataclass(frozen=True, slots=True)
class PendingCall:
    """Call with everything needed to send it. budgets: those into which it must fit."""

    scheduler: Scheduler
    request: Request
    call: ModelCall
    estimate: int | None
    tokens: float
    budgets: tuple[Budget, ...] = ()

    @property
    def key(self) -> CallKey:
        """Key of the call."""
        return self.request.key


@dataclass(frozen=True, slots=True)
class MissedAttempt:
    """Attempt without an answer; it is recorded, and the call released or given up."""

    result: AttemptResult
    decision: NextStep


@dataclass(frozen=True, slots=True)
class SettledCall:
    """Call settled by an attempt."""

    found: Answered | Failed


@dataclass(frozen=True, slots=True)
class TakenCall:
    """Call taken by another process; the journal has its state."""


BegunAttempt = tuple[Claim, Attempt]
CallEnd = Answered | Busy | Failed | SettledCall | MissedAttempt | TakenCall


class AttemptRunner:
    """Runner of attempts. An attempt that was sent is awaited and stored even if its caller is cancelled.

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
        self._is_cut_off = False

    async def end_of(self, key: CallKey) -> None:
        """Wait for the end of an attempt at this call."""
        while (task := self._in_flight.get(key)) is not None:
            await asyncio.wait((task,))

    def cut_off(self) -> None:
        """Cancel all attempts in progress and begin no more; complete replies are stored."""
        self._is_cut_off = True
        for task in self._in_flight.values():
            task.cancel()

    async def settle(self) -> None:
        """Wait until no attempt is in progress."""
        while self._in_flight:
            await asyncio.wait(list(self._in_flight.values()))

    async def send(self, asked: PendingCall) -> CallEnd:
        """Make one attempt when the limits allow it. If cancelled before sending, it is withdrawn; afterwards it still completes.

        After `cut_off` it raises `asyncio.CancelledError`.
        """
        permit = await asked.scheduler.enter(asked.tokens)
        if self._is_cut_off:
            permit.give_back()
            raise asyncio.CancelledError
        if (other := self._in_flight.get(asked.key)) is not None:
            permit.give_back()
            await asyncio.wait((other,))
            return TakenCall()
        task = self._in_flight[asked.key] = asyncio.create_task(self._attempt(asked, permit))
        task.add_done_callback(partial(self._ended, asked.key, permit))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if asked.key not in self._sent:
                task.cancel()
            raise

    def _ended(self, key: CallKey, permit: Permit, task: asyncio.Task[CallEnd]) -> None:
        permit.give_back()
        self._ended_count += 1
        self._in_flight.pop(key, None)
        self._sent.pop(key, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("model call %s: %s", key[:12], type(error).__name__)

    async def _attempt(self, asked: PendingCall, permit: Permit) -> CallEnd:
        asked.scheduler.check()
        try:
            begun = await self._begin(asked, permit)
        except LeaseLost:
            return TakenCall()
        if not isinstance(begun, tuple):
            return begun
        started = self._now()
        self._sent[asked.key] = asked.request.model
        try:
            result = await self._wire.send(asked.call)
        except BaseException:
            await self._put_back(begun)
            raise
        if result.stop is not None:
            asked.scheduler.stop(result.stop.value, result.reason)  # Before another call takes the slot.
        permit.give_back()
        asked.scheduler.note(result, started=started, tokens=asked.tokens)
        return await self._store(asked, begun, result)

    async def _begin(self, asked: PendingCall, permit: Permit) -> BegunAttempt | Answered | Busy | Failed:
        """Claim the call and begin an attempt; while attempts in progress reserve the rest of a budget, wait for their real costs."""
        tight = asked.scheduler.tight
        if not tight.locked():
            try:
                return await self._begun(asked)
            except BudgetExceeded:
                log.debug("%s: the rest of the budget is reserved", asked.scheduler.model.name)
        permit.step_aside()
        hopeless = 0
        async with tight:
            while True:
                await permit.step_in()
                asked.scheduler.check()
                ended = self._ended_count
                try:
                    return await self._begun(asked)
                except BudgetExceeded as exceeded:
                    beside = self._beside(exceeded)
                    is_alone = not beside and self._ended_count == ended
                    hopeless = hopeless + 1 if is_alone and not await self._has_others(exceeded) else 0
                    may_fit = exceeded.spending.spent + exceeded.estimate <= exceeded.budget.limit
                    if not may_fit or hopeless > 1:  # The last attempt of other processes may have ended since the budget was summed.
                        raise asked.scheduler.stop("budget", str(exceeded).partition("; ")[0]) from exceeded
                permit.step_aside()
                if beside:
                    await asyncio.wait(beside, return_when=asyncio.FIRST_COMPLETED)
                elif is_alone and not hopeless:
                    await asked.scheduler.nap(self._rng.uniform(*_LOOK_AGAIN))

    async def _begun(self, asked: PendingCall) -> BegunAttempt | Answered | Busy | Failed:
        work = partial(
            self._journal.begin,
            asked.request,
            lease=timedelta(seconds=asked.scheduler.model.timeout + _LEASE_MARGIN),
            run=self._run,
            estimate=asked.estimate,
            budgets=asked.budgets,
        )
        beginning = self._writer.submit(work, Urgency.BEGIN)
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            await self._call_back(beginning)
            raise

    def _beside(self, exceeded: BudgetExceeded) -> list[asyncio.Task[CallEnd]]:
        """Return this process's attempts in progress that count towards the exceeded budget."""
        of = exceeded.budget.of.model
        return [self._in_flight[key] for key, name in self._sent.items() if of in (None, name)]

    async def _has_others(self, exceeded: BudgetExceeded) -> bool:
        """Return whether attempts of other processes that count towards the budget are in progress."""
        return await self._writer.do(partial(self._journal.has_others, exceeded.budget.of), Urgency.LOOK)

    async def _store(self, asked: PendingCall, begun: BegunAttempt, result: AttemptResult) -> CallEnd:
        """Record a result, with retries if the journal cannot be written, because money was spent."""
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
            log.info("%s: attempt %d: %s: %s", asked.scheduler.model.name, begun[1].number, result.outcome.value, result.reason)
        if result.stop is not None:
            raise asked.scheduler.stop(result.stop.value, result.reason)
        return end if isinstance(end, MissedAttempt) else SettledCall(end)

    async def _call_back(self, beginning: asyncio.Future[Any]) -> None:
        """Release a call whose caller was cancelled before anything was sent."""
        try:
            begun = await asyncio.shield(beginning)
        except BellwetherError:
            return
        if isinstance(begun, tuple):
            await self._put_back(begun)

    async def _put_back(self, begun: BegunAttempt) -> None:
        try:
            await self._writer.do(partial(begun[0].release, "the run was interrupted"))
        except BellwetherError as error:
            log.warning("model call %s: it could not be released: %s", begun[0].key[:12], error)


def _record_result(begun: BegunAttempt, result: AttemptResult, decision: NextStep) -> Answered | Failed | MissedAttempt:
    """End the attempt, and the call if it is settled. Runs in the writer's thread."""
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
