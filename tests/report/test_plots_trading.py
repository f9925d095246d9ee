"""Figures of backtests: PNG below 100 kB, the same bytes each time, readable from one market and ten fills to many of both."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.axis import Axis

from bellwether.replay.results.depth import depth
from bellwether.replay.results.downsampling import extremes
from bellwether.replay.results.summary import summarise
from bellwether.replay.tape.layout import CLOSE, INVALID, LEVEL, VALID, Tape
from bellwether.replay.units import NO, SECOND, YES
from bellwether.report.plots_books import book_heat_map, price_with_fills
from bellwether.report.plots_canvas import MOST_PANELS
from bellwether.report.plots_frames import weighted_means
from bellwether.report.plots_trading import _MOST_POINTS, equity_by_episode, equity_curve, markout_curve, pnl_distribution, tail
from bellwether.tables.replay import EQUITY, FILLS, HORIZONS_S
from tests.replay.results.frames import KNOWN, backtest, backtests
from tests.replay.results.tapes import book, tape
from tests.report.pictures import colours, pixels

_NS = pl.Datetime("ns", "UTC")


def equity(agent: str = "a", episode: str = "E", count: int = 300, seed: int = 0) -> pl.DataFrame:
    """Rows of replay/equity: a random walk from 1,000 dollars."""
    walk = 1000 + np.cumsum(np.random.default_rng(seed).normal(0, 1, count))
    names = ("cash", "equity", "equity_mid", "equity_pessimistic", "equity_optimistic")
    money = {name: walk + shift for shift, name in enumerate(names)}
    frame = pl.DataFrame({"sample": np.arange(count), "at": np.arange(count) * 60 * SECOND, **money})
    return _table(EQUITY, frame, "at", agent, episode)


def fills(on: Tape, count: int, seed: int = 0, agent: str = "a", episode: str = "E") -> pl.DataFrame:
    """Rows of replay/fills at random prices and times."""
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
    """A tape on which every market's best bid and ask wander."""
    generator, events = np.random.default_rng(1), []
    middle = generator.integers(20, 80, markets) * 10
    for at in range(changes):
        market = int(generator.integers(markets))
        events += [(at, LEVEL, market, side, int(price), 0) for side, price in ((YES, middle[market] - 10), (NO, 990 - middle[market]))]
        middle[market] = np.clip(middle[market] + 10 * generator.integers(-1, 2), 50, 950)
        events += book(at, int(middle[market]) - 10, int(middle[market]) + 10, market, int(generator.integers(1, 10**6)))
    return tape(*events, tickers=markets, end=changes)


SMALL, LARGE = books(1, 400), books(33, 4000)


@pytest.mark.parametrize(("on", "count"), [(SMALL, 0), (SMALL, 10), (SMALL, 20_000), (LARGE, 10), (LARGE, 20_000)])
def test_prices_with_fills_are_a_small_picture(on: Tape, count: int) -> None:
    assert len(colours(price_with_fills(on, fills(on, count), "Fills"))) > 10


@pytest.mark.parametrize("on", [SMALL, LARGE, tape(), tape(*book(0, 400, 420))], ids=["1 market", "33 markets", "nothing", "one instant"])
def test_a_heat_map_is_a_small_picture(on: Tape) -> None:
    pixels(book_heat_map(on, "Book"))


@pytest.mark.parametrize("count", [0, 1, 2, 5_000])
def test_an_equity_curve_of_any_length_is_a_small_picture(count: int) -> None:
    pixels(equity_curve(equity(count=count), "Equity"))


def test_the_same_rows_give_the_same_bytes_in_any_order() -> None:
    curve, traded = equity(), fills(SMALL, 500)
    assert equity_curve(curve, "x") == equity_curve(curve.reverse(), "x")
    assert price_with_fills(SMALL, traded, "x") == price_with_fills(SMALL, traded.reverse(), "x")
    assert book_heat_map(SMALL, "x") == book_heat_map(books(1, 400), "x")
    assert markout_curve(traded, "x") == markout_curve(traded, "x")


def test_a_fill_is_marked_where_it_was_made() -> None:
    quiet = tape(*book(0, 300, 700), end=100)
    one = fills(quiet, 1).with_columns(side=pl.lit("yes"), price=pl.lit("0.50").cast(pl.Decimal(10, 6)))
    early, late = (one.with_columns(filled_at=pl.lit(at * SECOND).cast(_NS)) for at in (25, 75))
    pictures = [pixels(price_with_fills(quiet, frame, "x")).astype(int) for frame in (early, late)]
    rows, columns = np.nonzero(np.abs(pictures[0] - pictures[1]).max(axis=2) > 60)
    assert rows.max() - rows.min() < 20
    assert 0.35 < (columns.max() - columns.min()) / pictures[0].shape[1] < 0.6


def test_markets_with_most_fills_have_the_panels_and_the_rest_is_counted(drawn_texts: list[str]) -> None:
    some = fills(LARGE, 400).filter(pl.col("ticker").is_in(["M-31", "M-7"]))
    price_with_fills(LARGE, some, "x")
    assert {"M-31", "M-7", f"and {33 - MOST_PANELS} more"} <= set(drawn_texts)


def test_tick_labels_are_measured_for_the_labels_that_must_stand_clear_of_them_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    siblings = Axis._get_tick_boxes_siblings  # type: ignore[attr-defined]

    def counted(axis: Axis, renderer: Any) -> Any:
        measured.append(axis.get_label_text())
        return siblings(axis, renderer)

    monkeypatch.setattr(Axis, "_get_tick_boxes_siblings", counted)
    price_with_fills(LARGE, fills(LARGE, 400), "x")
    assert measured == ["price of YES (c)"] * 3


def test_untrusted_names_are_drawn_as_text(drawn_texts: list[str]) -> None:
    name = "<b>$x^2$</b>\n![a](b)"
    pixels(equity_by_episode(equity(agent=name, episode=name), name))
    rows = backtests(backtest(name, "E", 1))
    pixels(pnl_distribution(rows, summarise(rows), name))
    pixels(markout_curve(fills(SMALL, 30, agent=name), name))
    assert sum("<b>$x^2$</b>" in text for text in drawn_texts) >= 4


def test_no_text_of_anyone_is_parsed_as_mathematics(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import mathtext

    monkeypatch.setattr(mathtext.MathTextParser, "parse", lambda *_: pytest.fail("a name was parsed"))
    equity_by_episode(equity(agent=r"$\frac{a}$", episode=r"$\frac{b}$"), r"$\frac{c}$")


def test_agents_with_and_without_intervals_stand_side_by_side(drawn_texts: list[str]) -> None:
    rows = backtests(*(backtest("many", f"E{index}", index - 10) for index in range(40)), backtest("one", "E0", 5))
    pixels(pnl_distribution(rows, summarise(rows), "P&L"))
    assert {"many", "one", "n = 40", "n = 1", "its 95 % interval"} <= set(drawn_texts)


def test_no_backtest_is_said_so(drawn_texts: list[str]) -> None:
    pixels(pnl_distribution(backtests(), summarise(backtests()), "x"))
    pixels(equity_by_episode(equity(count=0), "x"))
    pixels(markout_curve(fills(SMALL, 0), "x"))
    pixels(equity_curve(equity(count=0), "x"))
    assert {"no backtest", "no fill", "no sample"} <= set(drawn_texts)


def test_a_long_curve_keeps_its_extremes() -> None:
    values = np.random.default_rng(0).normal(size=100_000)
    kept = extremes(values, most=_MOST_POINTS)
    assert len(kept) < 2_000
    assert (values[kept].min(), values[kept].max(), kept[0], kept[-1]) == (values.min(), values.max(), 0, 99_999)
    assert all(early < late for early, late in pairwise(kept.tolist()))


def test_the_end_of_a_long_name_is_kept() -> None:
    assert tail("short") == "short"
    assert tail("an-episode-of-some-recording-KXBTC15M-26MAY131915", 20) == "…XBTC15M-26MAY131915"


def test_a_weighted_mean_has_an_interval_from_three_episodes_on() -> None:
    rows = pl.DataFrame({"e": ["a", "a", "b", "c"], "v": [1.0, None, 3.0, 3.0], "w": [1, 100, 1, 2]})
    assert weighted_means(rows, "e", "v", "w")[0] == 2.5
    assert weighted_means(rows, "e", "v", "w")[1] is not None
    assert weighted_means(rows.head(3), "e", "v", "w") == (2.0, None, None)
    assert weighted_means(rows.clear(), "e", "v", "w") == (None, None, None)


def test_depth_is_what_the_book_showed_at_the_instant() -> None:
    on = tape(
        *book(0, 400, 420, size=50), (10, LEVEL, 0, YES, 405, 7), (20, LEVEL, 0, YES, 400, 0), (30, INVALID, 0, 0, 0, 0),
        (40, LEVEL, 0, YES, 390, 9), (50, VALID, 0, 0, 0, 0), (60, CLOSE, 0, 0, 0, 0),
    )  # fmt: skip
    found = depth(on, np.array([0]), np.array([0, 10, 20, 30, 50, 60]) * SECOND)
    assert found.shape == (1, 2, 101, 6)
    assert found[0, 0, 40].tolist() == [50, 57, 7, 0, 7, 0]
    assert found[0, 0, 39].tolist() == [0, 0, 0, 0, 9, 0]
    assert found[0, 1, 42].tolist() == [50, 50, 50, 0, 50, 0]
    assert found.sum() == found[0, 0, [39, 40]].sum() + found[0, 1, 42].sum()
