"""Comparison of the arena's families: estimates with intervals over events, paired tests, difficulty, equity and calibration."""

from __future__ import annotations

from bellwether.arena.rankings.rankings import Inputs, rankings

__all__ = ["Inputs", "rankings"]
