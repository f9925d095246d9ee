"""Scheduling of the calls of one model: concurrent calls, rates, pauses after rate limits, and the stop after fatal errors."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from bellwether.errors import BellwetherError
from bellwether.journal.values import Outcome, Reply
from bellwether.models.attempt_outcomes import AttemptResult, NextStep
from bellwether.models.limits import Limits, NamedLimits, Retry, Slots
from bellwether.models.model import Model

if TYPE_CHECKING:
    from bellwether.journal.shared_limits import SharedLimits

log = logging.getLogger(__name__)

Kind = Literal["budget", "out_of_credit", "authentication", "unknown_model", "unreachable", "rate_limit", "unavailable", "interrupted"]

#: Maximum number of waiting calls, in addition to those in progress.
_AHEAD = 32
#: Number of calls in the running average of tokens per call.
_MEMORY = 50

_ADVICE: dict[Kind, str] = {
    "budget": "raise the budget and resume: stored answers are not paid again",
    "out_of_credit": "add credit at the provider and resume",
    "authentication": "set the right key and resume",
    "unknown_model": "correct the model's id or address in models.toml and resume",
    "unreachable": "start the server or correct the address (models.toml, network, proxy), and resume",
    "rate_limit": "resume later, or lower the model's limits in models.toml",
    "unavailable": "the provider may be down: resume later",
    "interrupted": "resume: stored answers are not paid again",
}


@dataclass(slots=True)
class ModelStats:
    """Statistics of the calls of one model in this run.

    Attributes:
        asked: sent attempts.
        answered: calls with an answer. reused: answers and final failures from the journal. unanswered: calls without an answer.
        failures: failed attempts, by outcome.
        prompt_tokens, completion_tokens, reasoning_tokens: known counts of all attempts.
        cost: known cost of all attempts, in micro-dollars. unknown_costs: attempts with unknown cost.
        seconds: of all attempts together, from request to reply.
        stopped: why no more calls are made; "" if calls continue.
    """

    asked: int = 0
    answered: int = 0
    reused: int = 0
    unanswered: int = 0
    failures: Counter[Outcome] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cost: int = 0
    unknown_costs: int = 0
    seconds: float = 0.0
    stopped: str = ""

    def count(self, outcome: Outcome, reply: Reply) -> None:
        """Add an attempt that was sent to the statistics."""
        usage = reply.usage
        self.asked += 1
        if outcome is not Outcome.OK:
            self.failures[outcome] += 1
        self.prompt_tokens += usage.prompt_tokens or 0
        self.completion_tokens += usage.completion_tokens or 0
        self.reasoning_tokens += usage.reasoning_tokens or 0
        self.cost += usage.cost or 0
        self.unknown_costs += usage.cost is None
        self.seconds += (reply.latency_ms or 0) / 1000

    def to_dict(self) -> dict[str, Any]:
        """Return the statistics as JSON values."""
        counts = {name: getattr(self, name) for name in self.__slots__}
        return {
            **counts,
            "failures": {outcome.value: count for outcome, count in sorted(self.failures.items())},
            "seconds": round(self.seconds, 1),
        }


class Stopped(BellwetherError):
    """The model is not called any more in this run. Stored results remain valid, and the next run makes the remaining calls.

    kind: budget, out_of_credit, authentication, unknown_model, unreachable (no connection to its endpoint), rate_limit (rejected for too
    long), unavailable (failing for too long) or interrupted (by the user).
    """

    def __init__(self, model: str, kind: Kind, reason: str) -> None:
        self.model, self.kind, self.reason = model, kind, reason
        super().__init__(f"calling {model}: stopped: {reason}; {_ADVICE[kind]}")


class RetryCounter:
    """Count of a call's failed attempts, which decides whether another follows. seconds: wait before the next attempt."""

    def __init__(self, retry: Retry, rng: Random) -> None:
        self._retry, self._rng = retry, rng
        self._failed = self._turned_away = 0
        self.seconds = 0.0

    def count_failure(self, result: AttemptResult, decision: NextStep) -> bool:
        """Count a failed attempt. Return True if another attempt follows in this run.

        After a rate limit `seconds` is 0, because the scheduler pauses all calls of the model.
        """
        limited = result.outcome is Outcome.RATE_LIMIT
        self._turned_away, self._failed = self._turned_away + limited, self._failed + (not limited)
        if decision is not NextStep.AGAIN or self._failed >= self._retry.attempts or self._turned_away >= self._retry.turned_away:
            return False
        self.seconds = 0.0 if limited else self._retry.wait(self._failed, self._rng, result.retry_after)
        return True


class Permit:
    """Permission for one call to be sent: one of the model's slots and one of the run's slots."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._held = self._in_run = True

    def give_back(self) -> None:
        """Free both slots. Does nothing the second time."""
        self.step_aside()
        if self._held:
            self._held = False
            self._scheduler.slots.give_back()

    def step_aside(self) -> None:
        """Free the run's slot while the call waits, so that other models can use it. `step_in` takes a slot again."""
        if self._in_run:
            self._in_run = False
            self._scheduler.run.slots.give_back()

    async def step_in(self) -> None:
        """Wait for a slot of the run and take it again."""
        if not self._in_run:
            await self._scheduler.run.slots.take()
            self._in_run = True


class RunLimits:
    """Limits that all models of a run share. shared: limits across processes; None without a journal on Postgres."""

    def __init__(self, limits: Limits, name: str = "", shared: SharedLimits | None = None) -> None:
        self.shared = shared
        own = NamedLimits(f"run {name}", shared)
        self.slots = own.slots(limits.concurrency)
        self.requests = own.rate("requests", limits.requests_per_minute, burst=1)
        self.tokens = own.rate("tokens", limits.tokens_per_minute)


class Scheduler:
    """Limits and state that all calls of one model share.

    entrance: limits the calls that are looked up or wait, so that the prompts of further calls need not be in memory.
    budget_lock: lock of the call that waits for the reserved rest of a budget; the model's next calls wait for it, other models do not.

    Attributes:
        model, run: the model, and the limits shared with other models.
        retry: bounds of retries.
        rng: random generator of the jitter.
        now, sleep: seconds of a monotonic clock, and a coroutine that waits.
    """

    def __init__(
        self,
        model: Model,
        run: RunLimits,
        *,
        retry: Retry,
        rng: Random,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.model = model
        self.run = run
        self.entrance = Slots(2 * model.concurrency + _AHEAD)
        own = NamedLimits(f"model {model.name}", run.shared)
        self.slots = own.slots(model.concurrency)
        self.budget_lock = asyncio.Lock()
        self.stats = ModelStats()
        self._requests = own.rate("requests", model.requests_per_minute, burst=1)
        self._tokens = own.rate("tokens", model.tokens_per_minute)
        self._retry, self._rng, self._now, self._sleep = retry, rng, now, sleep
        self._stop: Stopped | None = None
        self._stopping = asyncio.Event()
        self._average: float | None = None
        self._paused_until = now()
        self._rounds = self._unconnected = 0
        self._storm_since: float | None = None
        self._failing_since: float | None = None
        self._failed_in_a_row = 0

    # --- before a call ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `Stopped` if the model has been stopped."""
        if self._stop is not None:
            raise Stopped(self._stop.model, self._stop.kind, self._stop.reason)

    def stop(self, kind: Kind, reason: str) -> Stopped:
        """Make no more calls of this model. Returns the error that `check` raises from now on, with the reason of the first stop."""
        if self._stop is None:
            self._stop = Stopped(self.model.name, kind, reason)
            self.stats.stopped = f"{kind}: {reason}"
            self._stopping.set()
            log.warning("%s", self._stop)
        return Stopped(self._stop.model, self._stop.kind, self._stop.reason)

    async def enter(self, tokens: float) -> Permit:
        """Wait until all limits allow one more call, and return its permit. Raises `Stopped`. tokens: expected number for this call."""
        await self.slots.take()
        try:
            await self._take_rates(tokens)
            while not await self._take_run_slot(tokens):
                await self._wait_out_pause()
        except BaseException:
            self.slots.give_back()
            raise
        return Permit(self)

    async def _take_run_slot(self, tokens: float) -> bool:
        """Take a slot of the run. Return False, without a slot, if the model is pausing. Raises `Stopped`."""
        await self.run.slots.take()
        joined = False
        try:
            self.check()
            if self._pause <= 0:
                await self.run.requests.take(1, self._unless_stopped)
                await self.run.tokens.take(tokens, self._unless_stopped)
                self.check()
                joined = self._pause <= 0
        finally:
            if not joined:
                self.run.slots.give_back()
        return joined

    async def _take_rates(self, tokens: float) -> None:
        """Wait until the model's rates allow a call with this number of tokens."""
        await self._wait_out_pause()
        await self._requests.take(1, self._unless_stopped)
        await self._tokens.take(tokens, self._unless_stopped)
        await self._wait_out_pause()

    async def _wait_out_pause(self) -> None:
        """Wait until the model's pause is over. Raises `Stopped`."""
        self.check()
        while self._pause > 0:
            await self.nap(self._pause)
            self.check()

    @property
    def _pause(self) -> float:
        """Seconds until the model's pause ends; 0 or less without a pause."""
        return self._paused_until - self._now()

    async def nap(self, seconds: float) -> None:
        """Wait for `seconds`, but not longer than until the model is stopped."""
        await self._unless_stopped(self._sleep(seconds))

    async def _unless_stopped(self, wait: Awaitable[Any]) -> None:
        """Wait for `wait`, but not longer than until the model is stopped. Raises the exception of `wait`."""
        waiting, stopping = asyncio.ensure_future(wait), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                waiting.result()
        finally:
            waiting.cancel()
            stopping.cancel()

    def expected_tokens(self, guess: int) -> float:
        """Return the expected tokens of the next call: a running average of the model's calls, or `guess` before the first."""
        return guess if self._average is None else self._average

    # --- after a call ----------------------------------------------------------------------------------------------

    def record_attempt(self, result: AttemptResult, *, started: float, tokens: float) -> None:
        """Update statistics, rates and pauses after an attempt. started: seconds of the clock when it began; tokens: expected number."""
        self.stats.count(result.outcome, result.reply)
        self._correct(result, tokens)
        if result.unreachable:
            self._pause_after_connection_error(result, started)
            return
        self._unconnected = 0
        if result.outcome is Outcome.RATE_LIMIT:
            self._pause_after_rate_limit(result, started)
        elif result.reply.http_status is not None:
            self._rounds, self._storm_since = 0, None
            self.slots.widen()

    def _pause_after_connection_error(self, result: AttemptResult, started: float) -> None:
        """Pause all calls of the model after a failed connection.
        Stop the model after `Retry.unreachable` such pauses without any connection between them.
        """
        if started < self._paused_until:
            return
        self._unconnected += 1
        if self._unconnected >= self._retry.unreachable:
            self.stop("unreachable", result.reason)
            return
        self._paused_until = self._now() + self._retry.wait(self._unconnected, self._rng)

    def _correct(self, result: AttemptResult, tokens: float) -> None:
        """Correct rates and the expected tokens by the tokens that an attempt used."""
        usage = result.reply.usage
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            return
        used = usage.prompt_tokens + usage.completion_tokens
        for rate in (self._tokens, self.run.tokens):
            rate.correct(used - tokens)
        average = used if self._average is None else self._average
        self._average = average + (used - average) / min(self.stats.asked + 1, _MEMORY)

    def _pause_after_rate_limit(self, result: AttemptResult, started: float) -> None:
        """Pause all calls of the model, longer with each rejection. Stop the model if rejections last longer than `Retry.patience` seconds."""
        now, requested = self._now(), result.retry_after or 0.0
        self._storm_since = started if self._storm_since is None else self._storm_since
        if now - self._storm_since > self._retry.patience or requested > self._retry.patience:
            when = f"; it asks to come back in {requested:.0f} s" if requested else ""
            self.stop("rate_limit", f"the provider has turned all calls away for {now - self._storm_since:.0f} s ({result.reason}{when})")
            return
        pause = requested
        if started >= self._paused_until:
            self._rounds += 1
            self.slots.narrow()
            pause = self._retry.wait(self._rounds, self._rng, requested)
            log.warning("%s: rate limit: all its calls wait %.1f s (%s)", self.model.name, pause, result.reason)
        self._paused_until = max(self._paused_until, now + pause)

    def record_answer(self) -> None:
        """Record that a call got a final result. The count of failed calls in a row starts again."""
        self._failing_since, self._failed_in_a_row = None, 0

    def record_failure(self, reason: str) -> None:
        """Record a failed call. Stop the model after `Retry.in_a_row` failures in a row that last at least a tenth of `Retry.patience`."""
        self._failed_in_a_row += 1
        self._failing_since = self._now() if self._failing_since is None else self._failing_since
        since = self._now() - self._failing_since
        if self._failed_in_a_row >= self._retry.in_a_row and since >= self._retry.patience / 10:
            self.stop("unavailable", f"{self._failed_in_a_row} calls in a row failed for {since:.0f} s, the last because of: {reason}")
