"""Weeks of the arena with markets of both protocol versions: universe, quotes, trades, marks and resolution, live and reconstructed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from bellwether.arena import lineup, rule_agents
from bellwether.arena.identity import week_of
from bellwether.arena.market import YES, Market
from bellwether.arena.weekly.held_prices import list_reconstructed_days, reconstruct_prices, store_tick
from bellwether.tables import arena as tables
from tests.arena.weeks import Arena

WEEK = date(2026, 11, 8)
START = datetime(2026, 11, 8, 0, 10, tzinfo=UTC)
BOTH = ("v1", "v2")
FAMILIES = [f"{version}{place}" for version in BOTH for place in range(6)]
REGISTRY = {
    "methodologies.toml": '[small]\nlike = "v1-realistic"\ntitle = "v1"\nuniverse = 100\n',
    "lineups.toml": '[few]\ntitle = "the rules"\nmethodology = "small"\n\n[few.families]\n'
    + "".join(f'{family} = "rule/{family}"\n' for family in FAMILIES),
}


def is_v2(tokens: Sequence[str]) -> bool:
    """Return True if the token ids are consecutive. In Protocol V2 they are one number that ends with the outcome."""
    return int(tokens[1]) == int(tokens[0]) + 1


def bet_on_one(markets: Sequence[Market], limits: Any, key: str) -> dict[str, Any]:
    """Return a bet on one market between 10 and 90 cents. The family's name gives its protocol version and position."""
    family = key.split("/")[1]
    chosen = [
        one for one in markets if one.binary and is_v2(one.token_ids) == (family[:2] == "v2") and 10**5 < (one.price(YES) or 0) < 9 * 10**5
    ]
    bet = {"market_id": chosen[int(family[2:])].market_id, "side": "YES", "amount": 60, "probability": 0.5}
    return {"action": "BET", "bets": [bet], "reasoning": "One."}


@pytest.fixture(scope="module", params=["live", "reconstructed"])
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Arena:
    """A week decided, marked and resolved."""
    live = request.param == "live"
    arena = Arena(tmp_path_factory.mktemp("protocols"), now=START if live else START + timedelta(days=50), lineup="few")
    for name, text in REGISTRY.items():
        # Only midpoints are available of past books.
        (arena.registry / name).write_text(text if live else text.replace("v1-realistic", "v1"))
    with pytest.MonkeyPatch.context() as patch:
        for module in (rule_agents, lineup):
            patch.setattr(module, "RULES", dict.fromkeys(FAMILIES, bet_on_one))
        arena.decide(WEEK)
    arena.now += timedelta(hours=1)
    with arena.journal() as journal:
        world = arena.world(journal)
        if live:
            store_tick(world)
        for day, rows in ({} if live else reconstruct_prices(world, list_reconstructed_days(world))).items():
            arena.lake.write(tables.PRICES, (day.isoformat(),), rows, run_id="test")
    arena.now = START + timedelta(days=60)
    for week in [WEEK + timedelta(days=7 * number) for number in range(9)]:
        arena.evidence(week)
    assert week_of(arena.now) == week
    return arena


def by_version(played: Arena, frame: pl.DataFrame) -> Mapping[str, pl.DataFrame]:
    """Return the rows of V1 markets and of V2 markets."""
    universe = played.read(tables.UNIVERSE)
    v2 = [market_id for market_id, tokens in universe.select("market_id", "token_ids").iter_rows() if is_v2(tokens)]
    return {"v1": frame.filter(~pl.col("market_id").is_in(v2)), "v2": frame.filter(pl.col("market_id").is_in(v2))}


def test_markets_of_both_versions_are_listed_filled_marked_and_resolved(played: Arena) -> None:
    """Each market trades on its own book and is resolved by the flags of the CLOB."""
    universe, trades, prices, evidence, settled = (
        by_version(played, rows)
        for rows in (
            *map(played.read, (tables.UNIVERSE, tables.TRADES, tables.PRICES, tables.EVIDENCE)),
            played.results().frames["arena/settlements"],
        )
    )
    for version in BOTH:
        assert universe[version].height > 6
        assert universe[version]["token_ids"].list.len().min() == 2
        assert trades[version].height >= 2, played.read(tables.REFUSALS)
        assert trades[version].filter(~pl.col("price").is_between(0.05, 0.95)).is_empty()
        assert set(prices[version]["market_id"]) >= set(trades[version]["market_id"])
        flagged = evidence[version].filter(pl.col("winners").list.len() == 1)
        assert set(flagged["market_id"]) & set(settled[version]["market_id"])
        assert set(settled[version]["market_id"]) <= set(trades[version]["market_id"])
    assert evidence["v2"]["uma_resolution_status"].null_count() == evidence["v2"].height
    assert "resolved" in set(evidence["v2"]["resolution_status"])
    assert played.results().violations == []
