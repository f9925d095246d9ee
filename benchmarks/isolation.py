"""Cost of running an agent in a process of its own ("isolated"): time per decision relative to the simulator's process, and time to start the
process.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from bellwether.replay import Backtest, BacktestSettings, Prepared, prepare
from bellwether.replay import run as replay
from bellwether.replay.agents.agent import Agent
from bellwether.replay.agents.builtin import Passive
from bellwether.replay.agents.market_maker import MarketMaker, VectorMarketMaker
from bellwether.replay.tape.layout import Tape
from bellwether.replay.units import SECOND
from benchmarks._replay.market import RULES, synthetic

ROUNDS = 5
#: Most times as long, in real time, as in one process; a start in seconds.
PER_DECISION, START_SECONDS = 15.0, 2.0


def _seconds(source: Prepared, agent: Agent, *, isolated: bool) -> tuple[float, Backtest]:
    begun = time.perf_counter()
    done = replay(source, agent, BacktestSettings(rules=RULES, cadence=60 * SECOND), isolated=isolated)
    return time.perf_counter() - begun, done


def costs(source: Prepared, kind: type[Agent]) -> dict[str, float]:
    """Return medians over interleaved rounds: seconds per decision in the simulator's process (here) and isolated (there), the ratio, and seconds
    to start.

    The time to start, measured on a tape without events, is subtracted.
    """
    empty = prepare(
        Tape(source.tape.ts[:1], source.tape.event[:1], source.tape.tickers, source.tape.start, source.tape.start + SECOND), RULES
    )
    here, there, ratios, starts = [], [], [], []
    for number in range(ROUNDS + 1):
        started, _ = _seconds(empty, Passive(), isolated=True)
        inside, one = _seconds(source, kind(), isolated=False)
        outside, two = _seconds(source, kind(), isolated=True)
        if one.digest != two.digest:
            raise AssertionError(f"{kind.__name__}: the fills differ")
        if number:
            here.append(inside / one.steps)
            there.append((outside - started) / one.steps)
            ratios.append(there[-1] / here[-1])
            starts.append(started)
    return {"here": median(here), "there": median(there), "ratio": median(ratios), "start": median(starts)}


def run() -> list[dict[str, Any]]:
    """Measure the cost of isolation for two makers in Python. Returns [{name, ratio, target, detail}]."""
    source, rows, start = prepare(synthetic(), RULES), [], 0.0
    for kind, words in ((MarketMaker, "plain Python maker"), (VectorMarketMaker, "Python maker over arrays")):
        cost = costs(source, kind)
        start = cost["start"]
        rows.append(
            {
                "name": f"isolation: {words}, a decision in its own process over one in the simulator's",
                "ratio": cost["ratio"],
                "target": PER_DECISION,
                "detail": f"{cost['there'] * 1e6:.0f} us against {cost['here'] * 1e6:.0f} us, 10 tickers, 1,441 decisions at 60 s",
            }
        )
    rows.append({"name": "isolation: start of a process", "ratio": start / START_SECONDS, "target": 1.0, "detail": f"{start:.2f} s"})
    return rows
