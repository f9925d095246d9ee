"""Sampled best quotes, compared with plain books: dictionaries updated by every event, and the book rows of an episode."""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.replay import prepare
from bellwether.replay.episode.content import Content
from bellwether.replay.episode.folder import write
from bellwether.replay.episode_builder.build import build_recording
from bellwether.replay.results.books import books, sample_books, sample_times
from bellwether.replay.tape.layout import CLOSE, INVALID, LEVEL, PRINT, SETTLE, TRADED, VALID, VOID, Tape, unpack
from bellwether.replay.units import DOLLAR, MILLISECOND, NO, SECOND, YES
from tests.captures import GAME, import_event
from tests.reference.replay.random_tapes import Shape, random_tape
from tests.unit.replay.results.tapes import book, tape

KNOWN = datetime(2026, 11, 21, tzinfo=UTC)
VALUES = ("bid", "ask", "bid_size", "ask_size", "bid_depth", "ask_depth", "bid_prices", "ask_prices", "bid_sizes", "ask_sizes", "valid")
DARK = (*[None] * 10, False)
Levels = dict[int, int]


def book_columns(bids: Levels, nos: Levels) -> tuple[Any, ...]:
    """Return the columns of a valid book from bids of YES and of NO, by price in $0.0001. Lots of 0 are omitted."""
    sides = []
    for levels, is_ask in ((bids, False), (nos, True)):
        best = sorted(levels, reverse=True)
        price = None if not best else Decimal(DOLLAR - best[0] if is_ask else best[0]) / DOLLAR
        cents: dict[Decimal, Decimal] = {}
        for level in best:
            cent = Decimal((DOLLAR - level if is_ask else level) // 100) / 100
            cents[cent] = cents.get(cent, Decimal(0)) + Decimal(levels[level]) / 100
        depth = Decimal(sum(levels[one] for one in best[:5])) / 100
        sides.append((price, Decimal(levels[best[0]]) / 100 if best else Decimal(0), depth, [*cents][:10], [*cents.values()][:10]))
    return (*(side[place] for place in range(5) for side in sides), True)


def plain(made: Tape) -> dict[tuple[str, int], tuple[Any, ...]]:
    """Return the values of each book at each instant of the grid, by market and time."""
    events = list(zip(made.ts.tolist(), *(part.tolist() for part in unpack(made.event)), strict=True))
    found: dict[tuple[str, int], tuple[Any, ...]] = {}
    for code, name in enumerate(made.tickers):
        prices = made.levels[code].tolist()
        levels: list[Levels] = [{}, {}]
        lost = closed = False
        own = [event for event in events if event[2] == code]
        for at in sample_times(made).tolist():
            while own and own[0][0] <= at:
                _, kind, _, side, level, lots = own.pop(0)
                if kind in (LEVEL, TRADED):
                    levels[side].pop(prices[level], None)
                    levels[side] |= {prices[level]: lots} if lots else {}
                lost = kind == INVALID if kind in (INVALID, VALID) else lost
                closed = closed or kind in (CLOSE, SETTLE, VOID)
            found[name, at] = DARK if lost or closed or at < made.begins[code] else book_columns(*levels)
    return found


def standing(rows: pl.DataFrame, instants: list[int]) -> dict[tuple[str, int], tuple[Any, ...]]:
    """Return the values of each market at each instant. A row applies until the next one."""
    found = {}
    for (name,), part in rows.partition_by("ticker", as_dict=True).items():
        values = dict(zip(part["at"].dt.timestamp("ns"), part.select(VALUES).iter_rows(), strict=True))
        traded = dict(zip(part["at"].dt.timestamp("ns"), part["traded"] > 0, strict=True))
        assert {instants[0], instants[-1]} <= set(values) <= set(instants)
        latest = None
        for at in instants:
            if at in values:
                assert values[at] != latest or traded[at] or at == instants[-1], "a row that changes nothing"
                latest = values[at]
            assert latest is not None
            found[name, at] = latest
    return found


@pytest.mark.parametrize("seed", range(3))
def test_every_instant_is_that_of_a_plain_book(seed: int) -> None:
    made = random_tape(seed, Shape(tickers=6, tick=100 if seed else 10))
    rows = books(made, "e", KNOWN)
    assert standing(rows, sample_times(made).tolist()) == plain(made)
    assert rows["ticker"].unique(maintain_order=True).to_list() == list(made.tickers)
    assert not rows["valid"].all() and rows.filter("valid").height > 100
    assert set(rows["episode"]) == {"e"} and set(rows["known_at"]) == {KNOWN}


def test_trades_are_summed_since_the_instant_before() -> None:
    made = random_tape(1, Shape(tickers=4))
    rows = books(made, "e", KNOWN)
    instants = sample_times(made).tolist()
    sums: dict[tuple[str, int], list[int]] = {}
    for at, kind, code, side, level, lots in zip(made.ts.tolist(), *(part.tolist() for part in unpack(made.event)), strict=True):
        if kind == PRINT and at <= instants[-1]:
            price = made.levels[code].tolist()[level]
            own = sums.setdefault((made.tickers[code], instants[bisect_left(instants, at)]), [0, 0])
            own[0] += lots
            own[1] += lots * (DOLLAR - price if side == NO else price)
    shown = rows.filter(pl.col("traded") > 0).select("ticker", pl.col("at").dt.timestamp("ns"), "traded", "trade_price").rows()
    assert {(ticker, at): int(100 * traded) for ticker, at, traded, _ in shown} == {key: lots for key, (lots, _) in sums.items()}
    for ticker, at, _, price in shown:
        assert float(price) == pytest.approx(sums[ticker, at][1] / sums[ticker, at][0] / DOLLAR, abs=1e-6)
    assert len(sums) > 20 and rows.filter(pl.col("traded") == 0)["trade_price"].null_count() == rows.height - len(sums)


def compared(draft: Content, made: Tape) -> int:
    """Compare all of the tape's books with the book rows of its episode. Returns the number of instants with bids."""
    rows = books(made, draft.metadata.episode_id, KNOWN)
    ts = np.repeat(draft.book.ts, draft.book.counts).tolist()
    events = list(zip(ts, *(column.tolist() for column in unpack(draft.book.words)), strict=True))
    found = standing(rows, sample_times(made).tolist())
    count = 0
    for code, market in enumerate(draft.metadata.markets):
        levels: tuple[Levels, Levels] = ({}, {})
        own = [row for row in events if row[2] == code]
        for at in sample_times(made).tolist():
            while own and own[0][0] <= at:
                _, kind, _, side, price, lots = own.pop(0)
                assert kind == LEVEL
                levels[side].pop(price, None)
                if lots:
                    levels[side][price] = lots
            if found[market.ticker, at][-1]:
                assert found[market.ticker, at] == book_columns(*levels)
                count += levels[0] != {}
    return count


def test_the_books_of_an_episode_are_those_of_its_rows(tmp_path: Path) -> None:
    [draft] = build_recording(import_event(tmp_path / "recordings", GAME))
    made = prepare(write(tmp_path / "episodes" / GAME, draft)).tape
    assert compared(draft, made) > 400


def test_a_level_more_than_five_away_is_no_depth_and_an_empty_side_has_no_price() -> None:
    bids = [(0, LEVEL, 0, YES, price, 100 * price) for price in (10, 20, 30, 40, 50, 60)]
    rows = books(tape(*bids, (0, LEVEL, 0, NO, 900, 250), (500, LEVEL, 0, NO, 900, 0)), "e", KNOWN)
    first, second, last = rows.select(VALUES).iter_rows()
    best, cents, sizes = Decimal("0.06"), [Decimal(one) / 100 for one in range(6, 0, -1)], list(range(60, 0, -10))
    ask, size = Decimal("0.1"), Decimal("2.5")
    assert first == (best, ask, 60, size, 200, size, cents, [ask], sizes, [size], True)
    assert second == last == (best, None, 60, 0, 200, 0, cents, [], sizes, [], True)
    assert rows["at"].dt.epoch("s").to_list() == [0, 501, 1000]


def test_the_grid_has_few_instants_of_whole_seconds_and_none_for_a_late_settlement() -> None:
    late = tape(*book(0, 400, 500), (1000, CLOSE, 0, 0, 0, 0), (90_000, SETTLE, 0, 0, 0, 1_000_000))
    times = sample_times(late).tolist()
    assert (times[0], times[1], times[-1], len(times)) == (0, 3 * SECOND, 1000 * SECOND, 335)
    assert books(late, "e", KNOWN)["valid"].to_list() == [True, False]
    assert sample_times(tape(start=5, end=5)).tolist() == [5 * SECOND]
    assert [len(sample_times(tape(end=end))) for end in (10**6, 499, 498)] == [500, 500, 500]
    assert np.diff(sample_times(tape(end=36)))[:-1].tolist() == [73 * MILLISECOND] * 493


def test_depth_is_what_the_book_showed_at_the_instant() -> None:
    on = tape(
        *book(0, 400, 420, size=50), (10, LEVEL, 0, YES, 405, 7), (20, LEVEL, 0, YES, 400, 0), (30, INVALID, 0, 0, 0, 0),
        (40, LEVEL, 0, YES, 390, 9), (50, VALID, 0, 0, 0, 0), (60, CLOSE, 0, 0, 0, 0),
    )  # fmt: skip
    _, found = sample_books(on, np.array([0]), np.array([0, 10, 20, 30, 50, 60]) * SECOND)
    assert found.shape == (1, 2, 101, 6)
    assert found[0, 0, 40].tolist() == [50, 57, 7, 0, 7, 0]
    assert found[0, 0, 39].tolist() == [0, 0, 0, 0, 9, 0]
    assert found[0, 1, 42].tolist() == [50, 50, 50, 0, 50, 0]
    assert found.sum() == found[0, 0, [39, 40]].sum() + found[0, 1, 42].sum()
