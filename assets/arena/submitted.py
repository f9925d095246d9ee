"""The rows of arena/submissions, as the asset makes them and as commands compare them with the lake."""

from __future__ import annotations

import polars as pl

from bellwether.arena.methodology import methodologies
from bellwether.arena.submissions import submissions_frame
from bellwether.settings import settings


def submitted(universe: pl.DataFrame) -> pl.DataFrame:
    """The submitted forecasts that fit a week of rows of arena/universe."""
    from bellwether.submissions import Submissions

    config = settings()
    return submissions_frame(Submissions(config.submissions_path).read(), universe, methodologies(config.registry))
