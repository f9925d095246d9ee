"""Random histories keep every invariant, and a second fold, written from the rules alone, gives the same ledger to the last unit."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from random import Random

import pytest

from bellwether.arena.invariants import violations
from bellwether.arena.ledger import Book, fold
from bellwether.arena.scores import score_bets
from tests.arena.histories import RULES, History, history
from tests.arena.reference.fold import ledger, results

#: Histories: enough for more than 20 of each kind of entry.
HISTORIES = 600


def _counted(made: History) -> dict[tuple[str, str], list[dict[str, object]]]:
    found = {}
    for name in {agent.methodology for agent in made.agents}:
        rules = RULES[name]
        for market in {look.market_id for look in made.looks}:
            looks = [look for look in made.looks if look.market_id == market]
            refunds = rules.unknown_winner == "refund"
            found[name, market] = results(looks, rules.grace, rules.confirmations, rules.dispute_window, refunds, rules.void)
    return found


def _same(book: Book, other: dict[str, dict[str, object]]) -> None:
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
    kinds: Counter[str] = Counter()
    for seed in range(HISTORIES):
        made = history(seed)
        settled, counted = made.settlements(), _counted(made)
        book = fold(made.agents, made.trades, settled)
        assert violations(book, made.trades, made.legs) == [], seed
        _same(book, ledger(made.agents, made.trades, counted))
        kinds.update(entry.kind.value for entry in book.entries)
        kinds.update({"corrected": sum(entry.corrects for entry in book.entries), "scored": len(score_bets(book))})
        if seed % 8 == 0:
            _earlier(made, seed, settled, counted)
    assert all(kinds[kind] > 20 for kind in ("BUY", "SELL", "FEE", "SETTLE", "REFUND", "corrected", "scored")), kinds


def _earlier(made: History, seed: int, settled: list[object], counted: dict[tuple[str, str], list[dict[str, object]]]) -> None:
    """As known at some instant, from facts in another order."""
    rng = Random(-seed - 1)
    until = rng.choice([made.end, *(trade.executed_at for trade in made.trades), *(look.observed_at for look in made.looks)])
    trades, settlements = rng.sample(made.trades, len(made.trades)), rng.sample(settled, len(settled))
    _same(fold(made.agents, trades, settlements, known_at=until), ledger(made.agents, made.trades, counted, until))  # type: ignore[arg-type]


def test_histories_have_refusals_of_many_kinds() -> None:
    reasons = Counter(reason for seed in range(150) for reason in history(seed).refusals)
    assert {
        "total above the limit",
        "market not active",
        "market unknown",
        "not enough in the book",
        "position of another agent",
    } <= set(reasons)
    assert len(reasons) >= 10, reasons
