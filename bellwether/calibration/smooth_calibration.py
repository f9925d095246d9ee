"""Smooth calibration error (smECE; Błasiok & Nakkiran, "Smooth ECE", ICLR 2024): no bins, and a bandwidth equal to the error itself.

With K_s the Gaussian kernel of bandwidth s on [0, 1], reflected at both ends, the error at bandwidth s is

    E(s) = integral over t of |mean of (p - y) K_s(t, p)|,

which decreases in s, and smECE is the s with E(s) = s. Cosines are the eigenfunctions of the reflected kernel: smoothing multiplies the
k-th cosine coefficient of the residuals by exp(-(pi k s)^2 / 2). The residuals are spread over a grid and transformed once; each E(s) then
costs one inverse cosine transform. `modes` cosines resolve bandwidths down to about 1.4 / modes, which is also the minimum smoothing.

The authors' implementation (relplot) truncates the kernel at a distance of 1/2 and counts forecasts of exactly 0 or 1 by half. It agrees for
errors up to about 0.2, and is a few per cent higher above.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bellwether.calibration.forecasts import Floats, Ints
from bellwether.calibration.sorted_forecasts import SortedForecasts

#: Cosines of the point estimate, and their minimum and maximum for its distribution; resolved bandwidths go down to 0.0003 and 0.003.
_MODES, _MIN_MODES, _MAX_MODES = 4096, 64, 512

#: Cosines are omitted if smoothing reduces them below exp(-4.3^2 / 2) = 0.0001 of themselves.
_NEGLIGIBLE = 4.3

#: Cells of the grid per cosine: eight per shortest half-wave, so that spreading widens no resolved kernel by more than 0.1 %.
_CELLS = 8

#: Maximum number of steps to the fixed point, their start, and the step length at which they stop.
_STEPS, _START, _STILL = 16, 0.05, 1e-16

#: Number of floats of one slice of rows; it fits the cache.
_SLICE = 32_768


def smooth_error(ordered: SortedForecasts) -> float:
    """Compute the smECE of sorted forecasts; NaN without a forecast."""
    if not len(ordered.p):
        return float("nan")
    mass, yes = ordered.tally()
    smoother = Smoother.on(ordered.p, _MODES)
    residual = (mass * ordered.p - yes) / mass.sum()
    grid, to_upper = np.zeros((1, smoother.cells)), residual * smoother.share
    np.add.at(grid[0], smoother.lower, residual - to_upper)
    np.add.at(grid[0], smoother.upper, to_upper)
    return float(smoother.error(smoother.coefficients(grid))[0])


@dataclass(frozen=True, slots=True, eq=False)
class Smoother:
    """Smoother of residuals p - y: spreads those of each group of equal forecasts over a grid on [0, 1], and smooths the grid with `modes`
    cosines.

    share: float64 (G,), share of a residual assigned to the upper of its two cells.
    lower, upper: intp (G,), the two cells of each group.
    """

    modes: int
    share: Floats
    lower: Ints
    upper: Ints

    @classmethod
    def on(cls, p: Floats, modes: int) -> Smoother:
        """Build a smoother with `modes` cosines for groups of forecasts with ascending probabilities `p`."""
        cells = _CELLS * modes
        position = p * cells - 0.5
        cell = np.floor(position).astype(np.intp)
        # A residual beyond the middle of the outermost cell is reflected into that cell.
        lower, upper = (np.clip(cell + side, 0, cells - 1) for side in (0, 1))
        return cls(modes, position - cell, lower, upper)

    @classmethod
    def resolving(cls, p: Floats, error: float) -> Smoother:
        """Build a smoother with enough cosines for errors down to about `error`."""
        needed = 1.5 * _NEGLIGIBLE / (np.pi * max(error, 1e-9))
        return cls.on(p, int(np.clip(16 * np.ceil(needed / 16), _MIN_MODES, _MAX_MODES)))

    @property
    def cells(self) -> int:
        """Number of cells of the grid."""
        return _CELLS * self.modes

    def coefficients(self, grid: Floats) -> Floats:
        """Transform residuals on the grid (..., cells) to cosine coefficients (..., modes)."""
        from scipy.fft import dct

        return np.asarray(dct(grid, type=2, axis=-1)[..., : self.modes] / 2)

    def error(self, coefficients: Floats) -> Floats:
        """Compute the smECE of each row of cosine coefficients (R, modes), float64 (R,). They must come from residuals divided by the total
        weight.
        """
        from scipy.fft import dct

        finest = _NEGLIGIBLE / (np.pi * self.modes)
        decay = -0.5 * np.square(np.pi * np.arange(self.modes))
        errors = np.empty(len(coefficients))
        rows = max(1, _SLICE // self.cells)
        for first in range(0, len(coefficients), rows):
            part = coefficients[first : first + rows]

            def at(bandwidth: Floats, part: Floats = part) -> Floats:
                smoothed = part * np.exp(np.square(np.maximum(bandwidth, finest))[:, None] * decay)
                return np.asarray(np.abs(dct(smoothed, type=3, n=2 * self.modes, axis=1)).mean(axis=1))

            errors[first : first + rows] = _fixed_point(at, np.full(len(part), _START))
        return errors


def _fixed_point(error: Callable[[Floats], Floats], start: Floats) -> Floats:
    """Return for each row the s in [0, 1] with error(s) = s. error: function that decreases in s.

    s and error(s) bracket the fixed point, and error(s) - s has a slope of -1 or steeper. So secant steps of such a slope, kept inside the
    bracket, always converge.
    """
    s, low, high = start, np.zeros(len(start)), np.ones(len(start))
    slope = np.full(len(start), -1.3)
    moved = excess = np.zeros(len(start))
    for _ in range(_STEPS):
        value = error(s)
        low, high = np.maximum(low, np.minimum(s, value)), np.minimum(high, np.maximum(s, value))
        change, excess = value - s - excess, value - s
        slope = np.minimum(np.divide(change, moved, out=slope, where=np.abs(moved) > 1e-12), -1.0)
        moved = np.clip(s - excess / slope, low, high) - s
        s = s + moved
        if np.abs(moved).max(initial=0.0) <= _STILL:
            break
    return s
