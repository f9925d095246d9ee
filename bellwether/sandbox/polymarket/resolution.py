"""Drawing of the steps of a market's resolution: proposals, disputes, resolutions and corrections."""

from __future__ import annotations

from dataclasses import dataclass

from bellwether.sandbox.timestamps import DAY, HOUR, MINUTE, SECOND
from bellwether.sandbox.world.random_draws import RandomDraws

#: The value of yes in tenths of a cent.
YES, NO, HALF = 1000, 0, 500

#: Maximum days from a market's answer to its resolution.
LATEST_RESOLUTION = 34

_LIVENESS = 2 * HOUR


@dataclass(frozen=True, slots=True)
class ResolutionStep:
    """State of a market's resolution from the instant `at` on. status, history: UMA's status, and all so far. value: proposed or final value
    of YES. closed: the market is closed.
    """

    at: int
    status: str
    history: tuple[str, ...]
    value: int
    closed: bool

    @property
    def final(self) -> bool:
        """True if the value is final, not only proposed."""
        return self.status == "resolved"


def draw_delay(draw: RandomDraws) -> int:
    """Draw the delay from the answer (when the outcome becomes known) to the first proposal: mostly hours, sometimes days, rarely weeks."""
    return draw.delay((0.82, 5 * MINUTE, 4 * HOUR), (0.96, 4 * HOUR, 3 * DAY), (1.0, 4 * DAY, 24 * DAY))


def _wrong(value: int, draw: RandomDraws) -> int:
    """Draw a value that differs from the correct one."""
    return YES - value if value != HALF else draw.choose((YES, NO))


def draw_steps(proposed: int, value: int, draw: RandomDraws) -> tuple[ResolutionStep, ...]:
    """Draw the steps of a resolution by UMA: a proposal, up to two disputes, the resolution, and rarely a correction within hours or days."""
    luck = draw.unit()
    disputes = 2 if luck < 0.006 else 1 if luck < 0.03 else 0
    first = _wrong(value, draw) if disputes and draw.chance(0.45) else value
    closes_early = draw.chance(0.2)
    at = proposed
    history: tuple[str, ...] = ("proposed",)
    steps = [ResolutionStep(at, "proposed", history, first, closes_early)]
    for number in range(disputes):
        at += draw.integer(8 * MINUTE, 110 * MINUTE)
        history = (*history, "disputed")
        steps.append(ResolutionStep(at, "disputed", history, first, closes_early))
        if number == 0:
            at += draw.integer(20 * MINUTE, 9 * HOUR)
            history = (*history, "proposed")
            first = first if disputes == 2 else value
            steps.append(ResolutionStep(at, "proposed", history, first, closes_early))
    at += draw.integer(48 * HOUR, 72 * HOUR) if disputes == 2 else _LIVENESS + draw.integer(30 * SECOND, 40 * MINUTE)
    history = (*history, "resolved")
    corrected = draw.chance(0.015)
    steps.append(ResolutionStep(at, "resolved", history, _wrong(value, draw) if corrected else value, True))
    if corrected:
        later = draw.choose((draw.integer(10 * MINUTE, 6 * HOUR), draw.integer(6 * HOUR, 10 * DAY)))
        steps.append(ResolutionStep(at + later, "resolved", history, value, True))
    return tuple(steps)
