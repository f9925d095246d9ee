"""One model's traffic: its slots and pace, the pause that a rate limit imposes on all its calls, and whether it was stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Literal

from bellwether.errors import BellwetherError
from bellwether.journal.facts import Outcome
from bellwether.models.limits import Limits, Pace, Slots
from bellwether.models.model import Model
from bellwether.models.retry import Retry
from bellwether.models.stats import ModelStats
from bellwether.models.wire.call import Result

log = logging.getLogger(__name__)

Kind = Literal["budget", "out_of_credit", "authentication", "unknown_model", "unreachable", "rate_limit", "unavailable", "interrupted"]

#: Calls that may wait beside those that can be under way.
_AHEAD = 32
#: The running average of tokens per call forgets what is older than so many calls.
_MEMORY = 50

_ADVICE: dict[Kind, str] = {
    "budget": "raise the budget and resume: nothing that was answered is paid again",
    "out_of_credit": "add credit at the provider and resume",
    "authentication": "set the right key and resume",
    "unknown_model": "correct the model's id or address in models.toml and resume",
    "unreachable": "start the server or correct the address (models.toml, network, proxy), and resume",
    "rate_limit": "resume later, or lower the model's limits in models.toml",
    "unavailable": "the provider may be down: resume later",
    "interrupted": "resume: nothing that was answered is paid again",
}


class Stopped(BellwetherError):
    """No more calls are made to a model in this run; everything done so far is kept, and no call was given up for it.

    kind: budget, out_of_credit, authentication, unknown_model, unreachable (no connection to its endpoint), rate_limit (turned away for too
    long), unavailable (failing for too long) or interrupted (by the user).
    """

    def __init__(self, model: str, kind: Kind, found: str) -> None:
        self.model, self.kind, self.found = model, kind, found
        super().__init__(f"asking {model}: stopped: {found}; {_ADVICE[kind]}")


class Permit:
    """The right to have one call under way, of the model and of the run; given back once."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._held = self._in_run = True

    def give_back(self) -> None:
        """Let others go; again it does nothing."""
        self.step_aside()
        if self._held:
            self._held = False
            self._scheduler.slots.give_back()

    def step_aside(self) -> None:
        """Let other models use the slot of the run, until `step_in`."""
        if self._in_run:
            self._in_run = False
            self._scheduler.run.slots.give_back()

    async def step_in(self) -> None:
        """Wait for a slot of the run again."""
        if not self._in_run:
            await self._scheduler.run.slots.take()
            self._in_run = True


class Run:
    """What all models of a run share."""

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self.slots = Slots(limits.concurrency)
        self.requests = Pace(limits.requests_per_minute, now)
        self.tokens = Pace(limits.tokens_per_minute, now)


class Scheduler:
    """Everything that the calls of one model have in common.

    entrance: those that are looked up, or wait for their turn, are a few more than can be under way: prompts of the others need not be in memory.
    tight: held by the call that waits for what the rest of a budget is reserved for; the model's next ones wait behind it, other models do not.

    Attributes:
        model, run: what is asked, and what its calls share with other models'.
        retry: bounds of asking again.
        rng: draws the jitter.
        now, sleep: seconds of a clock that does not jump, and a coroutine that waits; tests hand in their own.
    """

    def __init__(
        self,
        model: Model,
        run: Run,
        *,
        retry: Retry,
        rng: Random,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.model = model
        self.run = run
        self.entrance = Slots(2 * model.concurrency + _AHEAD)
        self.slots = Slots(model.concurrency)
        self.tight = asyncio.Lock()
        self.stats = ModelStats()
        self._paces = (Pace(model.requests_per_minute, now), Pace(model.tokens_per_minute, now))
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
        """Raise `Stopped` when no more calls are to be made."""
        if self._stop is not None:
            raise Stopped(self._stop.model, self._stop.kind, self._stop.found)

    def stop(self, kind: Kind, found: str) -> Stopped:
        """Make no more calls. Returns what `check` raises from now on, the first reason."""
        if self._stop is None:
            self._stop = Stopped(self.model.name, kind, found)
            self.stats.stopped = f"{kind}: {found}"
            self._stopping.set()
            log.warning("%s", self._stop)
        return Stopped(self._stop.model, self._stop.kind, self._stop.found)

    async def enter(self, tokens: float) -> Permit:
        """Wait for everything that limits calls. Raises `Stopped`."""
        await self.slots.take()
        try:
            await self._pay(tokens)
            while not await self._join(tokens):
                await self._calm()
        except BaseException:
            self.slots.give_back()
            raise
        return Permit(self)

    async def _join(self, tokens: float) -> bool:
        """Take a slot of the run, but not for the time of a pause that began meanwhile: other models can use it. Raises `Stopped`."""
        await self.run.slots.take()
        joined = False
        try:
            self.check()
            if self._pause <= 0:
                await self._pay_run(tokens)
                self.check()
                joined = self._pause <= 0
        finally:
            if not joined:
                self.run.slots.give_back()
        return joined

    async def _pay(self, tokens: float) -> None:
        await self._calm()
        await self._paces[0].take(1, self.nap)
        await self._paces[1].take(tokens, self.nap)
        await self._calm()

    async def _pay_run(self, tokens: float) -> None:
        await self.run.requests.take(1, self.nap)
        await self.run.tokens.take(tokens, self.nap)

    async def _calm(self) -> None:
        """Wait until the provider's pause is over."""
        self.check()
        while self._pause > 0:
            await self.nap(self._pause)
            self.check()

    @property
    def _pause(self) -> float:
        """Seconds until calls may be made again."""
        return self._paused_until - self._now()

    async def nap(self, seconds: float) -> None:
        """Wait, but not beyond the moment in which the model is stopped."""
        if self._stop is not None:
            return
        sleeping = asyncio.ensure_future(self._sleep(seconds))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((sleeping, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            stopping.cancel()

    def expected_tokens(self, guess: int) -> float:
        """Tokens that a call will probably take: as this model's did so far; before the first, the guess."""
        return guess if self._average is None else self._average

    # --- after a call ----------------------------------------------------------------------------------------------

    def note(self, result: Result, *, started: float, tokens: float) -> None:
        """Learn from what came of an attempt that started then and was expected to take so many tokens."""
        self.stats.count(result.outcome, result.reply)
        self._correct(result, tokens)
        if result.unreachable:
            self._not_connected(result, started)
            return
        self._unconnected = 0
        if result.outcome is Outcome.RATE_LIMIT:
            self._turned_away(result, started)
        elif result.reply.http_status is not None:
            self._rounds, self._storm_since = 0, None
            self.slots.widen()

    def _not_connected(self, result: Result, started: float) -> None:
        """One pause for all calls after each round of connection errors; stop the model after a few rounds without any connection."""
        if started < self._paused_until:
            return
        self._unconnected += 1
        if self._unconnected >= self._retry.unreachable:
            self.stop("unreachable", result.reason)
            return
        self._paused_until = self._now() + self._retry.wait(self._unconnected, self._rng)

    def _correct(self, result: Result, tokens: float) -> None:
        usage = result.reply.usage
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            return
        used = usage.prompt_tokens + usage.completion_tokens
        for pace in (self._paces[1], self.run.tokens):
            pace.correct(used - tokens)
        known = used if self._average is None else self._average
        self._average = known + (used - known) / min(self.stats.asked + 1, _MEMORY)

    def _turned_away(self, result: Result, started: float) -> None:
        """One pause for all calls of the model, longer with each round of calls that were turned away."""
        now, asked = self._now(), result.retry_after or 0.0
        self._storm_since = started if self._storm_since is None else self._storm_since
        if now - self._storm_since > self._retry.patience or asked > self._retry.patience:
            when = f"; it asks to come back in {asked:.0f} s" if asked else ""
            self.stop("rate_limit", f"the provider has turned all calls away for {now - self._storm_since:.0f} s ({result.reason}{when})")
            return
        pause = asked
        if started >= self._paused_until:
            self._rounds += 1
            self.slots.narrow()
            pause = self._retry.wait(self._rounds, self._rng, asked)
            log.warning("%s: rate limit: all its calls wait %.1f s (%s)", self.model.name, pause, result.reason)
        self._paused_until = max(self._paused_until, now + pause)

    def heard(self) -> None:
        """A call got an answer, or the model's last word."""
        self._failing_since, self._failed_in_a_row = None, 0

    def missed(self, reason: str) -> None:
        """A call ended without an answer; when there are too many for too long, the model is stopped."""
        self._failed_in_a_row += 1
        self._failing_since = self._now() if self._failing_since is None else self._failing_since
        since = self._now() - self._failing_since
        if self._failed_in_a_row >= self._retry.in_a_row and since >= self._retry.patience / 10:
            self.stop("unavailable", f"{self._failed_in_a_row} calls in a row failed for {since:.0f} s, the last because of: {reason}")
