"""Smooth calibration error (smECE; Błasiok & Nakkiran, "Smooth ECE", ICLR 2024): no bins, and the bandwidth is the error itself.

With K_s the Gaussian kernel of bandwidth s on [0, 1], reflected at both ends, the error at bandwidth s is

    E(s) = integral over t of |mean of (p - y) K_s(t, p)|,

which decreases in s, and smECE is the s with E(s) = s. Cosines are the eigenfunctions of the reflected kernel: smoothing multiplies the
k-th cosine coefficient of the residuals by exp(-(pi k s)^2 / 2). The residuals are spread over a grid, transformed once, and E(s) then
costs one inverse cosine transform for each s. `modes` cosines resolve bandwidths down to about 1.4 / modes; a finer s is smoothed by that much.

The authors' implementation (relplot) ends the kernel at a distance of 1/2 and counts half of a forecast of exactly 0 or 1. It agrees up to
errors of about 0.2, and gives a few per cent more beyond.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bellwether.calibration.forecasts import Floats, Forecasts, Ints
from bellwether.calibration.ordered import Ordered

#: Cosines of the point estimate, and least and most of them for replicates; most resolve bandwidths down to 0.0003 and 0.003.
_MODES, _LEAST_MODES, _MOST_MODES = 4096, 64, 512

#: A cosine is left out where smoothing shrinks it below exp(-4.3^2 / 2) = 0.0001 of itself.
_NEGLIGIBLE = 4.3

#: Steps to the fixed point: of the point estimate, which starts anywhere, and of replicates, which start at the point estimate.
_STEPS, _STEPS_NEARBY = 16, 6

#: Floats of one slice of replicates, so that a slice stays in the cache.
_SLICE = 32_768


def smooth_ece(p: ArrayLike, y: ArrayLike) -> float | None:
    """Smooth calibration error of forecasts `p` of yes on outcomes `y`, in [0, 1]; None without a forecast.

    Raises `ScoringError` for what cannot be scored.
    """
    error = smooth_error(Ordered.of(Forecasts.of(p, y)))
    return None if np.isnan(error) else error


def smooth_error(ordered: Ordered) -> float:
    """smECE with every forecast counted once; NaN without a forecast."""
    if not len(ordered.p):
        return float("nan")
    mass, yes = ordered.tally()
    start = np.full(1, 0.05)
    return float(Smoother.on(ordered.p, _MODES).error(mass[None], yes[None], start, _STEPS)[0])


@dataclass(frozen=True, slots=True, eq=False)
class Smoother:
    """Spreads groups of equal forecasts over a grid of `nodes` cells and smooths their residuals.

    p: float64 (G,), ascending. share: float64 (G,), of a residual that goes to the upper of its two cells.
    lower, upper: for the two cells of each group: the first group of each distinct cell, and the cell.
    start: where the search for the fixed point begins.
    """

    modes: int
    p: Floats
    share: Floats
    lower: tuple[Ints, Ints]
    upper: tuple[Ints, Ints]
    start: float = 0.0

    @classmethod
    def on(cls, p: Floats, modes: int, start: float = 0.0) -> Smoother:
        """For groups with the forecasts `p`, ascending, and so many cosines."""
        nodes = _nodes(modes)
        position = p * nodes - 0.5
        cell = np.floor(position).astype(np.intp)
        # A residual beyond the outermost cell's middle is reflected into that cell.
        lower, upper = (np.unique(np.clip(cell + side, 0, nodes - 1), return_index=True)[::-1] for side in (0, 1))
        return cls(modes, p, position - cell, lower, upper, start)

    @classmethod
    def near(cls, ordered: Ordered) -> Smoother:
        """For replicates of `ordered`, whose errors are around its own: as many cosines as these need."""
        error = smooth_error(ordered)
        needed = 1.5 * _NEGLIGIBLE / (np.pi * max(error, 1e-9))
        return cls.on(ordered.p, int(np.clip(16 * np.ceil(needed / 16), _LEAST_MODES, _MOST_MODES)), error)

    @property
    def finest(self) -> float:
        """The least bandwidth that so many cosines resolve."""
        return _NEGLIGIBLE / (np.pi * self.modes)

    def replicates(self, mass: Floats, yes: Floats) -> Floats:
        """smECE of each replicate, float64 (R,), from the forecasts and yes outcomes of each group, float64 (R, G); NaN where all are 0."""
        errors = np.empty(len(mass))
        rows = max(1, _SLICE // _nodes(self.modes))
        for first in range(0, len(mass), rows):
            part = slice(first, first + rows)
            start = np.full(len(mass[part]), self.start)
            errors[part] = self.error(mass[part], yes[part], start, _STEPS_NEARBY)
        coarse = errors < self.finest
        if coarse.any() and self.modes < _MOST_MODES:
            finer = Smoother.on(self.p, min(4 * self.modes, _MOST_MODES), self.start)
            errors[coarse] = finer.replicates(mass[coarse], yes[coarse])
        return errors

    def error(self, mass: Floats, yes: Floats, start: Floats, steps: int) -> Floats:
        """As `replicates`, in `steps` steps from `start`, float64 (R,)."""
        from scipy.fft import dct

        size = mass.sum(axis=1)
        residual = np.divide(mass * self.p - yes, size[:, None], out=np.zeros(mass.shape), where=size[:, None] > 0)
        coefficients = dct(self._spread(residual), type=2, axis=1)[:, : self.modes] / 2
        decay = -0.5 * np.square(np.pi * np.arange(self.modes))

        def at(bandwidth: Floats) -> Floats:
            smoothed = coefficients * np.exp(np.square(np.maximum(bandwidth, self.finest))[:, None] * decay)
            return np.abs(dct(smoothed, type=3, n=2 * self.modes, axis=1)).mean(axis=1)

        return np.where(size > 0, _fixed_point(at, start, steps), np.nan)

    def _spread(self, residual: Floats) -> Floats:
        grid = np.zeros((len(residual), _nodes(self.modes)))
        to_upper = residual * self.share
        for part, (first, cell) in ((residual - to_upper, self.lower), (to_upper, self.upper)):
            grid[:, cell] += np.add.reduceat(part, first, axis=1)
        return grid


def _nodes(modes: int) -> int:
    """Cells of the grid: eight to the shortest half-wave, so fine that the spreading widens no resolved kernel by more than 0.1 %."""
    return 8 * modes


def _fixed_point(error: Callable[[Floats], Floats], start: Floats, steps: int) -> Floats:
    """The s in [0, 1] with error(s) = s, per row, for an error that decreases in s.

    s and error(s) lie on two sides of the fixed point, and error(s) - s falls at least as fast as s grows. So secant steps of slope -1
    or steeper, kept inside the bracket, converge from anywhere.
    """
    s, low, high = start, np.zeros(len(start)), np.ones(len(start))
    slope = np.full(len(start), -1.3)
    moved = excess = np.zeros(len(start))
    for _ in range(steps):
        value = error(s)
        low, high = np.maximum(low, np.minimum(s, value)), np.minimum(high, np.maximum(s, value))
        change, excess = value - s - excess, value - s
        slope = np.minimum(np.divide(change, moved, out=slope, where=np.abs(moved) > 1e-12), -1.0)
        moved = np.clip(s - excess / slope, low, high) - s
        s = s + moved
    return s
