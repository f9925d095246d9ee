"""Drawing of the steps of a market's resolution: proposals, disputes, resolutions and corrections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from bellwether.sandbox.timestamps import DAY, HOUR, MINUTE, SECOND, midnight
from bellwether.sandbox.world.random_draws import RandomDraws

#: The value of yes in tenths of a cent.
YES, NO, HALF = 1000, 0, 500

#: Maximum days from a market's answer to its resolution, and from there to a correction.
LATEST_RESOLUTION, LATEST_CORRECTION = 34, 12

_LIVENESS = 2 * HOUR
_LEGACY_UNTIL = midnight(date(2025, 3, 1))

Legacy = Literal["", "zero", "frayed", "silent"]


@dataclass(frozen=True, slots=True)
class ResolutionStep:
    """State of a market's resolution from the instant `at` on, such as proposed or disputed.

    status, history: UMA's status (None if missing), and all so far. value: proposed or final value of YES; None for a market that ends
    without one. closed: the market is closed.
    """

    at: int
    status: str | None
    history: tuple[str, ...]
    value: int | None
    closed: bool

    @property
    def final(self) -> bool:
        """True if the value is final, not only proposed."""
        return self.closed and self.status in (None, "resolved")


def find_step(steps: Sequence[ResolutionStep], at: int) -> ResolutionStep | None:
    """Return the step that is current at an instant; None before the first step."""
    return next((step for step in reversed(steps) if step.at <= at), None)


def find_close(steps: Sequence[ResolutionStep]) -> int:
    """Return the instant of the first step at which the market is closed."""
    return next(step.at for step in steps if step.closed)


def draw_delay(draw: RandomDraws) -> int:
    """Draw the delay from the answer (when the outcome becomes known) to the first proposal: mostly hours, sometimes days, rarely weeks."""
    luck = draw.unit()
    if luck < 0.82:
        return draw.integer(5 * MINUTE, 4 * HOUR)
    if luck < 0.96:
        return draw.integer(4 * HOUR, 3 * DAY)
    return draw.integer(4 * DAY, 24 * DAY)


def _wrong(value: int, draw: RandomDraws) -> int:
    """Draw a proposed value that differs from the correct one."""
    return YES - value if value != HALF else draw.choose((YES, NO))


def draw_legacy(closes: int, draw: RandomDraws) -> Legacy:
    """Draw which defect the object of an old market has, such as missing statuses; "" for none, which is usual."""
    luck = draw.unit()
    if closes >= _LEGACY_UNTIL or luck > 0.12:
        return ""
    return "zero" if luck < 0.02 else "frayed" if luck < 0.04 else "silent"


def resolve_automatically(answered: int, value: int, draw: RandomDraws) -> tuple[ResolutionStep, ...]:
    """Draw the steps of a resolution by the venue itself, within about a minute of the answer."""
    return (ResolutionStep(answered + draw.integer(10 * SECOND, 90 * SECOND), "resolved", (), value, True),)


def resolve_silently(answered: int, value: int, legacy: Legacy, draw: RandomDraws) -> tuple[ResolutionStep, ...]:
    """Draw the steps of an old market that closed without any status of UMA. legacy: the defect of its object."""
    at = answered + draw.integer(HOUR, 2 * DAY)
    return (ResolutionStep(at, None, (), None if legacy == "zero" else value, True),)


def resolve_by_uma(proposed: int, value: int, draw: RandomDraws) -> tuple[ResolutionStep, ...]:
    """Draw the steps of a resolution by UMA: a proposal, up to two disputes, the resolution, and rarely a correction."""
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
    corrected = draw.chance(0.004)
    steps.append(ResolutionStep(at, "resolved", history, _wrong(value, draw) if corrected else value, True))
    if corrected:
        steps.append(ResolutionStep(at + draw.integer(3 * HOUR, (LATEST_CORRECTION - 1) * DAY), "resolved", history, value, True))
    return tuple(steps)
