"""The reality check of a sweep, on simulated P&L with a known truth."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from bellwether.replay.results.summary import p_value, reality_check

Draw = Callable[[np.random.Generator, int, int], np.ndarray]

#: P&L of strategies without an edge, by episode and strategy; mean 0.
NULLS: dict[str, Draw] = {
    "normal": lambda rng, t, n: rng.standard_normal((t, n)),
    "correlated": lambda rng, t, n: 0.9 * rng.standard_normal((t, 1)) + 0.44 * rng.standard_normal((t, n)),
    "heavy tails": lambda rng, t, n: rng.standard_t(3, (t, n)),
    "sizes 1 to 10": lambda rng, t, n: rng.standard_normal((t, n)) * np.linspace(1, 10, n),
    "rare losses": lambda rng, t, n: np.where(rng.random((t, n)) < 0.9, 0.1, -0.9),
    "rare gains": lambda rng, t, n: np.where(rng.random((t, n)) < 0.1, 0.9, -0.1),
    "skewed losses": lambda rng, t, n: 1 - rng.exponential(size=(t, n)),
    "skewed gains": lambda rng, t, n: rng.exponential(size=(t, n)) - 1,
}
REPETITIONS = 400


def micro(pnl: np.ndarray) -> np.ndarray:
    return np.rint(pnl * 1_000_000)


@pytest.mark.nightly
@pytest.mark.parametrize("null", NULLS)
@pytest.mark.parametrize("episodes", [6, 12, 20])
def test_at_most_one_sweep_in_twenty_without_an_edge_finds_one(null: str, episodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bellwether.replay.results.summary._FLIPS", 499)
    rng = np.random.default_rng(20)
    found = sum(p_value(micro(NULLS[null](rng, episodes, 50))) <= 0.05 for _ in range(REPETITIONS))
    assert found / REPETITIONS <= 0.05


def test_one_strategy_with_symmetric_results_is_judged_exactly() -> None:
    rng = np.random.default_rng(1)
    found = sum(p_value(micro(rng.standard_t(3, (8, 1)))) <= 0.05 for _ in range(2000))
    assert abs(found / 2000 - 12 / 256) < 3 * (0.05 * 0.95 / 2000) ** 0.5


def test_an_edge_is_found_among_a_hundred() -> None:
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(20):
        pnl = rng.standard_normal((30, 100))
        pnl[:, 37] += 1
        found += p_value(micro(pnl)) <= 0.05
    assert found >= 18


def test_p_values_are_near_those_of_the_bootstrap_with_many_episodes() -> None:
    from arch.bootstrap import SPA

    rng, ours, theirs = np.random.default_rng(3), [], []
    for shift in (0.0, 0.1, 0.15, 0.2, 0.25):
        pnl = rng.standard_normal((250, 20))
        pnl[:, 0] += shift
        ours.append(p_value(micro(pnl)))
        spa = SPA(np.zeros(250), -pnl, block_size=1, reps=1000, studentize=True, seed=4)
        spa.compute()
        theirs.append(spa.pvalues["upper"])
    assert np.abs(np.array(ours) - theirs).max() < 0.05
    assert max(ours) > 0.2
    assert min(ours) < 0.01


def test_all_exchanges_of_signs_are_counted_by_hand() -> None:
    # All five episodes gain, so only the identity reaches the total: one of 2**5.
    assert p_value(np.array([[1.0], [2.0], [3.0], [4.0], [5.0]])) == 1 / 32
    # With a single loss of 1, only (+,+,+,+,+) and the flip of that loss reach or exceed 13.
    assert p_value(np.array([[2.0], [3.0], [4.0], [5.0], [-1.0]])) == 2 / 32


@pytest.mark.parametrize(
    ("first", "second"), [(11_333_572, 15_519_744), (9_610_054, 30_085_277), (19_873_013, 25_232_801), (7, 1_000_000_000_007)]
)
def test_equal_ratios_of_different_agents_are_equal(first: int, second: int) -> None:
    # Each strategy earns the same in five episodes of its own. If one group of five keeps its signs, its ratio is that of the best.
    pnl = np.zeros((10, 2))
    pnl[:5, 0], pnl[5:, 1] = first, second
    assert p_value(pnl) == (32 + 32 - 1) / 1024


def rows(pnl: dict[str, list[float]], unsettled: tuple[int, ...] = ()) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"agent": agent, "rules": "r", "episode": f"E{place}", "pnl": Decimal(str(value)), "unsettled": place in unsettled}
            for agent, values in pnl.items()
            for place, value in enumerate(values)
        ],
        schema_overrides={"pnl": pl.Decimal(18, 6)},
    )


def test_the_best_is_that_with_the_largest_total_of_settled_episodes() -> None:
    frame = rows({"a": [1, 1, 1, 1, 1, 90], "b": [2, 2, 2, 2, 2, 0]}, unsettled=(5,))
    check = reality_check(frame)
    assert (check.agents, check.episodes, check.best, check.pnl, check.p_value) == (2, 5, "b", Decimal(10), 1 / 32)
    assert "p = 0.031" in check.meaning()


def test_few_episodes_have_no_p_value() -> None:
    check = reality_check(rows({"a": [1, 1, 1, 1]}))
    assert check.p_value is None
    assert reality_check(rows({"a": [1]}, unsettled=(0,))).p_value is None
    assert reality_check(rows({"a": [0] * 6})).p_value == 1


def test_the_order_of_rows_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    frame = rows({f"a{n}": [round(float(value), 6) for value in rng.standard_normal(14)] for n in range(9)})
    assert reality_check(frame.sample(fraction=1, shuffle=True, seed=1)) == reality_check(frame)
