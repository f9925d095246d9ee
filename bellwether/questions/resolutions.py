"""Outcomes of a release as known now: corrected, disputed, void and late resolutions of its questions."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from bellwether.lake import Slice
from bellwether.lake.sql import run_sql
from bellwether.tables.benchmark import RESOLUTIONS

#: Days from the close after which a settlement is late.
LATE_DAYS = 7
#: Version of the rules of `sql/benchmark/resolutions.sql`.
RULES = "resolutions/1"


def resolve_questions(questions: Slice | pl.DataFrame, markets: Slice | pl.DataFrame, resolutions: Slice | pl.DataFrame) -> pl.DataFrame:
    """Look up the outcomes of a release as known now: rows of benchmark/resolutions.

    Args:
        questions: rows of one release in benchmark/questions.
        markets, resolutions: rows of clean/markets and clean/resolutions of all days.
    """
    inputs: Mapping[str, Slice | pl.DataFrame] = {"questions": questions, "markets": markets, "resolutions": resolutions}
    return run_sql(RESOLUTIONS, inputs, {"late_days": LATE_DAYS, "rules": RULES})
