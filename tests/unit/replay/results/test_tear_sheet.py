"""The tear sheet, compared with the frames of its backtest, and restrictions of the page."""

from __future__ import annotations

import base64
import hashlib
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.pages.model import Chart, Page
from bellwether.pages.render import render_file
from bellwether.replay import Backtest, BacktestSettings, run
from bellwether.replay.agents.baselines import Passive
from bellwether.replay.results.tear_sheet import tear_sheet
from tests.figures.chart_contents import chart_rows
from tests.reference.replay.random_tapes import Shape, random_tape
from tests.unit.replay.results.traders import backtest_random


@pytest.fixture(scope="module")
def backtest() -> Backtest:
    return backtest_random()


@pytest.fixture(scope="module")
def sheet(backtest: Backtest) -> Page:
    return tear_sheet(backtest)


@pytest.fixture(scope="module")
def html(sheet: Page) -> str:
    return render_file(sheet)


def own(html: str) -> str:
    """Return the page without its scripts and style."""
    return re.sub(r"<(script|style)>.*?</\1>", "", html, flags=re.DOTALL)


def chart(sheet: Page, title: str) -> list[dict[str, Any]]:
    """Return the rows of a chart of the page."""
    (found,) = [part for section in sheet.sections for part in section.parts if isinstance(part, Chart) and part.title.startswith(title)]
    return [dict(row) for row in found.rows]


def test_the_equity_drawn_is_that_of_the_frame(backtest: Backtest, sheet: Page) -> None:
    drawn, frame = chart(sheet, "Equity, with"), backtest.equity
    shown = {name: [row[name] for row in drawn] for name in ("y", "lower", "upper")}
    models = frame.select(pl.col("equity", "equity_pessimistic", "equity_optimistic").cast(pl.Float64))
    for name, values in (("y", models["equity"]), ("lower", models.min_horizontal()), ("upper", models.max_horizontal())):
        assert set(shown[name]) <= set(values)
        assert (shown[name][0], shown[name][-1]) == (500, values[-1])
    if frame.height <= 240:
        assert shown["y"] == frame["equity"].cast(pl.Float64).to_list()
    assert (min(shown["y"]), max(shown["y"])) == (models["equity"].min(), models["equity"].max())
    fallen = [row["y"] for row in chart(sheet, "Drawdown")]
    assert -min(fallen) == pytest.approx(backtest.summary["max_drawdown"].item(), abs=1e-6)


def test_the_inventory_drawn_is_what_the_fills_leave_and_a_settlement_ends_it(backtest: Backtest, sheet: Page) -> None:
    first = backtest.fills["ticker"].value_counts().sort("count", "ticker", descending=[True, False])["ticker"][0]
    drawn = [row["y"] for row in chart(sheet, "Contracts of YES") if row["name"] == first]
    held, expected = Decimal(0), []
    for fill in backtest.fills.filter(ticker=first).iter_rows(named=True):
        held += fill["size"] * (1 if (fill["side"] == "yes") == (fill["action"] == "buy") else -1)
        expected.append(float(held))
    left = backtest.market_pnl.filter(ticker=first).row(0, named=True)
    assert drawn == pytest.approx([*expected, float(left["yes_position"] - left["no_position"])])


def test_the_page_needs_no_other_file_and_may_load_none(html: str) -> None:
    assert "<script src" not in html and "<script defer" not in html
    assert not re.search(r'<(img|iframe)\b|url\(|href="(?!data:,|#main)', own(html))
    assert "http" not in own(html).replace("http-equiv", "")
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', html)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy
    for kind, tag in (("script-src", "script"), ("style-src", "style")):
        for text in re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL):
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy.partition(kind)[2].partition(";")[0]


def test_what_an_agent_says_is_text(tmp_path: Path) -> None:
    failed = backtest_random(fails=3)
    failed.write_html(tmp_path / "sheet.html")
    text = (tmp_path / "sheet.html").read_text(encoding="utf-8")
    assert "ValueError: the &lt;b&gt;market&lt;/b&gt; | is" in text
    assert "<b>market" not in own(text)


def test_a_backtest_without_fills_has_a_page() -> None:
    quiet = run(random_tape(0, Shape(instants=60)), Passive(), BacktestSettings(rules="kalshi-2026-05-28"))
    assert "No fills." in render_file(tear_sheet(quiet))
    assert quiet.market_pnl.is_empty()


def test_the_plot_is_the_equity_of_the_frame(backtest: Backtest) -> None:
    drawn = chart_rows(backtest.plot())
    assert [row["y"] for row in drawn] == backtest.equity["equity"].cast(pl.Float64).to_list()
    assert {row["name"] for row in drawn} == {backtest.agent}
    assert len(chart_rows(backtest.plot() + backtest.plot())) == len(drawn)


def test_a_backtest_prints_its_line(backtest: Backtest) -> None:
    pnl = backtest.summary["pnl"].item()
    assert f"P&L {pnl:+.2f} dollars" in str(backtest) == repr(backtest)
    assert "failed at decision 3: ValueError" in str(backtest_random(fails=3))
