"""The same weeks run live and reconstructed afterwards. live_and_past.md lists the fields that are equal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.arena.history import LATEST, SOONEST, reconstruct_universe
from bellwether.arena.market import Market
from bellwether.arena.universe import Universe, build_universe
from bellwether.arena.weekly import polymarket
from bellwether.arena.weekly.context import decision_time, preview_universe
from bellwether.arena.weekly.held_prices import reconstruct_prices, store_tick
from bellwether.tables import arena as tables
from bellwether.venues.polymarket import snapshots
from tests.arena.weeks import SEVEN, Arena

pytestmark = pytest.mark.slow

PAGE = Path(__file__).with_name("live_and_past.md")
START = datetime(2026, 3, 1, 0, 7, tzinfo=UTC)
WEEKS, DECIDED = 4, 2
#: Columns that identify a row in both arenas.
SAME = {
    "universe": ["week", "market_id"],
    "agents": ["week", "agent_id"],
    "decisions": ["week", "decision_id"],
    "trades": ["week", "agent_id", "market_id", "side"],
    "evidence": ["market_id"],
    "settlements": ["market_id", "methodology"],
    "prices": ["market_id", "outcome", "at"],
}


class Wide(Arena):
    """Arena of a model and two rules whose universe contains every eligible market."""

    def __post_init__(self) -> None:
        super().__post_init__()
        (self.registry / "methodologies.toml").write_text('[small]\nlike = "v1"\ntitle = "v1"\n')
        (self.registry / "lineups.toml").write_text(
            '[tiny]\ntitle = "a model and two rules"\nmethodology = "small"\nworlds = ["sandbox"]\n\n[tiny.families]\n'
            'calibrated = "sandbox-calibrated"\nproportional = "rule/proportional"\nrandom = "rule/random"\n'
        )


@pytest.fixture(scope="module")
def arenas(tmp_path_factory: pytest.TempPathFactory) -> tuple[Arena, Arena, Universe]:
    """The live arena, its reconstruction, and the universe that the live arena would choose.

    Both use the universe of the reconstruction, restricted to markets whose listing has a price and both sides, because only for these the midpoint of
    the price history equals that of the listing.
    """
    quoted: dict[date, set[str]] = {}
    live, past = (Wide(tmp_path_factory.mktemp(name)) for name in ("live", "past"))
    live.now = START
    with live.journal() as journal:
        largest = preview_universe(live.world(journal), START.date(), "polymarket").universe

    def alike(markets: Sequence[Market], _limit: int, _at: datetime) -> Universe:
        at = decision_time(live.now.date())
        ends = [(one.closes_at, one.market_id, one) for one in markets if one.closes_at and SOONEST <= one.closes_at - at <= LATEST]
        return build_universe([one for *_, one in sorted(ends, key=lambda end: end[:2]) if one.market_id in quoted[at.date()]])

    def of_quoted(rows: Iterable[Mapping[str, Any]], prices: Any, at: datetime, limit: int) -> Universe:
        return reconstruct_universe([row for row in rows if row["market_id"] in quoted[at.date()]], prices, at, limit)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polymarket, "select_universe", alike)
        patch.setattr(polymarket, "reconstruct_universe", of_quoted)
        for number in range(WEEKS):
            live.now = START + number * SEVEN
            sunday = live.now.date()
            if number < DECIDED:
                listed = live._ask(lambda gamma, clob: snapshots.fetch_largest_open(gamma, 10**6)).rows
                quoted[sunday] = {
                    row["market_id"] for row in listed if row["outcome_prices"] and row["best_bid"] and (row["best_ask"] or 1) < 1
                }
                live.decide(sunday, forced=False)
            for hours in (1, 60, 160):
                live.now = START + number * SEVEN + timedelta(hours=hours)
                live.evidence(sunday)
                with live.journal() as journal:
                    store_tick(live.world(journal))
        for number in range(WEEKS):
            sunday = (START + number * SEVEN).date()
            if number < DECIDED:
                past.decide(sunday)
            past.evidence(sunday)
    days = [START.date() + timedelta(days=number) for number in range(7 * WEEKS)]
    with past.journal() as journal:
        for day, rows in reconstruct_prices(past.world(journal), days).items():
            past.lake.write(tables.PRICES, (day.isoformat(),), rows, run_id="test")
    return live, past, largest


def rows_of(arena: Arena, name: str) -> pl.DataFrame:
    """Return the rows of a table, of evidence only the last per market."""
    if name == "settlements":
        return arena.results().frames["arena/settlements"]
    rows = arena.read(getattr(tables, name.upper()))
    return rows.filter("closed").sort("known_at").unique("market_id", keep="last") if name == "evidence" else rows


def classify_fields(live: pl.DataFrame, past: pl.DataFrame, same: list[str]) -> dict[str, str]:
    """Classify each other field of the common rows: equal, empty (in both), missing (in the reconstruction only) or other."""
    both = live.join(past, on=same, suffix="_past")
    assert both.height >= 6
    found = {}
    for name in live.columns:
        if name not in same:
            one, other = both[name], both[f"{name}_past"]
            empty = (one.null_count() == both.height, other.null_count() == both.height)
            equal = one.eq_missing(other).all()
            found[name] = "empty" if all(empty) else "equal" if equal else "missing" if empty[1] else "other"
    return found


def documented_classes(name: str) -> dict[str, str]:
    """Return the classification of a table's fields in the document."""
    found: dict[str, str] = {}
    for word, fields in re.findall(rf"^\| `arena/{name}` \| (\w+) \| ([^|]*) \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE):
        for field in re.findall(r"`(\w+)`", fields):
            assert field not in found, f"{name}.{field} stands twice"
            found[field] = word
    return found


@pytest.mark.parametrize("name", SAME)
def test_the_page_says_which_fields_are_equal(arenas: tuple[Arena, Arena, Universe], name: str) -> None:
    live, past, _ = arenas
    found, stated = classify_fields(rows_of(live, name), rows_of(past, name), SAME[name]), documented_classes(name)
    may_differ = {field for field, word in found.items() if word == "equal" and stated.get(field) == "other"}
    assert found | dict.fromkeys(may_differ, "other") == stated


def test_reconstructed_universes_are_other_markets(arenas: tuple[Arena, Arena, Universe]) -> None:
    """Live universes have the largest volumes. Reconstructed ones have the earliest ends, and only markets with a price on the day before."""
    live, past, largest = arenas
    first = past.read(tables.UNIVERSE).filter(week=START.date()).sort("place")
    ids = [one.market_id for one in largest.markets]
    assert set(first["market_id"]) < set(ids)
    assert first["closes_at"].is_sorted()
    volumes = [one.volume or 0 for one in largest.markets]
    assert volumes == sorted(volumes, reverse=True)
    unpriced = set(live.read(tables.UNIVERSE).filter(week=START.date())["market_id"]) - set(first["market_id"])
    assert len(unpriced) <= 2


def test_every_valid_bet_is_executed_in_both(arenas: tuple[Arena, Arena, Universe]) -> None:
    trades = [arena.read(tables.TRADES).filter(~pl.col("agent_id").str.contains("calibrated")) for arena in arenas[:2]]
    mine, theirs = (set(rows.select("week", "agent_id", "market_id", "side").rows()) for rows in trades)
    assert mine == theirs
    assert [arena.read(tables.REFUSALS).height for arena in arenas[:2]] == [0, 0]


def test_money_adds_up_in_both(arenas: tuple[Arena, Arena, Universe]) -> None:
    assert [arena.results().violations for arena in arenas[:2]] == [[], []]
