"""Scores and returns: acceptance rows K and A."""

from __future__ import annotations

import pytest

from bellwether.arena.account import AgentStatus
from bellwether.arena.facts import Result, Settlement
from bellwether.arena.ledger import fold
from bellwether.arena.marks import drawdown
from bellwether.arena.scores import Score, multiclass_brier, score_bets, summary
from tests.arena.world import AGENT, NOW, V1, account, bet, bets, binary, bought, holding, run, usd, won


@pytest.mark.parametrize(
    ("side", "outcome", "expected"),
    [("YES", "YES", 0.04), ("YES", "NO", 0.64), ("NO", "YES", 0.64), ("NO", "NO", 0.04), ("no", "No", 0.04)],
)
def test_k3_the_binary_brier_score(side: str, outcome: str, expected: float) -> None:
    (score,) = score_bets(fold([AGENT], [bought("10", "4", side=side, confidence=0.8)], [won(outcome)]))
    assert score.brier_size == pytest.approx(expected)


@pytest.mark.parametrize(("winner", "expected"), [("ALPHA", 0.09), ("Beta", 0.49)])
def test_k4_the_brier_score_of_a_named_outcome(winner: str, expected: float) -> None:
    bet_on_alpha = bought("10", "4", side="Alpha", binary=False, confidence=0.7)
    (score,) = score_bets(fold([AGENT], [bet_on_alpha], [won(winner, ("Alpha", "Beta"))]))
    assert score.brier_size == pytest.approx(expected)


def _scored(confidences: list[float], **more: object) -> list[Score]:
    trades = [bought("10", "4", leg=leg, market_id=f"m{leg}", confidence=c, **more) for leg, c in enumerate(confidences, start=1)]
    book = fold([AGENT], trades, [won("Yes", market_id=trade.market_id) for trade in trades])
    return score_bets(book)


def test_k12_the_mean_is_over_bets_and_not_over_cohorts() -> None:
    one, three = _scored([0.6]), _scored([0.4] * 3)
    found = summary([*one, *three])
    assert found.n == 4
    assert found.brier_size == pytest.approx(0.31)


def test_k23_markets_without_a_winner_count_neither_as_won_nor_as_lost() -> None:
    trades = [bought("10", "4"), bought("10", "4", leg=2, market_id="n")]
    void = Settlement("n", "v1", NOW.replace(day=20), Result.CANCELLED, {})
    assert summary(score_bets(fold([AGENT], trades, [won("Yes"), void]))).win_rate == 1


def test_k25_skill_against_the_price_that_was_paid() -> None:
    (score,) = _scored([0.5])
    assert (score.brier_size, score.p_yes, score.o_yes) == (0.25, 0.5, 1)
    assert score.brier_price == pytest.approx(0.36)
    assert summary([score]).skill_price == pytest.approx(0.3056, abs=5e-5)


def test_stated_probabilities_are_scored_beside_the_size() -> None:
    done = run(bets(bet("500", probability=0.9)), account(), binary(yes="0.4"))
    (score,) = score_bets(fold([AGENT], done.trades, [won("Yes")]))
    assert (score.brier_size, score.brier_stated) == (pytest.approx(0.64), pytest.approx(0.01))
    found = summary([score, *_scored([0.5])])
    assert (found.n, found.stated) == (2, 1)
    assert found.skill_stated_price == pytest.approx(1 - 0.01 / 0.36)


@pytest.mark.parametrize("confidence", [None, 1.5, -0.1])
def test_a_missing_or_impossible_confidence_is_counted_and_not_scored(confidence: float | None) -> None:
    found = summary(_scored([0.5, confidence]))  # type: ignore[list-item]
    assert (found.n, found.unscored, found.brier_size, found.win_rate) == (1, 1, 0.25, 1)


def test_drawdown_is_from_the_highest_point_before() -> None:
    assert drawdown([100, 120, 90, 130, 110]) == pytest.approx(0.25)
    assert drawdown([100, 110]) == 0
    assert drawdown([]) is None


@pytest.mark.parametrize(
    ("row", "cash", "held", "status"),
    [
        ("A1", "0", False, AgentStatus.BANKRUPT),
        ("A3", "250", False, AgentStatus.ACTIVE),
        ("49 and a position", "49", True, AgentStatus.WARNED),
        ("49", "49", False, AgentStatus.BANKRUPT),
    ],
)
def test_the_status_of_an_agent(row: str, cash: str, held: bool, status: AgentStatus) -> None:
    holder = holding(bought("10", "5"), cash=str(float(cash) + 5)) if held else account(cash)
    assert holder.cash == usd(cash)
    assert holder.status(V1.least) is status


def test_the_brier_score_of_all_outcomes_is_their_sum() -> None:
    assert multiclass_brier({"A": 0.5, "B": 0.3, "C": 0.2}, "a") == pytest.approx(0.25 + 0.09 + 0.04)
