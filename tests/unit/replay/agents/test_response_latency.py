"""Late answers to orders: the context does not know a result before the answer arrives. Files of recorded latencies."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bellwether.errors import ConfigError
from bellwether.replay import CENT, CONTRACT, SECOND, YES, Agent, AgentContext, BacktestSettings, Fill, OrderUpdate, run
from bellwether.replay.engine.agent_view import arrival_time
from bellwether.replay.engine.codes import O_SENT
from bellwether.replay.engine.latencies import LatencySeries
from bellwether.replay.engine.state import SERIES
from tests.unit.replay.agents.scenes import TRADE, market, settings, traded


class Looks(Agent):
    """Bid at the first decision, and record the state of the context at each call, in seconds and contracts."""

    api = 3

    def __init__(self, notes: list[Any]) -> None:
        self.notes = notes

    def act(self, ctx: AgentContext) -> None:
        if ctx.step == 0:
            self.order = ctx.buy("M-0", YES, 10 * CONTRACT, 45 * CENT)
        self._note(ctx, "act")

    def on_fill(self, ctx: AgentContext, fill: Fill) -> None:
        assert fill.time_ns == 90 * SECOND
        self._note(ctx, "fill")

    def on_order(self, ctx: AgentContext, update: OrderUpdate) -> None:
        self._note(ctx, f"{update.status} at {update.time_ns // SECOND}")

    def _note(self, ctx: AgentContext, what: str) -> None:
        held, order, all_fills = ctx.position("M-0"), self.order, ctx.fills(whole_run=True)
        known = {ctx.market("M-0").yes_position, held.yes_lots, int(ctx.positions[0, 0]), sum(fill.lots for fill in all_fills)}
        assert len(known) == 1
        assert (held.yes_cost > 0) == (ctx.cash < 1000 * 10**6) == bool(all_fills) == (order.cost > 0)
        assert ctx.is_resting([order]).tolist() == [order.is_resting] == [bool(ctx.resting())]
        assert ctx.available == ctx.cash - (order.remaining * 4500 if order.is_resting else 0) - (ctx.cash - ctx.available) % 4500
        self.notes.append((what, ctx.now_ns // SECOND, order.status, order.filled // CONTRACT, known.pop() // CONTRACT))


def looked(**changed: Any) -> list[Any]:
    notes: list[Any] = []
    failure = run(market(TRADE), Looks(notes), settings(**changed)).failure
    assert failure is None, failure.traceback
    return [note for note in notes if note[1] < 240]


def test_acknowledgements_and_fills_are_learned_late() -> None:
    assert looked(response_latency=40 * SECOND) == [
        ("act", 0, "pending", 0, 0),
        ("resting at 0", 40, "resting", 0, 0),
        ("act", 60, "resting", 0, 0),
        ("act", 120, "resting", 0, 0),
        ("fill", 130, "filled", 10, 10),
        ("filled at 90", 130, "filled", 10, 10),
        ("act", 180, "filled", 10, 10),
    ]


def test_they_are_never_learned_before_the_market_data_of_their_instant() -> None:
    late = looked(data_latency=40 * SECOND, response_latency=10 * SECOND)
    assert late == looked(data_latency=40 * SECOND)
    assert ("fill", 130, "filled", 10, 10) in late


def test_recorded_latencies_take_the_place_of_constants() -> None:
    series = LatencySeries(np.array([[0, 5, 25], [100, 105, 145]]) * SECOND)
    # The answer to the event at 90 seconds is interpolated between 5 -> 25 and 105 -> 145.
    assert looked(latencies=series)[3:5] == [("act", 120, "resting", 0, 0), ("fill", 127, "filled", 10, 10)]
    assert looked(latencies=series)[1] == ("resting at 5", 25, "resting", 0, 0)


def test_a_cancel_of_a_fill_that_is_not_known_yet_is_sent_and_finds_nothing() -> None:
    answers: list[Any] = []

    def act(ctx: AgentContext) -> None:
        if ctx.step == 0:
            ctx.buy("M-0", YES, 10 * CONTRACT, 45 * CENT)
        if ctx.step in (2, 3):
            answers.append((ctx.cancel(0), ctx.cancel_all(), ctx.amend(0, 44 * CENT, CONTRACT)))

    backtest = traded(act, TRADE, response_latency=40 * SECOND)
    assert answers == [(True, 1, None), (False, 0, "not_resting")]
    assert len(backtest.outcome.fills) == 1


def test_a_quote_that_was_filled_unknown_to_the_agent_is_not_sent_again() -> None:
    for response, again in ((0, 120), (40 * SECOND, 180)):
        backtest = traded(
            lambda ctx: ctx.quote("M-0", 45 * CENT, None, 10 * CONTRACT) and None if ctx.step in (0, 2, 3) else None,
            TRADE,
            response_latency=response,
        )
        assert backtest.outcome.orders[:, O_SENT].tolist() == [0, again * SECOND]


def test_settings_without_these_latencies_have_the_digests_that_they_had() -> None:
    assert BacktestSettings().digest() == "30982e8c323546ad685168f813bba28567c31173b4b532cc0033b64b1a160a86"
    series = LatencySeries(np.array([[0, 1, 2]]))
    assert len({BacktestSettings(**way).digest() for way in ({}, {"response_latency": 1}, {"latencies": series})}) == 3


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[0, 1]], "give integers of shape"),
        ([[0, 1, 2], [5, 4, 8]], "row 2: the entry latency is below 0"),
        ([[5, 6, 7], [5, 7, 8]], "row 2: it is not later than the row before"),
        ([[0, 9, 10], [5, 9, 11]], "row 2: its order arrives no later"),
        ([[0, 1, 20], [5, 6, 11]], "row 2: its answer comes before"),
    ],
)
def test_latencies_that_cannot_be_are_refused_with_their_row(rows: list[list[int]], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        LatencySeries(np.array(rows))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time_ns,entry_ns\n1,2\n", "it has no column response_ns"),
        ("time_ns,entry_ns,response_ns\n1,2,0.5\n", "response_ns has values that are not integers"),
        ("", "give a CSV or Parquet file"),
    ],
)
def test_a_file_that_cannot_be_read_says_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "latencies.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        LatencySeries.read(path)
    with pytest.raises(ConfigError, match=r"No such file|nowhere"):
        LatencySeries.read(tmp_path / "nowhere.csv")


def test_constants_beside_recorded_latencies_are_refused() -> None:
    with pytest.raises(ConfigError, match="leave out either"):
        BacktestSettings(latencies=LatencySeries(np.array([[0, 1, 2]])), order_latency=1)


def test_times_between_rows_are_interpolated_exactly() -> None:
    rng = np.random.default_rng(3)
    low, wide = 1_700_000_000 * SECOND, 10**17
    for _ in range(300):
        x1, x2 = sorted(rng.integers(low, low + wide, 2).tolist())
        y1, y2 = sorted(rng.integers(low, low + wide, 2).tolist())
        at = int(rng.integers(x1, x2 + 1))
        series = np.array([(x1, y1, y1), (x2 + 1, y2, y2)], SERIES)
        assert arrival_time(series, False, at) == y1 + int(Fraction((y2 - y1) * (at - x1), x2 + 1 - x1))
        assert arrival_time(series, False, x1 - 5) == y1 - 5
        assert arrival_time(series, False, x2 + 6) == y2 + 5
