"""The compiled engine exactly equals a plain engine written independently from the same rules: random tapes, random agents."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from bellwether.replay.engine import Session
from bellwether.replay.engine.clock import AT_DECISION
from bellwether.replay.rules import RuleSet, rule_set
from bellwether.replay.settings import BacktestSettings
from tests.reference.replay import Reference
from tests.reference.replay.both_engines import REASONS, STATUSES, compare, recording
from tests.reference.replay.random_tapes import SECOND, Behaviour, RandomAgent, Shape, random_tape

#: Fee terms as rows of a tape: none; Kalshi's general rates; an odd multiplier with a waiver in the middle of the tape; Polymarket's kinds.
NO_FEES = (0, 0, 1, 0, 0, 1, 0)
KALSHI = (1, 7, 100, 1, 7, 400, 0)
WAIVED = (1, 91, 2_000, 1, 7, 800, (1_700_000_000 + 60) * SECOND)
BY_SHARES = (2, 1, 40, 2, 1, 100, 0)
BY_SHARES_2 = (3, 1, 4, 0, 0, 1, 0)
BY_VALUE = (4, 7, 40, 5, 1, 4, 0)

RICH, POOR = 10**13, 40_000_000
LIVE = rule_set("kalshi-2026-05-28")
FAST = BacktestSettings(cadence=SECOND, sample_every=10 * SECOND, bankroll=RICH)
SUBCENT = Shape(tick=10, lot=1, spread_out=12)


def _like(rules: RuleSet = LIVE, **changes: object) -> RuleSet:
    return replace(rules, **changes)


#: Mode -> (rules, settings, shape of the tape).
MODES: dict[str, tuple[RuleSet, BacktestSettings, Shape]] = {
    "kalshi-2021-07-01": (rule_set("kalshi-2021-07-01"), FAST, Shape(fees=NO_FEES)),
    "kalshi-2025-07-01": (rule_set("kalshi-2025-07-01"), FAST, Shape()),
    "kalshi-2026-03-09": (rule_set("kalshi-2026-03-09"), FAST, Shape(fees=WAIVED)),
    "kalshi-2026-05-28": (LIVE, FAST, SUBCENT),
    "kalshi-2026-05-28-cents": (rule_set("kalshi-2026-05-28-cents"), FAST, SUBCENT),
    "kalshi-2026-08-30": (rule_set("kalshi-2026-08-30"), FAST, replace(SUBCENT, fees=WAIVED)),
    "kalshi-2026-08-30-cents": (rule_set("kalshi-2026-08-30-cents"), FAST, SUBCENT),
    "polymarket-2020-10-01": (rule_set("polymarket-2020-10-01"), FAST, replace(SUBCENT, fees=NO_FEES)),
    "polymarket-2026-01-01": (rule_set("polymarket-2026-01-01"), FAST, replace(SUBCENT, fees=BY_SHARES_2)),
    "polymarket-2026-03-06": (rule_set("polymarket-2026-03-06"), FAST, replace(SUBCENT, fees=BY_VALUE)),
    "polymarket-2026-04-01": (rule_set("polymarket-2026-04-01"), FAST, replace(SUBCENT, fees=BY_SHARES)),
    "half a cent": (LIVE, FAST, replace(SUBCENT, tick=50)),
    "a quarter of a cent": (LIVE, FAST, replace(SUBCENT, tick=25)),
    "a hundredth of a cent": (LIVE, FAST, replace(SUBCENT, tick=1)),
    "tapered": (LIVE, FAST, Shape(tapered=10, lot=1, spread_out=40)),
    "finer later": (LIVE, FAST, Shape(later=10, lot=1)),
    "coarser later": (LIVE, replace(FAST, order_latency=SECOND // 4), replace(SUBCENT, later=50)),
    "trade_only": (LIVE, replace(FAST, queue="trade_only"), Shape()),
    "proportional": (LIVE, replace(FAST, queue="proportional"), SUBCENT),
    "proportional:3": (LIVE, replace(FAST, queue="proportional:3"), SUBCENT),
    "optimistic": (LIVE, replace(FAST, queue="optimistic"), SUBCENT),
    **{f"sampled:{history}": (LIVE, replace(FAST, queue=f"sampled:{history}"), SUBCENT) for history in range(5)},
    "taker only": (LIVE, replace(FAST, execution="taker_only"), Shape()),
    "order latency": (LIVE, replace(FAST, order_latency=SECOND // 4), SUBCENT),
    "order latency longer than the cadence": (LIVE, replace(FAST, order_latency=9 * SECOND // 4), SUBCENT),
    "data latency": (LIVE, replace(FAST, data_latency=SECOND // 2), SUBCENT),
    "both latencies": (LIVE, replace(FAST, data_latency=SECOND, order_latency=SECOND), SUBCENT),
    "odd times": (LIVE, replace(FAST, cadence=777_777_777, sample_every=1_234_567_891, order_latency=100_000_001), SUBCENT),
    "cancel the maker": (LIVE, replace(FAST, self_trade="cancel_maker"), SUBCENT),
    "cancel the maker, poor": (LIVE, replace(FAST, self_trade="cancel_maker", bankroll=POOR), SUBCENT),
    "whole contracts": (_like(min_lots=300, lot_step=100), FAST, Shape()),
    "pairs of lots": (_like(min_lots=2, lot_step=2), FAST, SUBCENT),
    "poor": (LIVE, replace(FAST, bankroll=POOR), SUBCENT),
    "few orders": (LIVE, replace(FAST, max_orders=200, max_resting=3), SUBCENT),
    "books locked and crossed": (LIVE, FAST, replace(SUBCENT, crossed=0.4)),
    "one ticker": (LIVE, FAST, replace(SUBCENT, tickers=1)),
    "ten tickers": (LIVE, FAST, replace(SUBCENT, tickers=10)),
    "nothing but books and prints": (LIVE, FAST, replace(SUBCENT, lifecycle=False, floods=0.3)),
}


def _compare(mode: str, seed: int, temper: Behaviour, **shape: float) -> Reference:
    rules, settings, form = MODES[mode]
    form = replace(form, **shape)
    return compare(random_tape(seed, form), rules, settings, lambda: RandomAgent(seed, form, temper).act)


@pytest.mark.parametrize("mode", MODES)
def test_both_engines_agree_in_every_mode(mode: str) -> None:
    assert len(_compare(mode, 0, Behaviour(stack=5), instants=130).fills) > 20


@pytest.mark.parametrize("mode", ["kalshi-2026-05-28", "cancel the maker"])
def test_both_engines_agree_on_piles_of_large_orders(mode: str) -> None:
    assert _compare(mode, 7, Behaviour(stacks=0.3, stack=30, huge=0.3), instants=100).fills


@pytest.mark.parametrize("mode", ["kalshi-2021-07-01", "order latency", "data latency", "tapered"])
def test_both_engines_agree_on_quotes(mode: str) -> None:
    assert len(_compare(mode, 3, Behaviour(quotes=0.8, stack=5), instants=130).fills) > 20


ENORMOUS = replace(SUBCENT, largest=5_000_000, instants=120)


@pytest.mark.parametrize(
    ("rules", "fees"),
    [
        (LIVE, KALSHI),
        (rule_set("kalshi-2026-08-30-cents"), WAIVED),
        (rule_set("polymarket-2026-01-01"), BY_SHARES_2),
        (rule_set("polymarket-2026-03-06"), BY_VALUE),
    ],
)
def test_no_number_leaves_64_bits(rules: RuleSet, fees: tuple[int, ...]) -> None:
    form, rich = replace(ENORMOUS, fees=fees), replace(FAST, bankroll=10**15)
    fills = compare(random_tape(1, form), rules, rich, lambda: RandomAgent(1, form, Behaviour(largest=2_000_000)).act).fills
    assert max(fill.lots for fill in fills) > 10**8


def test_an_order_whose_rounding_the_cash_cannot_pay_is_cancelled_in_both_engines() -> None:
    form, broke = replace(SUBCENT, largest=1, fees=NO_FEES), replace(FAST, bankroll=400_000)
    crumbs, rules = Behaviour(odd_lots=1.0, huge=0, sweeps=0), rule_set("kalshi-2026-03-09")
    replays = [compare(random_tape(seed, form), rules, broke, lambda seed=seed: RandomAgent(seed, form, crumbs).act) for seed in range(2)]
    assert any((order.status, order.reason) == ("cancelled", "insufficient_cash") for replay in replays for order in replay.orders)


#: Modes, cases and fills of the long comparison. Each case replays tapes until it has compared its share of fills.
CROWDED = (
    "kalshi-2026-05-28",
    "proportional",
    "both latencies",
    "cancel the maker",
    "kalshi-2026-08-30-cents",
)
#: Fills in each case.
CASES, EACH = 10, 3_000
#: Agents and tapes: one agent sweeps deep books, one waits in the queues.
CROWDS = {
    "taker": (
        Behaviour(orders=8, stacks=0, largest=60, huge=0.8, sweeps=0.9, wild=0.01, cancels=0.6, clears=0.1, turns=10),
        {"trades": 0.15},
    ),
    "maker": (Behaviour(orders=2, stacks=0.05, stack=10, largest=60, huge=0.8, sweeps=0.1, wild=0.01, turns=10), {"trades": 0.85}),
}


@pytest.mark.nightly
@pytest.mark.parametrize("case", range(CASES))
def test_both_engines_agree_on_many_fills(case: int) -> None:
    number, mode = divmod(case, len(CROWDED))
    role = ("taker", "maker")[number % 2]
    temper, shape = CROWDS[role]
    roles: Counter[str] = Counter()
    for tape in itertools.count():
        plain = _compare(CROWDED[mode], 1000 * case + tape, temper, **{"instants": 200, "busy": 40, "spread_out": 60, **shape})
        roles.update(fill.role for fill in plain.fills)
        if roles.total() >= EACH:
            break
    assert roles[role] > EACH // 2


# Updates of own orders: each change once, in order, at its time


FINE = Shape(tick=1, lot=1, spread_out=12, instants=120)
UPDATES: dict[str, Any] = {
    "at once": (LIVE, FAST, FINE),
    "order latency": (LIVE, replace(FAST, order_latency=SECOND // 4), FINE),
    "cancel the maker": (LIVE, replace(FAST, self_trade="cancel_maker"), FINE),
    "crossed books": (LIVE, FAST, replace(FINE, crossed=0.4)),
}


def both(mode: str, seed: int) -> tuple[Reference, list[tuple[int, ...]], list[tuple[int, int]]]:
    """Run both engines. Returns the plain engine, and the compiled engine's updates with the time at which each was reported."""
    rules, settings, shape = UPDATES[mode]
    tape, act = random_tape(seed, shape), RandomAgent(seed, shape, Behaviour()).act
    plain, compiled = Reference(recording(tape), rules, settings), Session(tape, rules, settings)
    plain.tells = True
    compiled.watch(orders=True)
    rows: list[tuple[int, ...]] = []
    told: list[tuple[int, int]] = []
    while found := compiled.advance():
        if found == AT_DECISION:
            assert plain.step()
            for name, arguments in act(plain):
                getattr(plain, name)(*arguments)
                getattr(compiled, name)(*arguments)
        fresh = [row[:7] for row in compiled.news()[1]]
        rows += fresh
        told += [(compiled.now, ts) for ts, *_ in fresh]
    assert not plain.step()
    rows += [row[:7] for row in compiled.news()[1]]
    assert compiled.result().cash == plain.account.cash
    return plain, rows, told


@pytest.mark.parametrize("mode", UPDATES)
def test_both_engines_say_the_same_of_orders(mode: str) -> None:
    plain, rows, told = both(mode, 0)
    expected = [(one.ts, one.order, STATUSES[one.status], REASONS[one.reason], one.price, one.count, one.filled) for one in plain.updates]
    assert rows == expected
    assert Counter(one.status for one in plain.updates).keys() >= {"resting", "filled", "cancelled", "rejected"}
    assert {now - ts for now, ts in told if now < plain.end} == {0}
