"""Figures of backtests: numbers equal those of the frames, and PNGs are small and reproducible, for any number of markets and fills."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.figures.canvas import MOST_POINTS
from bellwether.figures.equity import equity_curve, extremes
from bellwether.figures.intervals import pnl_distribution
from bellwether.figures.statistics import weighted_spread
from bellwether.replay.results.books import sample_books
from bellwether.replay.results.tear_sheet import draw_books
from bellwether.replay.tape.layout import CLOSE, INVALID, LEVEL, VALID, Tape
from bellwether.replay.units import NO, SECOND, YES
from bellwether.tables.replay import EQUITY, FILLS, HORIZONS_S
from tests.unit.figures.chart_contents import chart_png, chart_rows, chart_texts
from tests.unit.replay.results.frames import KNOWN, backtest, backtests, summarise
from tests.unit.replay.results.tapes import book, tape

_NS = pl.Datetime("ns", "UTC")


def equity(agent: str = "a", episode: str = "E", count: int = 300, seed: int = 0) -> pl.DataFrame:
    """Return rows of replay/equity: a random walk from 1,000 dollars."""
    walk = 1000 + np.cumsum(np.random.default_rng(seed).normal(0, 1, count))
    names = ("cash", "equity", "equity_mid")
    money = {name: walk + shift for shift, name in enumerate(names)}
    frame = pl.DataFrame({"sample": np.arange(count), "at": np.arange(count) * 60 * SECOND, **money})
    return _table(EQUITY, frame, "at", agent, episode)


def fills(on: Tape, count: int, seed: int = 0, agent: str = "a", episode: str = "E") -> pl.DataFrame:
    """Return rows of replay/fills at random prices and times."""
    generator = np.random.default_rng(seed)
    columns = {
        "fill_id": np.arange(count),
        "order_id": np.arange(count),
        "ticker": [on.tickers[code] for code in generator.integers(0, len(on.tickers), count)],
        "side": generator.choice(["yes", "no"], count),
        "action": generator.choice(["buy", "sell"], count),
        "role": generator.choice(["maker", "taker"], count),
        "price": generator.integers(1, 100, count) / 100,
        "size": generator.integers(1, 30, count).astype(float),
        "fee": np.zeros(count),
        "filled_at": np.sort(generator.integers(on.start, on.end, count)),
        "queue_wait": np.zeros(count),
        **{f"markout_{seconds}s": generator.normal(0, 0.01, count) for seconds in HORIZONS_S},
    }
    return _table(FILLS, pl.DataFrame(columns), "filled_at", agent, episode)


def _table(table: Any, frame: pl.DataFrame, time: str, agent: str, episode: str) -> pl.DataFrame:
    alike = {"episode": episode, "agent": agent, "rules": "kalshi-2025-10-01", "known_at": KNOWN}
    frame = frame.with_columns(pl.col(time).cast(_NS), *(pl.lit(value).alias(name) for name, value in alike.items()))
    return table.validate(frame.select(table.names).cast(dict(table.schema)), unique=False)


def books(markets: int, changes: int) -> Tape:
    """Return a tape with random walks of every market's best bid and ask."""
    generator, events = np.random.default_rng(1), []
    middle = generator.integers(20, 80, markets) * 10
    for at in range(changes):
        market = int(generator.integers(markets))
        events += [(at, LEVEL, market, side, int(price), 0) for side, price in ((YES, middle[market] - 10), (NO, 990 - middle[market]))]
        middle[market] = np.clip(middle[market] + 10 * generator.integers(-1, 2), 50, 950)
        events += book(at, int(middle[market]) - 10, int(middle[market]) + 10, market, int(generator.integers(1, 10**6)))
    return tape(*events, tickers=markets, end=changes)


SMALL = books(1, 400)


@pytest.mark.parametrize("on", [SMALL, tape(), tape(*book(0, 400, 420))], ids=["one market", "nothing", "one instant"])
def test_books_with_fills_are_a_small_picture(on: Tape) -> None:
    chart_png(draw_books(on, fills(on, 300 if on is SMALL else 0), "Book"))


@pytest.mark.nightly
def test_thirty_three_markets_with_many_fills_are_a_small_picture() -> None:
    many = books(33, 4000)
    chart_png(draw_books(many, fills(many, 20_000), "Books"))


def test_a_fill_is_marked_where_it_was_made_in_prices_of_yes() -> None:
    quiet = tape(*book(0, 300, 700), end=100)
    one = fills(quiet, 1).with_columns(
        side=pl.lit("no"), action=pl.lit("buy"), role=pl.lit("maker"), price=pl.lit("0.30").cast(pl.Decimal(10, 6))
    )
    one = one.with_columns(filled_at=pl.lit(25 * SECOND).cast(_NS))
    (mark,) = [row for row in chart_rows(draw_books(quiet, one, "x")) if row["fill"] is not None]
    assert (mark["way"], mark["x"], mark["fill"]) == ("sold", "1970-01-01T00:00:25.000Z", 0.7)


def test_the_same_rows_give_the_same_bytes_in_any_order() -> None:
    curve, traded = equity(), fills(SMALL, 500)
    assert equity_curve(curve, "x").to_dict() == equity_curve(curve.reverse(), "x").to_dict()
    assert draw_books(SMALL, traded, "x").to_dict() == draw_books(books(1, 400), traded.reverse(), "x").to_dict()


def test_a_curve_is_that_of_the_frame_with_its_drawdown() -> None:
    frame = equity(count=200)
    drawn, values = chart_rows(equity_curve(frame, "x")), frame["equity"].cast(pl.Float64).to_list()
    shown = [row for row in drawn if "drawdown" in row]
    assert [row["equity"] for row in shown] == values
    peak = [max(values[: place + 1]) for place in range(len(values))]
    assert [row["drawdown"] for row in shown] == pytest.approx([100 * (value / high - 1) for value, high in zip(values, peak, strict=True)])


def test_untrusted_names_are_drawn_as_text() -> None:
    name = "<b>$x^2$</b>\n![a](b)"
    own = backtests(backtest(name, "E", 1))
    assert any("<b>$x^2$</b> ![a](b)" in text for text in chart_texts(pnl_distribution(own, summarise(own), name)))


def test_a_long_curve_keeps_its_extremes() -> None:
    values = np.random.default_rng(0).normal(size=100_000)
    kept = extremes(values, most=MOST_POINTS)
    assert len(kept) < 2_000
    assert (values[kept].min(), values[kept].max(), kept[0], kept[-1]) == (values.min(), values.max(), 0, 99_999)
    assert all(early < late for early, late in pairwise(kept.tolist()))


def test_a_weighted_mean_comes_with_the_lowest_and_the_highest_episode() -> None:
    rows = pl.DataFrame({"e": ["a", "a", "a", "b", "c", "d"], "v": [1.0, 4.0, None, 3.0, 4.0, 9.0], "w": [1, 1, 100, 1, 2, 0]})
    assert weighted_spread(rows, "e", "v", "w") == (3.2, 2.5, 4.0)
    assert weighted_spread(rows.tail(1), "e", "v", "w") == (None, None, None)


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
