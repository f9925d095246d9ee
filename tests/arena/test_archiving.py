"""Cohorts that an operator archived: acceptance rows K10, K22 and V18."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from bellwether.arena.methodology import methodologies
from bellwether.arena.rankings import Inputs, rankings
from bellwether.arena.rankings.windows import WINDOWS, equity_in
from bellwether.arena.records import archives, closures
from bellwether.arena.weekly.marking import mark
from bellwether.arena.weekly.operators import archive_cohort
from bellwether.arena.weekly.reading import as_known, cohort_rows, stored
from bellwether.calibration.inference import Inference
from bellwether.errors import ConfigError
from bellwether.tables import arena as tables
from bellwether.tables import table
from bellwether.tables.arena_rankings import INPUTS
from tests.arena.weeks import SEVEN, Arena

FIRST = datetime(2026, 6, 14, 0, 10, tzinfo=UTC)
WEEKS = [FIRST.date() + number * SEVEN for number in range(3)]
OLD = WEEKS[1]


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    """Three live cohorts; the second is archived an hour after the third has decided, and a tick of marks is made then."""
    arena = Arena(tmp_path_factory.mktemp("archived"), lineup="rules")
    for week in WEEKS:
        arena.now = datetime(week.year, week.month, week.day, 0, 10, tzinfo=UTC)
        arena.decide(week)
    arena.now += timedelta(hours=1)
    with arena.journal() as journal:
        archive_cohort(arena.world(journal), OLD, "ann", "its prompts were wrong")
    arena.decide(OLD)
    arena.books()
    with arena.journal() as journal:
        arena.marked = [mark(arena.world(journal))[1], mark(arena.world(journal))[1]]  # type: ignore[attr-defined]
    return arena


@pytest.mark.slow
def test_v18_an_archived_cohort_is_not_marked(arena: Arena) -> None:
    prices = arena.read(tables.PRICES)
    held = arena.read(tables.POSITIONS).filter(status="open").with_columns(cohort=pl.col("agent_id").str.slice(0, 10))
    of_others = set(held.filter(pl.col("cohort") != str(OLD))["market_id"])
    alone = set(held.filter(pl.col("cohort") == str(OLD))["market_id"]) - of_others
    assert alone, "the archived cohort holds something that no other does"
    marked = set(prices["market_id"])
    assert marked <= of_others, "of those, what has a book with both sides"
    assert set(held.filter(pl.col("market_id").is_in(list(marked)))["cohort"]) >= {str(WEEKS[0]), str(WEEKS[2])}
    assert arena.marked == [prices.height, 0], "once"  # type: ignore[attr-defined]


@pytest.mark.slow
def test_k22_an_archived_cohort_is_in_no_ranking_and_there_when_it_is_asked_for(arena: Arena) -> None:
    inputs = Inputs(**{name: arena.read(table(f"arena/{name}")) for name in INPUTS}, cutoffs={})
    found = rankings(inputs, Inference(replicates=0))
    assert found["arena/rankings"].filter(metric="finished", imputation="none")["n"].unique().to_list() == [3 + 1]
    assert found["arena/equity_by_age"].filter(age=0)["n"].unique().to_list() == [2]
    assert equity_in(inputs, WINDOWS["ALL"])["n"].max() == 2
    assert arena.read(tables.LEADERBOARD)["cohorts"].unique().to_list() == [2]
    assert cohort_rows(stored(arena.lake), OLD).height == 4
    before = as_known(arena.lake, methodologies(arena.registry), arena.now - timedelta(minutes=1))
    assert before(tables.AGENTS).filter(week=OLD)["archived_at"].null_count() == 4, "it was not archived by then"
    assert before(tables.LEADERBOARD)["cohorts"].unique().to_list() == [3]


@pytest.mark.slow
def test_an_archived_cohort_decides_no_more_and_the_first_word_stands(arena: Arena) -> None:
    agents = arena.read(tables.AGENTS).filter(week=OLD)
    assert agents["archived_by"].unique().to_list() == ["ann (its prompts were wrong)"]
    assert agents["closed_at"].null_count() == 0
    with arena.journal() as journal:
        world = arena.world(journal)
        again = archive_cohort(world, OLD, "bob", "another reason")
        assert (again.by, again.reason) == ("ann", "its prompts were wrong")
        assert list(archives(world.records)) == [str(OLD)]
        assert sorted(closures(world.records)) == sorted(agents["agent_id"])
        with pytest.raises(ConfigError, match="no cohort started"):
            archive_cohort(world, OLD - 9 * SEVEN, "ann", "why")
        with pytest.raises(ConfigError, match="--reason"):
            archive_cohort(world, OLD, "ann", " ")
