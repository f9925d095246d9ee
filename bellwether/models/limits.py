"""Limits of model calls: budgets, number of concurrent calls, rates per minute, and retries."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from aiolimiter import AsyncLimiter

from bellwether.errors import ConfigError
from bellwether.journal import Budget, Scope
from bellwether.venues.http.retry import compute_delay

if TYPE_CHECKING:
    from bellwether.journal.shared_limits import SharedLimiter, SharedLimits, SharedSlots

_MICRO = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on all calls of a run together. The limits of each model are in the registry. None means no limit.

    Attributes:
        concurrency: maximum number of concurrent calls.
        requests_per_minute, tokens_per_minute: tokens count prompt and answer.
        dollars, dollars_per_model: hard stops; the maximum cost of attempts in progress counts as spent.

    Raises `ConfigError` for an invalid limit.
    """

    concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    dollars: Decimal | None = None
    dollars_per_model: Decimal | None = None

    def __post_init__(self) -> None:
        for name in ("concurrency", "requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigError(f"limits of a run: {name} is {value!r}; give a whole number from 1, or leave it out")
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


class Slots:
    """Slots for concurrent calls: at most `most` are taken at a time, and fewer after the provider has rejected calls.

    Halved on rejection and slightly increased on success: additive increase, multiplicative decrease (D.-M. Chiu, R. Jain,
    "Analysis of the Increase and Decrease Algorithms", Computer Networks and ISDN Systems 17, 1989). aiolimiter limits rates only.
    shared: slots of all processes; each of these slots also takes one of them.
    """

    def __init__(self, most: int | None, shared: SharedSlots | None = None) -> None:
        self._most = float("inf") if most is None else float(most)
        self.width = self._most
        self.taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._shared = shared
        self._held: list[int] = []

    async def take(self) -> None:
        """Wait for a free slot and take it, in the order of the callers."""
        await self._take_own()
        if self._shared is not None:
            try:
                self._held.append(await self._shared.take())
            except BaseException:
                self._give_own_back()
                raise

    def give_back(self) -> None:
        """Free a slot for the next caller."""
        if self._shared is not None:
            self._shared.give_back(self._held.pop())
        self._give_own_back()

    async def _take_own(self) -> None:
        if self._is_free() and not self._waiting:
            self.taken += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_own_back()
            raise

    def _give_own_back(self) -> None:
        self.taken -= 1
        self._admit()

    def narrow(self) -> None:
        """Reduce the number of slots to half of the calls in progress, after a rejection."""
        self.width = max(1.0, min(self.width, float(max(self.taken, 1))) / 2)

    def widen(self) -> None:
        """Increase the number of slots slightly after a success: with n slots, by 1 divided by n."""
        if self.width < self._most:
            self.width = min(self._most, self.width + 1 / self.width)
            self._admit()

    def _is_free(self) -> bool:
        return self.taken + 1 <= self.width

    def _admit(self) -> None:
        """Give free slots to waiting callers."""
        while self._waiting and self._is_free():
            turn = self._waiting.popleft()
            if not turn.done():
                self.taken += 1
                turn.set_result(None)


class Rate:
    """Limit in units per minute, as a leaky bucket. burst: units that can be taken at once; default those of a minute.

    limiter: creates a bucket from its size and the seconds in which it drains.
    """

    def __init__(
        self,
        per_minute: int | None,
        burst: int | None = None,
        limiter: Callable[[float, float], AsyncLimiter | SharedLimiter] = AsyncLimiter,
    ) -> None:
        capacity = burst or per_minute
        self._limiter = limiter(capacity, 60.0 * capacity / per_minute) if per_minute and capacity else None
        self._owed = 0.0

    async def take(self, amount: float, wait: Callable[[Awaitable[Any]], Awaitable[None]]) -> None:
        """Wait until `amount` units are available, and take them. If they exceed the bucket's size, the next calls wait for the rest.

        wait: awaits its argument; it may return early to abandon the wait.
        """
        if self._limiter is None:
            return
        self._owed += amount
        paid = min(max(self._owed, 0.0), self._limiter.max_rate)
        self._owed -= paid
        await wait(self._limiter.acquire(paid))

    def correct(self, by: float) -> None:
        """Make the next call take `by` more units: the actual minus the expected use of an earlier call."""
        self._owed += by


class NamedLimits:
    """Factory of limits that share a name. They hold for all processes on a journal, or without `limits` for this process."""

    def __init__(self, name: str, limits: SharedLimits | None) -> None:
        self._name, self._limits = name, limits

    def slots(self, most: int | None) -> Slots:
        """Return slots for at most `most` concurrent calls."""
        return Slots(most, self._limits.slots(self._name, most) if self._limits and most else None)

    def rate(self, unit: str, per_minute: int | None, burst: int | None = None) -> Rate:
        """Return a limit per minute for `unit`, such as requests or tokens."""
        if self._limits is None:
            return Rate(per_minute, burst)
        return Rate(per_minute, burst, partial(self._limits.limiter, f"{self._name} {unit}"))
