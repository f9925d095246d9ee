"""Returns of portfolios: profit, percent, drawdown and ranks. Money in integer micro-dollars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Returns:
    """total, profit: micro-dollars. percent: of the initial cash."""

    total: int
    profit: int
    percent: float


def returns(total: int, initial: int) -> Returns:
    """(V - V0) / V0 * 100."""
    return Returns(total, total - initial, (total - initial) / initial * 100)


def pooled(totals: Sequence[int], initial: int) -> Returns | None:
    """Several agents of a family together: summed profit over summed initial cash; None of none."""
    return returns(sum(totals), initial * len(totals)) if totals else None


def drawdown(curve: Sequence[int]) -> float | None:
    """The largest fall from a peak that came before it, as a share of that peak; None without a point. The curve is in the order of time."""
    worst, peak = 0.0, None
    for value in curve:
        peak = value if peak is None or value > peak else peak
        if peak > 0:
            worst = max(worst, (peak - value) / peak)
    return None if peak is None else worst


def ranks(totals: Mapping[str, int]) -> dict[str, int]:
    """1 + the number of strictly larger totals, by name."""
    return {name: 1 + sum(other > total for other in totals.values()) for name, total in totals.items()}
