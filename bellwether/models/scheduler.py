"""Limits of model calls, and the state that all calls of one model share: rates, pauses after rate limits, and the stop after fatal errors."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from random import Random
from typing import Any, Literal

from bellwether.errors import BellwetherError, ConfigError
from bellwether.journal.limits import SharedLimits
from bellwether.journal.tables import Budget, Scope
from bellwether.journal.values import Outcome, Reply
from bellwether.models.model import Model
from bellwether.models.response import AttemptResult, NextStep
from bellwether.venues.http.retry import compute_delay

log = logging.getLogger(__name__)

Kind = Literal["budget", "out_of_credit", "authentication", "unknown_model", "unreachable", "rate_limit", "unavailable", "interrupted"]

_MICRO = Decimal(1_000_000)
#: Maximum number of waiting calls, in addition to those in progress.
_AHEAD = 32
#: Number of calls in the running average of tokens per call.
_MEMORY = 50

_ADVICE: dict[Kind, str] = {
    "budget": "raise the budget and run again: stored answers are not paid again",
    "out_of_credit": "add credit at the provider and run again",
    "authentication": "set the right key and run again",
    "unknown_model": "correct the model's id or address in models.toml and run again",
    "unreachable": "start the server or correct the address (models.toml, network, proxy), and run again",
    "rate_limit": "run again later, or lower the model's limits in models.toml",
    "unavailable": "the provider may be down: run again later",
    "interrupted": "run again: stored answers are not paid again",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets of all calls of a run together, and of those of each model: hard stops, for which the maximum cost of attempts in progress counts
    as spent. None means no limit. Raises `ConfigError` for an invalid budget.
    """

    dollars: Decimal | None = None
    dollars_per_model: Decimal | None = None

    def __post_init__(self) -> None:
        for name in ("dollars", "dollars_per_model"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Decimal) and value.is_finite() and value >= 0):
                raise ConfigError(f"limits of a run: {name} is {value!r}; give a Decimal from 0, or leave it out")

    def budgets(self, run: str, model: str) -> tuple[Budget, ...]:
        """Return the run's budgets that apply to an attempt with `model` (its name in the journal)."""
        scopes = ((self.dollars, Scope(run=run)), (self.dollars_per_model, Scope(run=run, model=model)))
        return tuple(Budget(int((limit * _MICRO).to_integral_value(ROUND_FLOOR)), scope) for limit, scope in scopes if limit is not None)


@dataclass(frozen=True, slots=True)
class Retry:
    """Rules for retries: number and waiting times, and the conditions under which a model is stopped.

    Attributes:
        attempts: maximum per call and run, without those rejected by a rate limit.
        turned_away: maximum number of attempts per call that are rejected by a rate limit.
        base, cap: seconds of `bellwether.venues.http.retry.compute_delay`, with equal jitter, used if the provider requests no waiting time.
        patience: seconds without any answer after which a model whose calls are rejected or fail is stopped.
        in_a_row: minimum number of failed calls since the last answer before a failing model is stopped.
        unreachable: rounds of connection errors, without any connection between them, after which a model is stopped.
    """

    attempts: int = 4
    turned_away: int = 20
    base: float = 2.0
    cap: float = 60.0
    patience: float = 600.0
    in_a_row: int = 20
    unreachable: int = 3

    def __post_init__(self) -> None:
        for name in ("attempts", "turned_away", "in_a_row", "unreachable"):
            if getattr(self, name) < 1:
                raise ConfigError(f"retries of model calls: {name} is {getattr(self, name)!r}; give a whole number from 1")

    def wait(self, failures: int, rng: Random, requested: float | None = None) -> float:
        """Return the seconds to wait after `failures` failed attempts: those that the provider requested, at most `patience`, otherwise a back-off."""
        return min(requested, self.patience) if requested else compute_delay(failures, rng, base=self.base, cap=self.cap, least=0.5)


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


class Rate:
    """Limit in units per minute, as a bucket that all processes share. burst: units that can be taken at once; default those of a minute.

    is_limited: False without a limit, so that `take` returns at once.
    """

    def __init__(self, buckets: SharedLimits, name: str, per_minute: int | None, burst: int | None = None) -> None:
        self._size = float(burst or per_minute or 0)
        self._bucket = buckets.limiter(name, self._size, 60.0 * self._size / per_minute) if per_minute else None
        self.is_limited, self._owed = self._bucket is not None, 0.0

    async def take(self, amount: float) -> None:
        """Wait until `amount` units are available, and take them. If they exceed the bucket's size, the next calls wait for the rest."""
        if self._bucket is None:
            return
        self._owed += amount
        paid = min(max(self._owed, 0.0), self._size)
        self._owed -= paid
        await self._bucket.acquire(paid)

    def correct(self, by: float) -> None:
        """Make the next call take `by` more units: the actual minus the expected use of an earlier call."""
        self._owed += by


class Scheduler:
    """Limits and state that all calls of one model share.

    Calls begin one after another, in the order in which they take the `turn`: a call that waits for a limit lets the model's next calls wait, and no
    other model's. The number of requests in flight is halved after a rejection and slightly increased by each success: additive increase,
    multiplicative decrease (D.-M. Chiu, R. Jain, "Analysis of the Increase and Decrease Algorithms", Computer Networks and ISDN Systems 17, 1989).

    Attributes:
        model: the model. buckets: of rates, shared by all processes.
        retry: bounds of retries.
        rng: random generator of the jitter.
        now, sleep: seconds of a monotonic clock, and a coroutine that waits.
        entrance: limits the calls that are looked up or wait, so that the prompts of further calls need not be in memory.
        look_up: lock for reading calls from the journal one at a time, so that they begin in the order of their requests.
        in_flight: requests of this process in flight.
    """

    def __init__(
        self,
        model: Model,
        buckets: SharedLimits,
        *,
        retry: Retry,
        rng: Random,
        now: Callable[[], float],
        sleep: Callable[[float], Coroutine[Any, Any, None]],
    ) -> None:
        self.model = model
        self.entrance = asyncio.Semaphore(2 * model.concurrency + _AHEAD)
        self.look_up, self.turn = asyncio.Lock(), asyncio.Lock()
        self.in_flight = 0
        self.stats = ModelStats()
        self._requests = Rate(buckets, f"model {model.name} requests", model.requests_per_minute, burst=1)
        self._tokens = Rate(buckets, f"model {model.name} tokens", model.tokens_per_minute)
        self._width = float(model.concurrency)
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

    async def take_rates(self, tokens: float) -> None:
        """Wait until the rates of the model allow a request with this number of tokens. Raises `Stopped`."""
        for rate, amount in ((self._requests, 1.0), (self._tokens, tokens)):
            if rate.is_limited:
                await self.wait_for(rate.take(amount))
                self.check()

    async def wait_out_pause(self) -> None:
        """Wait until the model's pause is over. Raises `Stopped`."""
        self.check()
        while (pause := self._paused_until - self._now()) > 0:
            await self.nap(pause)
            self.check()

    @property
    def is_full(self) -> bool:
        """True if this process has as many requests in flight as the provider seems to take."""
        return self.in_flight + 1 > self._width

    async def nap(self, seconds: float, event: asyncio.Event | None = None) -> None:
        """Wait for `seconds`, but not longer than until the event happens or the model is stopped."""
        await self.wait_for(self._sleep(seconds), *([] if event is None else [event.wait()]))

    async def wait_for(self, *waits: Coroutine[Any, Any, object]) -> None:
        """Wait for the first of `waits`, but not longer than until the model is stopped. Raises its exception."""
        tasks = [asyncio.ensure_future(wait) for wait in (*waits, self._stopping.wait())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()

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
            self._width = min(float(self.model.concurrency), self._width + 1 / self._width)

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
        self._tokens.correct(used - tokens)
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
            self._width = max(1.0, min(self._width, float(max(self.in_flight, 1))) / 2)
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
