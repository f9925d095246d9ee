"""Tapes of different venues as one portfolio: the compiled engine exactly equals the plain one, which merges them independently."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bellwether.replay.engine import Session
from bellwether.replay.engine.schedule import build_schedule
from bellwether.replay.preparation import merge_tapes, replace_units
from bellwether.replay.rules import RuleSet, combine_rules, rule_set
from bellwether.replay.settings import BacktestSettings
from bellwether.replay.tape.layout import FEE_UNIT, LOT_STEP, TICKER_MASK, TICKER_SHIFT, UNIT_COLS, Tape
from tests.reference.replay import Reference
from tests.reference.replay.both_engines import merge_parts, recording, replay_both, shift
from tests.reference.replay.random_tapes import SECOND, Behaviour, RandomAgent, Shape, random_tape
from tests.reference.replay.test_engine import BY_SHARES, BY_SHARES_2, BY_VALUE, KALSHI, NO_FEES, POOR, RICH, WAIVED

FAST = BacktestSettings(cadence=SECOND, sample_every=10 * SECOND, bankroll=RICH)
CENTS, SUBCENT = Shape(), Shape(tick=10, lot=1, spread_out=12)
#: Rules, shape and start (quarters of a second after the first start) of each episode.
Part = tuple[str, Shape, int]
KALSHI_AND_POLYMARKET: tuple[Part, ...] = (
    ("kalshi-2026-05-28", replace(SUBCENT, fees=KALSHI), 0),
    ("polymarket-2026-04-01", replace(SUBCENT, fees=BY_SHARES), 7),
)
#: Mode -> (parts, settings).
MODES: dict[str, tuple[tuple[Part, ...], BacktestSettings]] = {
    "two venues": (KALSHI_AND_POLYMARKET, FAST),
    "two venues, poor": (KALSHI_AND_POLYMARKET, replace(FAST, bankroll=POOR)),
    "two venues, late": (KALSHI_AND_POLYMARKET, replace(FAST, order_latency=SECOND // 4, data_latency=SECOND // 2)),
    "two venues, proportional, cancel the maker": (KALSHI_AND_POLYMARKET, replace(FAST, queue="proportional", self_trade="cancel_maker")),
    "two venues, taker only": (KALSHI_AND_POLYMARKET, replace(FAST, execution="taker_only")),
    "one after the other": ((("kalshi-2026-03-09", CENTS, 0), ("kalshi-2026-03-09", CENTS, 5000)), FAST),
    "cents, units and shares": (
        (
            ("kalshi-2026-03-09", replace(CENTS, fees=WAIVED), 0),
            ("kalshi-2026-08-30-cents", replace(SUBCENT, tickers=1), 3),
            ("polymarket-2026-01-01", replace(SUBCENT, tickers=3, fees=BY_SHARES_2), 3),
            ("polymarket-2026-03-06", replace(CENTS, tickers=1, fees=BY_VALUE), 160),
            ("kalshi-2021-07-01", replace(CENTS, tickers=1, fees=NO_FEES), 800),
        ),
        replace(FAST, bankroll=20 * POOR),
    ),
    "three ways to round": (
        (
            ("kalshi-2026-05-28", replace(SUBCENT, tickers=1, fees=KALSHI), 0),
            ("kalshi-2026-08-30", replace(SUBCENT, tickers=1, fees=KALSHI), 1),
            ("kalshi-2026-08-30-cents", replace(SUBCENT, tickers=1, fees=KALSHI), 2),
        ),
        FAST,
    ),
}


class PortfolioAgent(RandomAgent):
    """Send each order like an agent of one of the episodes: with its ticks, to its markets."""

    def __init__(self, seed: int, shapes: list[Shape], temper: Behaviour) -> None:
        super().__init__(seed, replace(shapes[0], tickers=sum(shape.tickers for shape in shapes)), temper)
        self.all, self.shapes = self.shape, shapes

    def _order(self, engine: Any) -> tuple[int, ...]:
        number = self.rng.randrange(len(self.shapes))
        first = sum(shape.tickers for shape in self.shapes[:number])
        self.shape = self.shapes[number]
        there = SimpleNamespace(markets=engine.markets[first:], grid=engine.grid[first:], now=engine.now)
        ticker, *order = super()._order(there)
        self.shape = replace(self.shape, tickers=self.all.tickers)
        return ticker + first, *order


def _parts(parts: tuple[Part, ...], seed: int, **changes: Any) -> list[tuple[Tape, RuleSet]]:
    made = []
    for number, (rules, shape, start) in enumerate(parts):
        tape = random_tape(1000 * seed + number, replace(shape, **changes))
        made.append((shift(tape, start * SECOND // 4, f"E{number}-"), rule_set(rules)))
    return made


def _merged(parts: list[tuple[Tape, RuleSet]]) -> tuple[Tape, RuleSet]:
    rules = combine_rules([one for _, one in parts])
    return merge_tapes([replace_units(tape, one.units) for tape, one in parts]), rules


def _compare(mode: str, seed: int, temper: Behaviour, **changes: Any) -> Reference:
    form, settings = MODES[mode]
    parts = _parts(form, seed, **changes)
    tape, rules = _merged(parts)
    agent = PortfolioAgent(seed, [replace(shape, **changes) for _, shape, _ in form], temper)
    return replay_both(tape, rules, settings, agent.act, merged=merge_parts(parts))


@pytest.mark.parametrize("mode", MODES)
def test_both_engines_agree_on_portfolios(mode: str) -> None:
    fills = _compare(mode, 0, Behaviour(orders=6, stack=6), instants=200).fills
    assert len(fills) > 30
    assert len({fill.ticker for fill in fills}) >= len(MODES[mode][0])


@pytest.mark.parametrize("column", range(UNIT_COLS))
def test_a_market_under_the_units_of_another_is_noticed(column: int) -> None:
    form, settings = MODES["two venues" if column < FEE_UNIT else "three ways to round"]
    changes = {"instants": 600}
    parts = _parts(form, 2, **changes)
    tape, rules = _merged(parts)
    units = tape.units.copy()
    units[:, column] = np.roll(units[:, column], len(parts[0][0].tickers))
    units[:, LOT_STEP] += 2 * (column == LOT_STEP)
    assert (units != tape.units).any()
    agent = PortfolioAgent(2, [replace(shape, **changes) for _, shape, _ in form], Behaviour(orders=8, odd_lots=0.9, huge=0.3, sweeps=0.8))
    with pytest.raises(AssertionError):
        replay_both(replace(tape, units=units), rules, settings, agent.act, merged=merge_parts(parts))


@pytest.mark.nightly
@pytest.mark.parametrize(("seed", "mode"), list(enumerate(MODES))[:2])
def test_both_engines_agree_on_many_fills_of_portfolios(seed: int, mode: str) -> None:
    temper = Behaviour(orders=8, stacks=0.05, stack=10, largest=60, huge=0.2, sweeps=0.4, wild=0.01, turns=10)
    # With little cash only few orders are affordable.
    instants, fills = (600, 500) if "poor" in mode else (250, 1000)
    assert len(_compare(mode, 100 + seed, temper, instants=instants, busy=30, spread_out=30, trades=0.5).fills) > fills


def test_a_portfolio_tape_has_the_events_of_all_its_tapes_in_the_stated_order() -> None:
    parts = _parts(MODES["cents, units and shares"][0], 3)
    tape, _ = _merged(parts)
    assert recording(tape) == replace(merge_parts(parts), market_rules=())
    first = 0
    for one, rules in parts:
        codes = (tape.event >> TICKER_SHIFT) & TICKER_MASK
        own = (codes >= first) & (codes < first + len(one.tickers))
        assert np.array_equal(tape.event[own] - (first << TICKER_SHIFT), one.event)
        assert np.array_equal(tape.ts[own], one.ts)
        assert tape.units[first].tolist() == list(rules.units)
        first += len(one.tickers)


def test_nothing_is_decided_while_no_recording_runs() -> None:
    parts = _parts((("kalshi-2026-03-09", CENTS, 0), ("kalshi-2026-03-09", CENTS, 40_000)), 1, instants=50)
    tape, rules = _merged(parts)
    decisions = Session(tape, rules, FAST).decisions
    (first, _), (second, _) = parts
    assert not ((decisions > first.end) & (decisions < second.start)).any()
    assert (decisions[decisions >= second.start] - second.start).tolist()[:2] == [0, SECOND]
    assert len(build_schedule(tape, FAST)) > len(decisions)
