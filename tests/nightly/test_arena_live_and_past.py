"""The same weeks run live and reconstructed afterwards. live_and_past.md lists the fields that are equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from bellwether.arena.history import LATEST, SOONEST
from bellwether.arena.market import Market
from bellwether.arena.universe import Universe, build_universe
from bellwether.arena.weekly import polymarket
from bellwether.arena.weekly.context import decision_time, preview_universe
from bellwether.arena.weekly.held_prices import reconstruct_prices
from bellwether.tables import arena as tables
from tests.unit.arena.weeks import SEVEN, Arena

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


def run_both(folder: Path) -> tuple[Arena, Arena, Universe]:
    """Return a live arena, its reconstruction, and the universe that the live arena would choose.

    The live arena uses the markets that a reconstruction chooses: those with the earliest ends.
    """
    live, past = Arena(folder / "live", now=START), Arena(folder / "past")
    with live.journal() as journal:
        largest = preview_universe(live.world(journal), START.date(), "polymarket").universe

    def alike(markets: Sequence[Market], limit: int, at: datetime) -> Universe:
        week = decision_time(at.date())
        ends = [(one.closes_at, one.market_id, one) for one in markets if one.closes_at and SOONEST <= one.closes_at - week <= LATEST]
        return build_universe([one for *_, one in sorted(ends, key=lambda end: end[:2])][:limit])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polymarket, "select_universe", alike)
        for number in range(WEEKS):
            sunday = (START + number * SEVEN).date()
            live.now = START + number * SEVEN
            if number < DECIDED:
                live.decide(sunday, forced=False)
                past.decide(sunday)
            for hours in (1, 60, 160):
                live.now = START + number * SEVEN + timedelta(hours=hours)
                live.evidence(sunday)
                live.tick()
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


def test_live_and_reconstructed_weeks_differ_in_the_documented_fields_only(tmp_path: Path) -> None:
    live, past, largest = run_both(tmp_path)
    for name, same in SAME.items():
        found, stated = classify_fields(rows_of(live, name), rows_of(past, name), same), documented_classes(name)
        may_differ = {field for field, word in found.items() if word == "equal" and stated.get(field) == "other"}
        assert found | dict.fromkeys(may_differ, "other") == stated, name

    # Live universes have the largest volumes. Reconstructed ones have the earliest ends.
    first = past.read(tables.UNIVERSE).filter(week=START.date()).sort("place")
    assert first["closes_at"].is_sorted()
    volumes = [one.volume or 0 for one in largest.markets]
    assert volumes == sorted(volumes, reverse=True)
    assert set(first["market_id"]) != {one.market_id for one in largest.markets}

    bets = [set(arena.read(tables.TRADES).select("week", "agent_id", "market_id", "side").rows()) for arena in (live, past)]
    assert bets[0] == bets[1], "every valid bet is executed in both"
    assert [arena.read(tables.REFUSALS).height for arena in (live, past)] == [0, 0]
    assert [arena.results().violations for arena in (live, past)] == [[], []]
