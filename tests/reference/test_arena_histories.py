"""Random histories keep every invariant, equal the reference implementation, survive storage exactly, and give the same bytes in any order."""

from __future__ import annotations

import io
from collections import Counter
from decimal import Decimal
from random import Random

import polars as pl
import pytest

from bellwether.arena.frames import (
    agents_from_rows,
    book_frames,
    prices_frame,
    prices_from_rows,
    trades_frame,
    trades_from_rows,
    universe_frame,
)
from bellwether.arena.ledger import Ledger, fold, violations
from bellwether.arena.marks import HeldPrice, PriceSource, compute_portfolio_curves
from bellwether.arena.records import FrozenUniverse
from bellwether.arena.scores import score_bets
from bellwether.arena.universe import select_universe
from tests.reference.arena_fold import ledger, results
from tests.sizes import EXAMPLES, NIGHTLY
from tests.unit.arena.histories import RULES, History, history
from tests.unit.arena.world import COHORT, NOW, agents_frame, binary, named, usd


def _counted(made: History) -> dict[tuple[str, str], list[dict[str, object]]]:
    found = {}
    for name in {agent.methodology for agent in made.agents}:
        rules = RULES[name]
        for market in {look.market_id for look in made.looks}:
            looks = [look for look in made.looks if look.market_id == market]
            refunds = rules.unknown_winner == "refund"
            found[name, market] = results(looks, rules.grace, rules.confirmations, rules.dispute_window, refunds)
    return found


def _same(book: Ledger, other: dict[str, dict[str, object]]) -> None:
    movements = [
        (entry.agent_id, entry.kind.value, _usd(entry.amount), _usd(entry.cash), entry.position_id, _usd(entry.shares), _usd(entry.cost))
        for entry in book.entries
    ]
    assert sorted(movements) == sorted(other["movements"])
    by_agent = Counter(movement[0] for movement in movements)
    for agent_id in by_agent:
        assert [one for one in movements if one[0] == agent_id] == [one for one in other["movements"] if one[0] == agent_id]
    assert {agent_id: _usd(account.cash) for agent_id, account in book.accounts.items()} == other["cash"]
    positions = {position.position_id: position for account in book.accounts.values() for position in account.positions.values()}
    for name, held in other["positions"].items():
        mine = positions.pop(name)
        assert (mine.status.value, _usd(mine.shares), _usd(mine.cost), _usd(mine.realized)) == (
            *(held["status"], held["shares"], held["cost"], held["gain"]),  # type: ignore[index]
        )
    assert not positions
    assert {score.trade_id: score.brier_size for score in score_bets(book)} == pytest.approx(other["scores"], abs=1e-12)


def _usd(millionths: int) -> Decimal:
    return Decimal(millionths) / 1_000_000


def test_histories_keep_the_invariants_and_equal_the_literal_fold() -> None:
    kinds, refused = Counter[str](), set[str]()
    for seed in range(2 * EXAMPLES):
        made = history(seed)
        refused.update(made.refusals)
        settled, counted = made.settlements(), _counted(made)
        book = fold(made.agents, made.trades, settled)
        assert violations(book, made.trades, made.legs) == [], seed
        _same(book, ledger(made.agents, made.trades, counted))
        kinds.update(entry.kind.value for entry in book.entries)
        kinds.update({"corrected": sum(entry.corrects for entry in book.entries), "scored": len(score_bets(book))})
        if seed % 8 == 0:
            _earlier(made, seed, settled, counted)
    assert len(refused) >= (10 if NIGHTLY else 6), refused
    assert all(kinds[kind] > (20 if NIGHTLY else 1) for kind in ("BUY", "SELL", "FEE", "SETTLE", "REFUND", "corrected", "scored")), kinds


def _earlier(made: History, seed: int, settled: list[object], counted: dict[tuple[str, str], list[dict[str, object]]]) -> None:
    """Return the history as known at a random instant, from facts in another order."""
    rng = Random(-seed - 1)
    until = rng.choice([made.end, *(trade.executed_at for trade in made.trades), *(look.observed_at for look in made.looks)])
    trades, settlements = rng.sample(made.trades, len(made.trades)), rng.sample(settled, len(settled))
    _same(fold(made.agents, trades, settlements, known_at=until), ledger(made.agents, made.trades, counted, until))  # type: ignore[arg-type]


def _bytes(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("seed", range(2))
def test_facts_come_back_from_their_rows(seed: int) -> None:
    made = history(seed)
    assert sorted(trades_from_rows(trades_frame(made.trades))) == sorted(made.trades)
    assert agents_from_rows(agents_frame(made.agents)) == sorted(made.agents)
    prices = [
        HeldPrice("m", "YES", NOW, usd("0.4"), PriceSource.LIVE, NOW, usd("0.5"), disagrees=True),
        HeldPrice("n", "a", NOW, 0, PriceSource.PRIOR),
    ]
    assert prices_from_rows(prices_frame(prices)) == prices


@pytest.mark.parametrize("seed", [0, 20])
def test_a_rebuild_gives_the_same_bytes(seed: int) -> None:
    made, rng = history(seed), Random(seed)
    settled = made.settlements()

    def built(agents: list, trades: list, settlements: list) -> list[bytes]:  # type: ignore[type-arg]
        book = fold(agents, trades, settlements)
        return list(map(_bytes, book_frames(book, settlements, compute_portfolio_curves(book, [])).values()))

    shuffled = [rng.sample(facts, len(facts)) for facts in (made.agents, made.trades, settled)]
    assert built(made.agents, made.trades, settled) == built(*shuffled)


def test_a_universe_as_rows() -> None:
    chosen = select_universe([binary(volume=usd("10.5"), tick=10_000), named({"A": "0.25", "B": None}, "n")], 5, NOW)
    frame = universe_frame(COHORT, FrozenUniverse(chosen, NOW, False, "test"))
    assert frame["market_id"].to_list() == ["m", "n"]
    assert [[price and float(price) for price in prices] for prices in frame["prices"].to_list()] == [[0.4, 0.6], [0.25, None]]
    assert frame["digest"].unique().to_list() == [chosen.digest]
    assert universe_frame(COHORT, FrozenUniverse(select_universe([], 5, NOW), NOW, False, "test")).height == 0
