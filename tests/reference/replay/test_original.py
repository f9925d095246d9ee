"""Under `pmb-2026-01` the engine equals the original benchmark to the last cent: random episodes in its format, random agents."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bellwether.replay import Agent, AgentContext, BacktestSettings, prepare, run
from bellwether.replay.engine import codes as c
from bellwether.replay.episode import read_pmb, write
from bellwether.replay.results.metrics import metrics
from bellwether.replay.units import CENT, CENT_MICROS, CONTRACT
from tests.reference.replay.original import SECOND, Fill, Original, Row, Settled, Trade
from tests.unit.replay.episode import originals
from tests.unit.replay.episode.folders import START

TICKERS = ["KX-A", "KX-B", "KX-C"]
RUNS = 4
Call = tuple[Any, ...]


def recorded(draw: random.Random) -> tuple[list[Row], list[Trade], list[Settled]]:
    """Draw books that change a level at a time, prints that often hit them, and settlements in the middle, at the end, after it or never."""
    rows, trades, ts = [], [], START + draw.randint(0, 3) * SECOND
    shown: dict[str, dict[str, dict[int, int]]] = {ticker: {"yes": {}, "no": {}} for ticker in TICKERS}
    for _ in range(draw.randint(100, 500)):
        ts += draw.choice([0, 0, SECOND // 2, SECOND, 3 * SECOND, 20 * SECOND])
        ticker, side = draw.choice(TICKERS), draw.choice(["yes", "no"])
        book = shown[ticker]
        if draw.random() < 0.55:
            price = {"yes": 45, "no": 50}[side] - draw.randint(0, 12)
            if draw.random() < 0.02:
                book[side].clear()
            elif draw.random() < 0.5:
                book[side][price] = draw.randint(1, 120)
            else:
                book[side].pop(price, None)
            rows.append(Row(ts, ticker, list(book["yes"].items()), list(book["no"].items())))
        else:
            price = draw.choice([*book["no" if side == "yes" else "yes"], draw.randint(1, 99)])
            trades.append(Trade(ts, ticker, side, 100 - price, draw.randint(1, 150)))
    times = [draw.choice([ts, ts + 100 * SECOND, rows[len(rows) // 2].ts, None]) for _ in TICKERS]
    settled = [Settled(at, ticker, draw.choice(["YES", "NO"])) for ticker, at in zip(TICKERS, times, strict=True) if at is not None]
    return rows, trades, settled


def written(folder: Path, rows: list[Row], trades: list[Trade], settled: list[Settled]) -> Path:
    """Write the same as files of the original."""
    known = {one.ticker: {"result": one.result, "settled_ts": _iso(one.ts)} for one in settled}
    unknown = {"result": None, "settled_ts": None}
    originals.write_metadata(folder, TICKERS, {ticker: known.get(ticker, unknown) for ticker in TICKERS}, end=_iso(rows[-1].ts))
    book = [(_seconds(row.ts), number, row.ticker, row.yes, row.no) for number, row in enumerate(rows)]
    prints = [(_seconds(one.ts), str(number), one.ticker, one.taker, one.price, one.count) for number, one in enumerate(trades)]
    kind = originals.struct_of("price_cents", pa.int64())
    pq.write_table(originals.book_table(book, originals.levels_of, kind), folder / "orderbook.parquet")
    pq.write_table(originals.trade_table(prints), folder / "trades.parquet")
    return folder


def _seconds(ns: int) -> float:
    return (ns - START) / SECOND


def _iso(ns: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)).isoformat()


def decisions(seed: int) -> Callable[[int], list[Call]]:
    """Draw the calls of one step: ("cancel", order) or ("place", ticker, side, action, contracts, limit in cents or None, tif)."""
    draw = random.Random(seed)

    def step(orders: int) -> list[Call]:
        calls: list[Call] = []
        for _ in range(draw.choice([0, 1, 1, 2, 4])):
            if orders and draw.random() < 0.15:
                calls.append(("cancel", draw.randrange(orders)))
                continue
            limit = draw.choice([None, *[draw.randint(30, 70)] * 3])
            tif = "ioc" if limit is None else draw.choice(["ioc", "gtc", "gtc", "gtc", "gtd", "post_only"])
            what = draw.choice(TICKERS), draw.choice(["yes", "no"]), draw.choice(["buy", "sell"])
            calls.append(("place", *what, draw.randint(1, 60), limit, tif))
        return calls

    return step


class Drawn(Agent):
    """Make the drawn calls, and record the times of calls, cash and equity in cents."""

    def __init__(self, step: Callable[[int], list[Call]], seen: list[tuple[int, float, float]]) -> None:
        self._step, self._seen = step, seen

    def start(self, ctx: AgentContext, episode: Any) -> None:
        self._orders = 0

    def act(self, ctx: AgentContext) -> None:
        self._seen.append((ctx.now_ns, ctx.cash / CENT_MICROS, ctx.equity / CENT_MICROS))
        for name, *what in self._step(self._orders):
            if name == "cancel":
                ctx.cancel(what[0])
                continue
            ticker, side, action, count, limit, tif = what
            price, expires = None if limit is None else limit * CENT, 2**61 if tif == "gtd" else None
            self._orders += ctx.place(ticker, side, action, price, count * CONTRACT, tif, expires).id >= 0


@pytest.mark.parametrize("seed", range(RUNS))
def test_the_engine_does_what_the_original_does(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    rows, trades, settled = recorded(draw)
    cadence, reconciled, taker_only = draw.choice([1, 5, 17, 60]) * SECOND, seed % 2 == 1, seed % 4 == 3
    step = decisions(seed)

    def act(original: Original) -> None:
        for name, *what in step(original.orders):
            getattr(original, name)(*what)

    original = Original(START, cadence, act, reconciled=reconciled, taker_only=taker_only).run(rows, trades, settled)
    seen: list[tuple[int, float, float]] = []
    settings = BacktestSettings(
        cadence=cadence,
        queue="reconciled" if reconciled else "trade_only",
        execution="taker_only" if taker_only else "maker_taker",
    )
    episode = write(tmp_path / "episode", read_pmb(written(tmp_path / "KX", rows, trades, settled), "taker"))
    backtest = run(prepare(episode, "pmb-2026-01"), Drawn(decisions(seed), seen), settings)
    outcome, found = backtest.outcome, metrics(backtest)
    assert backtest.failure is None
    assert seen == original.calls
    assert _fills(outcome.fills) == original.fills
    assert [(row[c.S_TS], row[c.S_EQUITY] / CENT_MICROS) for row in outcome.samples.tolist()] == original.curve
    assert (outcome.cash, outcome.equity[0]) == (original.cash * CENT_MICROS, original.equity() * CENT_MICROS)
    assert (found["orders"], found["contracts"], found["fees"] * 100) == (original.orders, original.contracts, original.fees)
    assert (found["fill_ratio"], found["max_drawdown"]) == (original.fill_ratio(), original.drawdown())
    assert found["sharpe_annualised"] == (None if original.sharpe() is None else pytest.approx(original.sharpe(), rel=1e-9))
    roles = {fill.role for fill in original.fills}
    assert roles == {"taker"} if taker_only else "taker" in roles


def _fills(rows: Any) -> list[Fill]:
    """Return the engine's fills in cents and contracts."""
    return [
        Fill(
            row[c.F_TS],
            TICKERS[row[c.F_TICKER]],
            ("yes", "no")[row[c.F_SIDE]],
            ("buy", "sell")[row[c.F_ACTION]],
            row[c.F_PRICE] / CENT,
            row[c.F_LOTS] / CONTRACT,
            row[c.F_FEE] / CENT_MICROS,
            ("taker", "maker")[row[c.F_ROLE]],
        )
        for row in rows.tolist()
    ]
