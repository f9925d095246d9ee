"""Rows of the arena's tables: exact both ways, and the same bytes from the same facts in any order."""

from __future__ import annotations

import io
from random import Random

import polars as pl
import pytest

from bellwether.arena.frames import (
    agents_frame,
    agents_of,
    ledger_frame,
    portfolios_frame,
    positions_frame,
    prices_frame,
    prices_of,
    scores_frame,
    settlements_frame,
    trades_frame,
    trades_of,
    universe_frame,
)
from bellwether.arena.ledger import fold
from bellwether.arena.marks import Price, Source, curves
from bellwether.arena.universe import universe
from tests.arena.histories import history
from tests.arena.world import COHORT, NOW, binary, named, usd


def _bytes(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("seed", range(2))
def test_facts_come_back_from_their_rows(seed: int) -> None:
    made = history(seed)
    assert sorted(trades_of(trades_frame(made.trades))) == sorted(made.trades)
    assert agents_of(agents_frame(made.agents, {"acme": "m", "zeta": "m"}, COHORT, NOW)) == sorted(made.agents)
    prices = [Price("m", "YES", NOW, usd("0.4"), Source.LIVE, NOW, usd("0.5"), disagrees=True), Price("n", "a", NOW, 0, Source.PRIOR)]
    assert prices_of(prices_frame(prices)) == prices


@pytest.mark.parametrize("seed", range(0, 40, 20))
def test_a_rebuild_gives_the_same_bytes(seed: int) -> None:
    made, rng = history(seed), Random(seed)
    settled = made.settlements()

    def built(agents: list, trades: list, settlements: list) -> list[bytes]:  # type: ignore[type-arg]
        book = fold(agents, trades, settlements)
        frames = [settlements_frame(settlements), ledger_frame(book), positions_frame(book), scores_frame(book)]
        return [_bytes(frame) for frame in [*frames, portfolios_frame(curves(book, []), book)]]

    shuffled = [rng.sample(facts, len(facts)) for facts in (made.agents, made.trades, settled)]
    assert built(made.agents, made.trades, settled) == built(*shuffled)


def test_a_universe_as_rows() -> None:
    chosen = universe([binary(volume=usd("10.5"), tick=10_000), named({"A": "0.25", "B": None}, "n")], 5, NOW)
    frame = universe_frame(chosen, COHORT, NOW)
    assert frame["market_id"].to_list() == ["m", "n"]
    assert [[price and float(price) for price in prices] for prices in frame["prices"].to_list()] == [[0.4, 0.6], [0.25, None]]
    assert frame["digest"].unique().to_list() == [chosen.digest]
    assert universe_frame(universe([], 5, NOW), COHORT, NOW).height == 0
