"""Agents over their episodes: tables of results, the summary and tear sheets."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.pages.model import Chart, Page
from bellwether.replay import Backtest
from bellwether.replay.results.reality_check import reality_check
from bellwether.replay.results.summary import results, summarise
from bellwether.replay.results.tear_sheet import tear_sheet
from bellwether.replay.results.text_tables import agent_tables, comparison_table
from bellwether.tables.replay import RESULTS, SPREAD, SUMMARY
from tests.unit.replay.results.frames import KNOWN, backtest, backtests
from tests.unit.replay.results.traders import backtest_random

FOUR = backtests(
    backtest("chaser", "C-1", 12.34, max_drawdown=0.02, fill_ratio=0.5, orders=7, contracts="1000.50"),
    backtest("chaser", "A-1", -100, max_drawdown=0.3125, fill_ratio=None, contracts=500, slippage="2.5", maker_share=0.5),
    backtest("chaser", "B-1", 0, max_drawdown=0.0, fill_ratio=0.75, contracts=0, orders=0),
    backtest("keeper", "A-1", 5, sharpe_annualised=3.0, known_at=KNOWN + timedelta(hours=1)),
)


def test_a_table_has_its_episodes_in_order_and_the_total_last() -> None:
    frame = results(FOUR)
    RESULTS.validate(frame)
    assert frame.filter(pl.col("agent") == "chaser")["episode"].to_list() == ["A-1", "B-1", "C-1", "Total"]
    assert frame.filter(pl.col("agent") == "keeper")["episode"].to_list() == ["A-1", "Total"]


def test_the_total_sums_money_and_averages_shares() -> None:
    total = results(FOUR).filter(pl.col("agent") == "chaser").row(-1, named=True)
    assert total["pnl"] == Decimal("-87.66")
    assert total["contracts"] == Decimal("1500.50")
    assert total["orders"] == 10
    assert total["return"] == pytest.approx(-0.02922)
    assert total["max_drawdown"] == 0.3125
    assert total["fill_ratio"] == 0.625  # of the two episodes with a value
    assert (total["pnl_pessimistic"], total["pnl_optimistic"]) == (Decimal("-90.66"), Decimal("-84.66"))


def test_sums_of_the_largest_amounts_are_exact() -> None:
    money, size = "999999990000.000001", "9999999999999999.99"
    amounts = {"fees": money, "slippage": money, "contracts": size, "pnl_pessimistic": money, "pnl_optimistic": money}
    every = backtests(*(backtest("a", f"E{number}", money, **amounts) for number in range(3)))
    sums = {name: 3 * Decimal(value) for name, value in {"pnl": money, **amounts}.items()}
    (summary,) = SUMMARY.validate(summarise(every)).to_dicts()
    total = RESULTS.validate(results(every)).row(-1, named=True)
    assert {name: summary[name] for name in sums} == sums
    assert {name: total[name] for name in sums if name in total} == {name: value for name, value in sums.items() if name != "slippage"}
    assert reality_check(every).pnl == sums["pnl"]


def test_the_summary_has_a_row_per_agent_with_statistics_over_episodes() -> None:
    frame = SUMMARY.validate(summarise(FOUR))
    chaser, keeper = frame.to_dicts()
    assert (chaser["agent"], chaser["episodes"], chaser["pnl"]) == ("chaser", 3, Decimal("-87.66"))
    assert [chaser[f"pnl_{one}"] for one in SPREAD] == [pytest.approx(-29.22), 0.0, -100.0, 12.34]
    assert [chaser[f"return_{one}"] for one in SPREAD] == [pytest.approx(-0.02922), 0.0, -0.1, pytest.approx(0.01234)]
    assert chaser["max_drawdown_mean"] == pytest.approx(0.1108333)
    assert chaser["max_drawdown"] == 0.3125
    assert (chaser["fill_ratio_mean"], chaser["fill_ratio_median"], chaser["fill_ratio_episodes"]) == (0.625, 0.625, 2)
    assert chaser["slippage"] == Decimal("2.5")
    assert chaser["profitable"] == pytest.approx(1 / 3)
    assert chaser["maker_share"] == pytest.approx(250 / 1500.5)
    assert [chaser[f"sharpe_{one}"] for one in (*SPREAD, "episodes")] == [None, None, None, None, 0]
    assert [keeper[f"sharpe_{one}"] for one in (*SPREAD, "episodes")] == [3.0, 3.0, 3.0, 3.0, 1]
    assert keeper["known_at"] == KNOWN + timedelta(hours=1)
    assert keeper["slippage"] is None


def test_a_line_reads_as_in_the_published_tables() -> None:
    table = agent_tables(results(FOUR), {"chaser": "The Chaser"})[0]
    assert table.title == "The Chaser under kalshi-2025-10-01"
    assert table.header[:6] == ("Episode", "PnL ($)", "Return (%)", "Max DD (%)", "Contracts", "Fill (%)")
    assert table.rows[0][:6] == ("A-1", "-100.00", "-10.00", "31.25", "500", "–")
    assert table.rows[2][:6] == ("C-1", "+12.34", "+1.23", "2.00", "1,000.50", "50.0")
    assert table.rows[3] == ("Total", "-87.66", "-2.92", "31.25", "1,500.50", "62.5", "-90.66…-84.66")


def test_tables_say_where_their_bands_come_from() -> None:
    kinds = [{"band": "accounts"}, {"band": "rerun"}]
    mixed, again = (
        backtests(*(backtest("a", episode, 1, **kind) for episode, kind in zip("EF", pair, strict=True)))
        for pair in (kinds, [kinds[1]] * 2)
    )
    assert [results(frame)["band"].to_list() for frame in (mixed, again)] == [["accounts", "rerun", "mixed"], ["rerun"] * 3]
    for frame, kind in ((mixed, "mixed"), (again, "rerun")):
        assert summarise(frame)["band"].to_list() == [kind]
        for table in (comparison_table(summarise(frame)), *agent_tables(results(frame))):
            assert sum(note.startswith(f"PnL band ({kind}):") for note in table.notes) == 1


MIXED = backtests(
    backtest("a", "E", 5),
    backtest("a", "F", 100, unsettled=True, contracts=1000),
    backtest("a", "G", -2, default_fees=True),
    backtest("b", "E", 7, unsettled=True),
)


def test_unsettled_episodes_are_lines_that_no_total_and_no_mean_has() -> None:
    frame = RESULTS.validate(results(MIXED))
    a, b = (frame.filter((pl.col("agent") == name) & (pl.col("episode") == "Total")).row(0, named=True) for name in "ab")
    assert (a["pnl"], a["contracts"], a["episodes"], a["unsettled"], a["default_fees"]) == (Decimal(3), Decimal(20), 2, False, True)
    assert (b["pnl"], b["episodes"], b["return"]) == (Decimal(0), 0, None)
    first, second = SUMMARY.validate(summarise(MIXED)).to_dicts()
    assert (first["pnl"], first["pnl_mean"], first["episodes"], first["unsettled"], first["default_fees"]) == (Decimal(3), 1.5, 2, 1, 1)
    assert (second["pnl_mean"], second["profitable"], second["episodes"], second["unsettled"]) == (None, None, 0, 1)


def test_unsettled_episodes_count_where_that_is_asked_for() -> None:
    totals = results(MIXED, unsettled=True).filter(pl.col("episode") == "Total")
    assert totals.select("pnl", "episodes", "unsettled").rows() == [(Decimal(103), 3, True), (Decimal(7), 1, True)]
    assert summarise(MIXED, unsettled=True)["pnl"].to_list() == [Decimal(103), Decimal(7)]


def test_totals_are_of_episodes_alone_where_portfolios_hold_them_too() -> None:
    alone = (backtest("a", "E", 1), backtest("a", "F", 3))
    mixed = backtests(*alone, backtest("a", "E+F", 50, unsettled=True))
    assert results(mixed)["episode"].to_list() == ["E", "E+F", "F", "Total"]
    assert results(mixed)["pnl"].to_list() == [1, 50, 3, 4]
    assert summarise(mixed).drop("known_at").equals(summarise(backtests(*alone)).drop("known_at"))
    assert "without portfolios" in " ".join(agent_tables(results(mixed))[0].notes)
    portfolios = backtests(backtest("a", "E+F", 50), backtest("a", "G+H", 7))
    assert results(portfolios)["pnl"].to_list() == [50, 7, 57]
    assert summarise(portfolios)["episodes"].to_list() == [2]
    assert "without portfolios" not in " ".join(agent_tables(results(portfolios))[0].notes)


# Tear sheets, compared with the frames of their backtests


@pytest.fixture
def traded() -> Backtest:
    return backtest_random()


@pytest.fixture
def sheet(traded: Backtest) -> Page:
    return tear_sheet(traded)


def chart(sheet: Page, title: str) -> list[dict[str, Any]]:
    """Return the rows of a chart of the page."""
    (found,) = [part for section in sheet.sections for part in section.parts if isinstance(part, Chart) and part.title.startswith(title)]
    return [dict(row) for row in found.rows]


def test_the_equity_drawn_is_that_of_the_frame(traded: Backtest, sheet: Page) -> None:
    drawn, frame = chart(sheet, "Equity"), traded.equity
    shown = {name: [row[name] for row in drawn] for name in ("y",)}
    values = frame["equity"].cast(pl.Float64)
    assert set(shown["y"]) <= set(values)
    assert (shown["y"][0], shown["y"][-1]) == (500, values[-1])
    if frame.height <= 240:
        assert shown["y"] == frame["equity"].cast(pl.Float64).to_list()
    assert (min(shown["y"]), max(shown["y"])) == (values.min(), values.max())
    fallen = [row["y"] for row in chart(sheet, "Drawdown")]
    assert -min(fallen) == pytest.approx(traded.summary["max_drawdown"].item(), abs=1e-6)


def test_the_inventory_drawn_is_what_the_fills_leave_and_a_settlement_ends_it(traded: Backtest, sheet: Page) -> None:
    first = traded.fills["ticker"].value_counts().sort("count", "ticker", descending=[True, False])["ticker"][0]
    drawn = [row["y"] for row in chart(sheet, "Contracts of YES") if row["name"] == first]
    held, expected = Decimal(0), []
    for fill in traded.fills.filter(ticker=first).iter_rows(named=True):
        held += fill["size"] * (1 if (fill["side"] == "yes") == (fill["action"] == "buy") else -1)
        expected.append(float(held))
    left = traded.market_pnl.filter(ticker=first).row(0, named=True)
    assert drawn == pytest.approx([*expected, float(left["yes_position"] - left["no_position"])])


def test_what_an_agent_says_is_text_in_a_page_that_loads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bellwether.pages.render.chart_library", lambda: b"window.charts = {};")
    failed = backtest_random(fails=3)
    failed.write_html(tmp_path / "sheet.html")
    text = (tmp_path / "sheet.html").read_text(encoding="utf-8")
    assert "ValueError: the &lt;b&gt;market&lt;/b&gt; | is" in text
    own = re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.DOTALL)
    assert "<b>market" not in own
    assert re.search(r'<script (src|defer)|<(img|iframe)\b|url\(|href="(?!data:,|#main)', own) is None
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for kind, tag in (("script-src", "script"), ("style-src", "style")):
        for source in re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL):
            digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy.partition(kind)[2].partition(";")[0]


def test_rule_sets_are_never_mixed() -> None:
    both = backtests(backtest("a", "E", 1), backtest("a", "F", 3, rules="pmb-2026-01"))
    assert results(both).filter(pl.col("episode") == "Total")["pnl"].to_list() == [1, 3]
    assert summarise(both)["episodes"].to_list() == [1, 1]
