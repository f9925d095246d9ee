"""Metrics of real backtests, recomputed plainly from orders, fills and samples."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from decimal import Decimal
from itertools import pairwise

import pytest

from bellwether.replay import Backtest, BacktestSettings, run
from bellwether.replay.agents.baselines import Passive
from bellwether.replay.engine import codes
from bellwether.replay.engine.codes import Role, Status
from bellwether.replay.results.exposure import exposure
from bellwether.replay.results.metrics import HORIZONS, metrics, sampled_curve
from bellwether.replay.units import CONTRACT, MICROS, SECOND, SELL
from tests.reference.replay.random_tapes import Shape, random_tape
from tests.unit.replay.results.traders import RULES, backtest_random, rows_of

RUNS = [(rules, seed) for rules in RULES for seed in range(2)]


@pytest.fixture(params=RUNS, ids=str)
def backtest(request: pytest.FixtureRequest) -> Backtest:
    return backtest_random(*request.param)


def test_the_runs_trade_as_makers_and_takers_and_are_refused_too() -> None:
    roles = {role for rules, seed in RUNS for (role,) in rows_of(backtest_random(rules, seed), "fills", codes.F_ROLE)}
    statuses = {status for rules, seed in RUNS for (status,) in rows_of(backtest_random(rules, seed), "orders", codes.O_STATUS)}
    assert roles == {Role.TAKER, Role.MAKER}
    assert {Status.FILLED, Status.CANCELLED, Status.REJECTED} <= statuses


def test_money_is_exact_and_adds_up(backtest: Backtest) -> None:
    row, outcome = metrics(backtest), backtest.outcome
    assert row["pnl"] == row["final_equity"] - row["bankroll"]
    assert row["final_equity"] * MICROS == outcome.equity[0]
    assert [row[name] * MICROS for name in ("pnl_pessimistic", "pnl_optimistic")] == list(outcome.pnl[1:])
    marked = Decimal(outcome.equity[0] - outcome.cash - int(outcome.basis.sum())) / MICROS
    assert row["pnl"] == row["realised"] - row["fees"] + marked
    assert row["return"] == pytest.approx(float(row["pnl"]) / 500)
    assert -row["fees"] * MICROS == -sum(fee for (fee,) in rows_of(backtest, "fills", codes.F_FEE))


def test_what_was_realised_came_by_trading_or_by_settlement_to_the_last_micro_dollar(backtest: Backtest) -> None:
    held = exposure(backtest.tape, backtest.outcome.fills, apart=backtest.rules.netting == "apart")
    assert held.traded + held.settled == backtest.outcome.realised
    assert 0 <= held.share <= 1


def test_slippage_is_the_cost_beyond_the_middle_of_fills_as_taker(backtest: Backtest) -> None:
    middles = [mid2 for (mid2,) in rows_of(backtest, "orders", codes.O_MID2)]
    paid, lots = Decimal(0), 0
    columns = (codes.F_ORDER, codes.F_ACTION, codes.F_PRICE, codes.F_LOTS, codes.F_ROLE)
    for order, action, price, size, role in rows_of(backtest, "fills", *columns):
        if role == Role.TAKER and middles[order] >= 0:
            beyond = (price - Decimal(middles[order]) / 2) / 10_000 * size / 100
            paid, lots = paid + (-beyond if action == SELL else beyond), lots + size
    row = metrics(backtest)
    assert row["slippage"] == paid
    assert row["slippage_per_contract"] == pytest.approx(float(paid) * CONTRACT / lots)


def test_the_fill_ratio_counts_as_the_rules_say(backtest: Backtest) -> None:
    orders = rows_of(backtest, "orders", codes.O_COUNT, codes.O_FILLED, codes.O_TAKEN, codes.O_STATUS)
    made = [
        (order, lots) for order, lots, role in rows_of(backtest, "fills", codes.F_ORDER, codes.F_LOTS, codes.F_ROLE) if role == Role.MAKER
    ]
    if backtest.rules.fill_ratio == "pmb":
        asked = sum(count for count, _, taken, _ in orders if taken) + sum(orders[order][0] for order, _ in made)
        expected = (sum(taken for _, _, taken, _ in orders) + sum(lots for _, lots in made)) / asked
    else:
        accepted = [order for order in orders if order[3] not in {Status.REJECTED, Status.PENDING}]
        expected = sum(order[1] for order in accepted) / sum(order[0] for order in accepted)
    assert metrics(backtest)["fill_ratio"] == expected


def test_counts_shares_and_waits(backtest: Backtest) -> None:
    row = metrics(backtest)
    fills = rows_of(backtest, "fills", codes.F_LOTS, codes.F_PRICE, codes.F_ROLE, codes.F_WAIT)
    total, made = sum(fill[0] for fill in fills), [fill for fill in fills if fill[2] == Role.MAKER]
    rejected = Counter(
        codes.Reason(reason).name.lower()
        for status, reason in rows_of(backtest, "orders", codes.O_STATUS, codes.O_REASON)
        if status == Status.REJECTED
    )
    assert (row["orders"], row["fills"], row["contracts"]) == (len(backtest.outcome.orders), len(fills), Decimal(total) / 100)
    assert json.loads(row["rejections"]) == rejected
    assert row["rejected"] == rejected.total()
    assert row["maker_share"] == sum(fill[0] for fill in made) / total
    assert row["turnover"] == pytest.approx(sum(lots * price for lots, price, _, _ in fills) / MICROS / 500)
    assert row["queue_wait_median"] == pytest.approx(statistics.median(fill[3] for fill in made) / SECOND)
    assert row["queue_wait_mean"] == pytest.approx(statistics.mean(fill[3] for fill in made) / SECOND)


def test_drawdown_and_sharpe_are_of_the_sampled_curve_that_begins_with_the_bankroll(backtest: Backtest) -> None:
    ts, equity = (column.tolist() for column in sampled_curve(backtest))
    assert equity[0] == backtest.bankroll
    row, peak, worst = metrics(backtest), 0, 0.0
    for value in equity:
        peak = max(peak, value)
        worst = max(worst, (peak - value) / peak)
    assert row["max_drawdown"] == worst
    kept = [0]
    for index in range(1, len(ts)):
        if ts[index] - ts[kept[-1]] >= 5 * SECOND:
            kept.append(index)
    returns = [(equity[late] - equity[early]) / equity[early] for early, late in pairwise(kept)]
    assert row["sharpe"] == pytest.approx(statistics.mean(returns) / statistics.stdev(returns))
    assert row["sharpe_annualised"] == pytest.approx(row["sharpe"] * math.sqrt(525_960 * 12))
    assert row["sample_seconds"] == 5.0


def test_adverse_selection_weighs_the_markouts_of_maker_fills_by_contracts(backtest: Backtest) -> None:
    from bellwether.replay.results.markouts import NONE, markouts

    fills = backtest.outcome.fills
    values = markouts(backtest.tape, fills, HORIZONS).tolist()
    row = metrics(backtest)
    for column, seconds in enumerate(HORIZONS):
        known = [
            (value[column], fill[codes.F_LOTS])
            for value, fill in zip(values, fills.tolist(), strict=True)
            if value[column] != NONE and fill[codes.F_ROLE] == Role.MAKER
        ]
        expected = sum(value * lots for value, lots in known) / sum(lots for _, lots in known) / MICROS
        assert row[f"adverse_selection_{seconds}s"] == pytest.approx(expected)


def test_horizons_that_are_not_asked_for_are_null() -> None:
    row = metrics(backtest_random(), horizons=(5,))
    assert row["adverse_selection_5s"] is not None
    assert row["adverse_selection_1s"] is None


def test_an_agent_that_failed_has_a_row_that_says_so() -> None:
    row = metrics(backtest_random(fails=20))
    assert row["failure"].startswith("ValueError: the <b>market</b> | is")
    assert row["failed_step"] == 20


def test_orders_that_never_arrived_were_not_accepted() -> None:
    row = metrics(backtest_random(latency=10**15))
    assert (row["orders"] > 0, row["fill_ratio"], row["fills"], row["maker_share"]) == (True, None, 0, None)


def test_an_agent_that_does_nothing_earns_nothing_and_what_is_undefined_is_null() -> None:
    settings = BacktestSettings(rules=RULES[0], bankroll=MICROS, execution="maker_taker", queue="proportional")
    row = metrics(run(random_tape(1, Shape()), Passive(), settings))
    assert (row["pnl"], row["max_drawdown"], row["time_in_market"], row["turnover"], row["rejections"]) == (0, 0.0, 0.0, 0.0, "{}")
    undefined = ("sharpe", "sharpe_annualised", "slippage", "slippage_per_contract", "fill_ratio", "maker_share", "queue_wait_median")
    assert [name for name in (*undefined, "queue_wait_mean", "adverse_selection_1s", "failure") if row[name] is not None] == []
