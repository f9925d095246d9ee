"""How fast models may be asked: limits of a run, calls at a time, and units per minute."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal

from bellwether.errors import ConfigError
from bellwether.journal import Budget, Scope

_MICRO = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a run over all its models; each model's own come from the registry. None is no limit.

    Attributes:
        concurrency: most calls under way at a time.
        requests_per_minute, tokens_per_minute: tokens count prompt and answer.
        dollars, dollars_per_model: hard stops; what attempts under way may cost at most counts as spent.

    Raises `ConfigError` for a limit that is none.
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
        """The budgets that an attempt on `model` (the journal's name of it) must fit into."""
        scopes = ((self.dollars, Scope(run=run)), (self.dollars_per_model, Scope(run=run, model=model)))
        return tuple(Budget(int((limit * _MICRO).to_integral_value(ROUND_FLOOR)), scope) for limit, scope in scopes if limit is not None)


class Slots:
    """Calls at a time: `most`, fewer after the provider turned calls away.

    Halved when it does, and a little wider with each success: additive increase, multiplicative decrease (D.-M. Chiu, R. Jain,
    "Analysis of the Increase and Decrease Algorithms", Computer Networks and ISDN Systems 17, 1989).
    """

    def __init__(self, most: int | None) -> None:
        self._most = float("inf") if most is None else float(most)
        self.width = self._most
        self.taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for a slot, first come, first served."""
        if self._is_free() and not self._waiting:
            self.taken += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        """Let the next one go."""
        self.taken -= 1
        self._admit()

    def narrow(self) -> None:
        """Half of what is under way now may be."""
        self.width = max(1.0, min(self.width, float(max(self.taken, 1))) / 2)

    def widen(self) -> None:
        """One more after as many successes as there are slots."""
        if self.width < self._most:
            self.width = min(self._most, self.width + 1 / self.width)
            self._admit()

    def _is_free(self) -> bool:
        return self.taken + 1 <= self.width

    def _admit(self) -> None:
        while self._waiting and self._is_free():
            turn = self._waiting.popleft()
            if not turn.done():
                self.taken += 1
                turn.set_result(None)


class Pace:
    """So many units per minute, evenly: the generic cell rate algorithm (ITU-T I.371) without bursts.

    now: seconds of a clock that does not jump. What was taken can be corrected when the real amount is known.
    """

    def __init__(self, per_minute: int | None, now: Callable[[], float]) -> None:
        self._seconds_per_unit = 60.0 / per_minute if per_minute is not None else 0.0
        self._now = now
        self._free_at = now()
        self._line = asyncio.Lock()

    async def take(self, amount: float, nap: Callable[[float], Awaitable[None]]) -> None:
        """Wait until what was taken before is paid off, then take; `nap` may return early to end the wait."""
        if not self._seconds_per_unit:
            return
        async with self._line:
            wait = self._free_at - self._now()
            if wait > 0:
                await nap(wait)
            self._free_at = max(self._free_at, self._now()) + amount * self._seconds_per_unit

    def correct(self, by: float) -> None:
        """So many units more were used than taken; negative for fewer."""
        self._free_at += by * self._seconds_per_unit
