"""The tear sheet against the frames of its backtest, and what the page may not do."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import polars as pl
import pytest

from bellwether.replay import Agent, Backtest, BacktestSettings, run
from bellwether.replay.results.downsampling import extremes
from bellwether.replay.results.tear_sheet import _MOST_POINTS, tear_sheet
from tests.replay.random_tapes import Shape, random_tape
from tests.replay.results.traders import traded

matplotlib.use("agg")


@pytest.fixture(scope="module")
def backtest() -> Backtest:
    return traded()


@pytest.fixture(scope="module")
def html(backtest: Backtest) -> str:
    return tear_sheet(backtest).html()


def own(html: str) -> str:
    """The page without plotly's own code."""
    return re.sub(r"<script>.*?</script>", "", html, count=1, flags=re.DOTALL)


def traces(html: str, name: str) -> list[dict[str, Any]]:
    """The traces of a plot, as the page holds them."""
    start = html.index(f'Plotly.newPlot(                        "{name}",')
    return json.JSONDecoder().raw_decode(html, html.index("[", start))[0]


def test_the_equity_drawn_is_that_of_the_frame(backtest: Backtest, html: str) -> None:
    low, high, main, fallen = traces(html, "equity")
    frame = backtest.equity.with_columns(pl.col("equity", "equity_pessimistic", "equity_optimistic").cast(pl.Float64))
    assert main["y"] == frame["equity"].to_list()
    assert main["y"][0] == 500
    bounds = frame.select("equity", "equity_pessimistic", "equity_optimistic")
    assert low["y"] == bounds.min_horizontal().to_list()
    assert high["y"] == bounds.max_horizontal().to_list()
    assert -min(fallen["y"]) / 100 == pytest.approx(backtest.summary["max_drawdown"].item(), abs=1e-6)


def test_the_inventory_drawn_is_what_the_fills_leave_and_a_settlement_ends_it(backtest: Backtest, html: str) -> None:
    first = backtest.fills["ticker"].value_counts().sort("count", "ticker", descending=[True, False])["ticker"][0]
    (inventory,) = [trace for trace in traces(html, "market-0") if trace["name"] == "inventory"]
    held, expected = Decimal(0), []
    for fill in backtest.fills.filter(ticker=first).iter_rows(named=True):
        held += fill["size"] * (1 if (fill["side"] == "yes") == (fill["action"] == "buy") else -1)
        expected.append(float(held))
    left = backtest.market_pnl.filter(ticker=first).row(0, named=True)
    assert inventory["y"] == pytest.approx([*expected, float(left["yes_position"] - left["no_position"])])


def test_the_markets_listed_add_up(backtest: Backtest, html: str) -> None:
    for row in backtest.market_pnl.iter_rows(named=True):
        assert re.search(rf">{row['ticker']}</td>.*?<td>{re.escape(format(row['pnl'], '+,.2f'))}", own(html), re.DOTALL)


def test_the_page_needs_nothing_else(html: str) -> None:
    assert "<script src" not in html
    assert not re.search(r"<(link|img|iframe)\b|url\(", own(html))
    assert "http" not in own(html)


def test_what_an_agent_says_is_text(tmp_path: Path) -> None:
    failed = traded(fails=3)
    failed.write_html(tmp_path / "sheet.html")
    text = (tmp_path / "sheet.html").read_text(encoding="utf-8")
    assert "ValueError: the &lt;b&gt;market&lt;/b&gt; | is" in text
    assert "<b>market" not in own(text)


def test_the_same_backtest_gives_the_same_bytes(backtest: Backtest, html: str) -> None:
    assert tear_sheet(backtest).html() == html


class Quiet(Agent):
    """Does nothing."""

    def act(self, ctx: Any) -> None:
        pass


def test_a_backtest_without_fills_has_a_page() -> None:
    quiet = run(random_tape(0, Shape(instants=60)), Quiet(), BacktestSettings(rules="kalshi-2026-05-28"))
    assert "Nothing was filled" in tear_sheet(quiet).html()
    assert quiet.market_pnl.is_empty()


def test_a_long_curve_keeps_its_extremes() -> None:
    import numpy as np

    values = np.random.default_rng(0).normal(size=100_000).cumsum()
    kept = extremes(values, most=_MOST_POINTS)
    assert len(kept) <= 2_000
    assert {0, len(values) - 1, int(values.argmin()), int(values.argmax())} <= set(kept.tolist())


def test_the_plot_is_an_axis_to_go_on_with(backtest: Backtest) -> None:
    axes = backtest.plot()
    assert axes.lines[0].get_ydata()[-1] == float(backtest.summary["final_equity"].item())
    lines = len(axes.lines)
    assert backtest.plot(ax=axes) is axes
    assert len(axes.lines) == lines + 1
    plt.close("all")


def test_a_backtest_prints_its_line(backtest: Backtest) -> None:
    pnl = backtest.summary["pnl"].item()
    assert f"P&L {pnl:+.2f} dollars" in str(backtest) == repr(backtest)
    assert "failed at decision 3: ValueError" in str(traded(fails=3))
