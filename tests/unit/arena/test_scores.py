"""Scores and returns, and sql/arena/leaderboard.sql on hand-counted rows. tests/unit/arena/test_export.py recomputes real weeks."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from bellwether.arena.facts import Result, Settlement
from bellwether.arena.ledger import fold
from bellwether.arena.marks import drawdown
from bellwether.arena.scores import Score, score_bets, summary
from bellwether.lake.sql import run_sql
from bellwether.tables import table
from bellwether.tables.arena import LEADERBOARD
from tests.unit.arena.world import AGENT, NOW, V1, account, account_after, bet, bets, binary, buy_trade, execute_decision, usd, won


@pytest.mark.parametrize(
    ("side", "outcome", "expected"),
    [("YES", "YES", 0.04), ("YES", "NO", 0.64), ("NO", "YES", 0.64), ("NO", "NO", 0.04), ("no", "No", 0.04)],
)
def test_the_binary_brier_score(side: str, outcome: str, expected: float) -> None:
    (score,) = score_bets(fold([AGENT], [buy_trade("10", "4", side=side, confidence=0.8)], [won(outcome)]))
    assert score.brier_size == pytest.approx(expected)


@pytest.mark.parametrize(("winner", "expected"), [("ALPHA", 0.09), ("Beta", 0.49)])
def test_the_brier_score_of_a_named_outcome(winner: str, expected: float) -> None:
    bet_on_alpha = buy_trade("10", "4", side="Alpha", binary=False, confidence=0.7)
    (score,) = score_bets(fold([AGENT], [bet_on_alpha], [won(winner, ("Alpha", "Beta"))]))
    assert score.brier_size == pytest.approx(expected)


def _scored(confidences: list[float], **more: object) -> list[Score]:
    trades = [buy_trade("10", "4", leg=leg, market_id=f"m{leg}", confidence=c, **more) for leg, c in enumerate(confidences, start=1)]
    book = fold([AGENT], trades, [won("Yes", market_id=trade.market_id) for trade in trades])
    return score_bets(book)


def test_the_mean_is_over_bets_and_not_over_cohorts() -> None:
    one, three = _scored([0.6]), _scored([0.4] * 3)
    found = summary([*one, *three])
    assert found.scored == 4
    assert found.brier_size == pytest.approx(0.31)


def test_markets_without_a_winner_count_neither_as_won_nor_as_lost() -> None:
    trades = [buy_trade("10", "4"), buy_trade("10", "4", leg=2, market_id="n")]
    void = Settlement("n", "v1", NOW.replace(day=20), Result.CANCELLED, {})
    assert summary(score_bets(fold([AGENT], trades, [won("Yes"), void]))).win_rate == 1


def test_the_price_that_was_paid_is_scored() -> None:
    (score,) = _scored([0.5])
    assert (score.brier_size, score.p_yes, score.o_yes) == (0.25, 0.5, 1)
    assert score.brier_price == pytest.approx(0.36)
    assert summary([score]).brier_price == pytest.approx(0.36)


def test_stated_probabilities_are_scored_beside_the_size() -> None:
    done = execute_decision(bets(bet("500", probability=0.9)), account(), binary(yes="0.4"))
    (score,) = score_bets(fold([AGENT], done.trades, [won("Yes")]))
    assert (score.brier_size, score.brier_stated) == (pytest.approx(0.64), pytest.approx(0.01))
    found = summary([score, *_scored([0.5])])
    assert (found.scored, found.stated) == (2, 1)


@pytest.mark.parametrize("confidence", [None, 1.5, -0.1])
def test_a_missing_or_impossible_confidence_is_counted_and_not_scored(confidence: float | None) -> None:
    found = summary(_scored([0.5, confidence]))  # type: ignore[list-item]
    assert (found.scored, found.unscored, found.brier_size, found.win_rate) == (2, 1, 0.25, 1)


def test_drawdown_is_from_the_highest_point_before() -> None:
    assert drawdown([100, 120, 90, 130, 110]) == pytest.approx(0.25)
    assert drawdown([100, 110]) == 0
    assert drawdown([]) is None


@pytest.mark.parametrize(
    ("cash", "held", "bankrupt"), [("0", False, True), ("250", False, False), ("49", True, False), ("49", False, True)]
)
def test_an_agent_with_a_position_is_not_bankrupt(cash: str, held: bool, bankrupt: bool) -> None:
    holder = account_after(buy_trade("10", "5"), cash=str(float(cash) + 5)) if held else account(cash)
    assert holder.cash == usd(cash)
    assert holder.is_bankrupt(V1.smallest_bet) is bankrupt


FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 8)
AT = datetime(2026, 3, 1, tzinfo=UTC)
MEANS = ("scored", "stated", "brier_stated", "brier_size", "brier_price", "win_rate")


def frame(name: str, columns: str, *rows: tuple[Any, ...]) -> pl.DataFrame:
    schema = LEADERBOARD.schema if name == "scored" else table(f"arena/{name}").schema
    return pl.DataFrame(rows, schema={column: schema[column] for column in columns.split()}, orient="row")


def scored(*families: tuple[Any, ...]) -> pl.DataFrame:
    """Return families with these mean Brier scores of sizes. None: not scored."""
    rows = [(*key, 0 if size is None else 3, 0, None, size, 0.25, None) for *key, size in families]
    return frame("scored", f"methodology reconstructed family {' '.join(MEANS)}", *rows)


INPUTS = {
    "agents": frame(
        "agents",
        "agent_id methodology reconstructed family week initial_cash archived_at",
        ("1/a", "v1", False, "a", FIRST, Decimal(1000), None),
        ("2/a", "v1", False, "a", SECOND, Decimal("500.000001"), None),
        ("1/b", "v1", False, "b", FIRST, Decimal(1000), None),
        ("1/c", "v1", False, "c", FIRST, Decimal(1000), None),
        ("1/d", "v1", False, "d", FIRST, Decimal(1000), None),
        ("1/old", "v1", False, "a", FIRST, Decimal(1000), AT),
        ("3/a", "v1", True, "a", FIRST, Decimal(1000), None),
        ("4/a", "v2", False, "a", FIRST, Decimal(1000), None),
        ("4/b", "v2", False, "b", FIRST, Decimal(1000), None),
    ),
    "decisions": frame(
        "decisions",
        "decision_id agent_id state action cost",
        ("1/a/1", "1/a", "finished", "BET", Decimal("0.1")),
        ("1/a/2", "1/a", "refused", "BET", Decimal("0.2")),
        ("2/a/2", "2/a", "finished", "INVALID", Decimal("0.000001")),
        ("1/b/1", "1/b", "finished", "HOLD", None),
        ("1/c/1", "1/c", "finished", "SELL", Decimal(0)),
        ("1/d/1", "1/d", "finished", "BET", Decimal(0)),
        ("1/d/2", "1/d", "failed", None, Decimal(1)),
        ("1/d/3", "1/d", "read", "BET", Decimal(1)),
        ("1/old/1", "1/old", "finished", "BET", Decimal(9)),
        ("3/a/1", "3/a", "finished", "BET", Decimal(0)),
        ("4/a/1", "4/a", "finished", "BET", Decimal(0)),
        ("4/b/1", "4/b", "finished", "BET", Decimal(0)),
    ),
    "refusals": frame("refusals", "decision_id superseded_at", ("1/a/2", None), ("1/a/2", None), ("1/a/2", AT), ("1/old/1", None)),
    "trades": frame(
        "trades",
        "agent_id action amount unmatched",
        ("1/a", "BUY", Decimal(300), Decimal(200)),
        ("1/a", "SELL", Decimal(150), None),
        ("2/a", "BUY", Decimal("0.000001"), Decimal(0)),
        ("1/old", "BUY", Decimal(999), Decimal(999)),
    ),
    "ledger": frame("ledger", "agent_id number cash", ("1/a", 2, Decimal(850)), ("1/a", 1, Decimal(700)), ("1/old", 1, Decimal(1))),
    "positions": frame("positions", "agent_id status", ("1/a", "open"), ("1/a", "settled"), ("2/a", "open"), ("1/old", "open")),
    "portfolios": frame(
        "portfolios",
        "agent_id at total",
        ("1/a", AT.replace(hour=2), Decimal(900)),
        ("1/a", AT.replace(hour=1), Decimal(1200)),
        ("2/a", AT, Decimal(400)),
        ("4/a", AT, Decimal(990)),
        ("4/b", AT, Decimal(1010)),
    ),
    "completed": pl.DataFrame({"week": [FIRST]}, schema={"week": pl.Date()}),
    "scored": scored(
        *(("v1", False, family, size) for family, size in (("a", 0.2), ("b", 0.1), ("c", 0.1), ("d", 0.05))),
        ("v1", True, "a", None),
        ("v2", False, "a", 0.1),
        ("v2", False, "b", 0.2),
    ),
}


def test_a_family_is_counted_over_its_cohorts_that_are_not_archived() -> None:
    row = run_sql(LEADERBOARD, INPUTS).row(0, named=True)
    counts = {"cohorts": 2, "completed": 1, "decisions": 3, "finished": 2, "invalid": 1, "unfinished": 0, "bets": 2, "refused": 2}
    assert {name: row[name] for name in counts} == counts
    money = {"initial_cash": "1500.000001", "cash": "1350.000001", "total": "1300", "profit": "-200.000001", "cost": "0.300001"}
    assert {name: row[name] for name in money} == {name: Decimal(value) for name, value in money.items()}
    assert (row["return"], row["drawdown"]) == (-200.000001 / 1500.000001, 0.25), "of one agent, from 1,200 to 900"
    assert row["unmatched"] == 200 / 300.000001, "of the trades whose quote has sizes"
    assert (row["turnover"], row["open_positions"], row["brier_size"], row["scored"]) == (450.000001 / 1500.000001, 2, 0.2, 3)


def test_methodologies_and_kinds_of_cohorts_have_separate_rows() -> None:
    assert run_sql(LEADERBOARD, INPUTS).select("methodology", "reconstructed", "family", "cost").rows() == [
        ("v1", False, "a", Decimal("0.300001")),
        ("v1", False, "b", None),
        ("v1", False, "c", Decimal(0)),
        ("v1", False, "d", Decimal(2)),
        ("v1", True, "a", Decimal(0)),
        ("v2", False, "a", Decimal(0)),
        ("v2", False, "b", Decimal(0)),
    ], "an unknown cost is null"
