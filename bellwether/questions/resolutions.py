"""Outcomes of a release as known now: corrected, disputed, void and late resolutions of its questions."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from bellwether.lake import Slice
from bellwether.lake.sql import run_sql
from bellwether.questions.release import ReleaseName
from bellwether.tables.benchmark import RESOLUTIONS

#: Days from the close after which a settlement is late.
LATE_DAYS = 7
#: Version of the rules of `sql/benchmark/resolutions.sql`.
RULES = "resolutions/2"


def find_later_versions(questions: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the questions of the later versions of a release. questions: rows of benchmark/questions. name: of the release."""
    own = ReleaseName.parse(name)
    parsed = {release: ReleaseName.parse(release) for release in questions["release"].unique()}
    later = [text for text, other in parsed.items() if other.base == own.base and other.size is None and other.number > own.number]
    return questions.filter(pl.col("release").is_in(later))


def resolve_questions(
    questions: pl.DataFrame, markets: Slice | pl.DataFrame, resolutions: Slice | pl.DataFrame, later: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Look up the outcomes of a release as known now: rows of benchmark/resolutions.

    Args:
        questions: rows of one release in benchmark/questions.
        markets, resolutions: rows of clean/markets and clean/resolutions of all days.
        later: rows of the release's later versions in benchmark/questions, which have the outcomes of an imported release.
    """
    versions = questions.clear() if later is None else later
    inputs: Mapping[str, Slice | pl.DataFrame] = {"questions": questions, "later": versions, "markets": markets, "resolutions": resolutions}
    return run_sql(RESOLUTIONS, inputs, {"late_days": LATE_DAYS, "rules": RULES})
