"""Updates of own orders equal the plain engine's: each change once, in order, at its time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from bellwether.replay.engine import ReplaySettings, Session
from bellwether.replay.engine.clock import AT_DECISION
from bellwether.replay.engine.codes import U_FILLED
from bellwether.replay.rules import rule_set
from tests.reference.replay import Reference
from tests.reference.replay.both_engines import REASONS, STATUSES, recording
from tests.reference.replay.random_tapes import SECOND, Behaviour, RandomAgent, Shape, random_tape
from tests.unit.replay.engine.small_tapes import LIVE

FAST = ReplaySettings(cadence=SECOND, sample_every=10 * SECOND, bankroll=10**13)
SUBCENT = Shape(tick=1, lot=1, spread_out=12, instants=120)
ORIGINAL = rule_set("pmb-2026-01")
MODES: dict[str, Any] = {
    "at once": (LIVE, FAST, SUBCENT),
    "order latency": (LIVE, replace(FAST, order_latency=SECOND // 4), SUBCENT),
    "response latency": (LIVE, replace(FAST, order_latency=SECOND // 4, response_latency=SECOND), SUBCENT),
    "cancel the maker": (LIVE, replace(FAST, self_trade="cancel_maker"), SUBCENT),
    "crossed books": (LIVE, FAST, replace(SUBCENT, crossed=0.4)),
    "frozen": (ORIGINAL, FAST, Shape(rows=True, instants=120)),
}


def both(mode: str, seed: int) -> tuple[Reference, list[tuple[int, ...]], list[tuple[int, int]]]:
    """Run both engines. Returns the plain engine, and the compiled engine's updates with the time at which each was reported."""
    rules, settings, shape = MODES[mode]
    tape, act = random_tape(seed, shape), RandomAgent(seed, shape, Behaviour()).act
    plain, compiled = Reference(recording(tape), rules, settings), Session(tape, rules, settings)
    plain.tells = True
    compiled.stop_at_news(orders=True)
    rows: list[tuple[int, ...]] = []
    told: list[tuple[int, int]] = []
    while found := compiled.advance():
        if found == AT_DECISION:
            assert plain.step()
            for name, arguments in act(plain):
                getattr(plain, name)(*arguments)
                getattr(compiled, name)(*arguments)
        fresh = compiled.updates()
        rows += map(tuple, fresh[:, : U_FILLED + 1].tolist())
        told += [(compiled.now, int(ts)) for ts in fresh[:, 0]]
    assert not plain.step()
    # At the end of the tape everything is known, including results that would have arrived later.
    rows += map(tuple, compiled.updates()[:, : U_FILLED + 1].tolist())
    assert compiled.result().cash == plain.account.cash
    return plain, rows, told


@pytest.mark.parametrize("mode", MODES)
def test_both_engines_say_the_same_of_orders(mode: str) -> None:
    plain, rows, told = both(mode, 0)
    expected = [(one.ts, one.order, STATUSES[one.status], REASONS[one.reason], one.price, one.count, one.filled) for one in plain.updates]
    assert rows == expected
    assert Counter(one.status for one in plain.updates).keys() >= {"resting", "filled", "cancelled", "rejected"}
    # An agent learns of a change as soon as the answer arrives.
    settings = MODES[mode][1]
    assert {now - ts for now, ts in told if now < plain.end} == {max(settings.data_latency, settings.response_latency)}
