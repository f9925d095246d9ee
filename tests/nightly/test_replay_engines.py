"""The compiled and the plain engine agree on episodes of recordings of the real venue."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bellwether.replay import Prepared, prepare
from bellwether.replay.preparation import merge_tapes, replace_units
from bellwether.replay.rules import combine_rules
from bellwether.replay.settings import BacktestSettings
from bellwether.replay.tape.layout import CLOSE, SETTLE, VOID, Tape, unpack
from bellwether.replay.units import MICROS, SECOND
from tests.captures import Captures
from tests.reference.replay.both_engines import beginning_of, merge_parts, replay_both, shift
from tests.reference.replay.random_tapes import Behaviour, RandomAgent, Shape

pytestmark = pytest.mark.real

#: Maximum number of events per episode, because the plain engine is slow.
EVENTS = 25_000
#: The agent cancels its orders regularly, because each arrival costs the plain engine a pass over all resting orders.
TEMPER = Behaviour(orders=9, stacks=0.02, stack=10, largest=200, odd_lots=0.2, clears=0.05)
SETTINGS = {
    "as it was": BacktestSettings(cadence=10 * SECOND, bankroll=10_000 * MICROS),
    "optimistic, late": BacktestSettings(
        cadence=10 * SECOND, bankroll=10_000 * MICROS, queue="optimistic", order_latency=150_000_000, data_latency=70_000_000
    ),
    "proportional, often": BacktestSettings(cadence=3 * SECOND, bankroll=100 * MICROS, queue="proportional", self_trade="cancel_maker"),
}


@cache
def _prepared(captures: Captures, folder: str, rules: str | None = None) -> Prepared:
    return prepare(captures.built(folder)[0].episode, rules)


def _fills(prepared: Prepared, settings: BacktestSettings) -> int:
    tape = beginning_of(prepared.tape, EVENTS)
    agent = RandomAgent(11, Shape(tickers=len(tape.tickers), tick=100), TEMPER)
    return len(replay_both(tape, prepared.rules, settings, agent.act).fills)


@pytest.mark.parametrize(("folder", "settings"), zip(["ws_nba_2026_03", "ws_btc15m_2026_05", "orders_spx_2023"], SETTINGS, strict=True))
def test_both_engines_agree_on_recorded_books(captures: Captures, folder: str, settings: str) -> None:
    assert _fills(_prepared(captures, folder), SETTINGS[settings]) > 50


def beginning(tape: Tape, events: int) -> Tape:
    """Return the first events of a tape and the ends of its markets. Without ends there would be decisions until the end of the portfolio."""
    ends = [index for index in range(events, len(tape)) if unpack(int(tape.event[index]))[0] in (CLOSE, SETTLE, VOID)]
    kept = np.array([*range(events), *ends])
    return replace(tape, ts=tape.ts[kept], event=tape.event[kept])


def test_both_engines_agree_on_a_portfolio_of_recordings(captures: Captures) -> None:
    """A game of March and a quarter of an hour of May under the later rules, moved to the same evening, with one bankroll."""
    chosen = {"ws_nba_2026_03": None, "ws_btc15m_2026_05": "kalshi-2026-05-28"}
    prepared = [_prepared(captures, folder, rules) for folder, rules in chosen.items()]
    evening = prepared[0].tape.start
    delays = (0, 60 * SECOND)
    parts = [
        (shift(beginning(one.tape, 10_000), evening - one.tape.start + by), one.rules) for one, by in zip(prepared, delays, strict=True)
    ]
    tape = merge_tapes([replace_units(one, rules.units) for one, rules in parts])
    agent = RandomAgent(12, Shape(tickers=len(tape.tickers), tick=100), TEMPER)
    replay = replay_both(
        tape, combine_rules([rules for _, rules in parts]), SETTINGS["optimistic, late"], agent.act, merged=merge_parts(parts)
    )
    assert len({fill.ticker for fill in replay.fills}) == len(tape.tickers)
    assert parts[0][1].name != parts[1][1].name
