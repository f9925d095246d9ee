"""Comparison of the arena's families (competitors): scores with intervals over events, paired tests, equity and calibration."""

from __future__ import annotations

from bellwether.arena.rankings.inputs import RankingInputs
from bellwether.arena.rankings.tables import compute_rankings

__all__ = ["RankingInputs", "compute_rankings"]
