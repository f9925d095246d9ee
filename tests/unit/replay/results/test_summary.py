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
from bellwether.pages.values import earning
from bellwether.replay import Backtest
from bellwether.replay.results.summary import reality_check
from bellwether.replay.results.tear_sheet import tear_sheet
from bellwether.replay.results.text_tables import Lines, agent_tables, comparison_table
from bellwether.tables.replay import SUMMARY
from tests.unit.replay.results.frames import KNOWN, backtest, backtests, summarise
from tests.unit.replay.results.traders import backtest_random

FOUR = backtests(
    backtest("chaser", "C-1", 12.34, max_drawdown=0.02, fill_ratio=0.5, orders=7, contracts="1000.50"),
    backtest("chaser", "A-1", -100, max_drawdown=0.3125, fill_ratio=None, contracts=500, slippage="2.5", maker_share=0.5),
    backtest("chaser", "B-1", 0, max_drawdown=0.0, fill_ratio=0.75, contracts=0, orders=0),
    backtest("keeper", "A-1", 5, sharpe_annualised=3.0, known_at=KNOWN + timedelta(hours=1)),
)


def tables(every: pl.DataFrame, titles: dict[str, str] | None = None) -> list[Lines]:
    return agent_tables(every, summarise(every), titles)


def test_a_table_has_its_episodes_in_order_and_the_total_last() -> None:
    assert [[row[0] for row in table.rows] for table in tables(FOUR)] == [["A-1", "B-1", "C-1", "Total"], ["A-1", "Total"]]


def test_sums_of_the_largest_amounts_are_exact() -> None:
    money, size = "999999990000.000001", "9999999999999999.99"
    amounts = {"fees": money, "slippage": money, "contracts": size}
    every = backtests(*(backtest("a", f"E{number}", money, **amounts) for number in range(3)))
    sums = {name: 3 * Decimal(value) for name, value in {"pnl": money, **amounts}.items()}
    (summary,) = SUMMARY.validate(summarise(every)).to_dicts()
    assert {name: summary[name] for name in sums} == sums
    assert reality_check(every).pnl == sums["pnl"]


def test_the_summary_has_a_row_per_agent_with_statistics_over_episodes() -> None:
    frame = SUMMARY.validate(summarise(FOUR))
    chaser, keeper = frame.to_dicts()
    assert (chaser["agent"], chaser["episodes"], chaser["pnl"]) == ("chaser", 3, Decimal("-87.66"))
    assert [chaser[f"pnl_{one}"] for one in ("mean", "median", "min", "max")] == [pytest.approx(-29.22), 0.0, -100.0, 12.34]
    assert chaser["return_mean"] == pytest.approx(-0.02922)
    assert chaser["max_drawdown"] == 0.3125
    assert chaser["fill_ratio_mean"] == 0.625  # of the two episodes with a value
    assert (chaser["contracts"], chaser["orders"]) == (Decimal("1500.50"), 10)
    assert chaser["slippage"] == Decimal("2.5")
    assert chaser["profitable"] == pytest.approx(1 / 3)
    assert chaser["maker_share"] == pytest.approx(250 / 1500.5)
    assert [chaser[f"sharpe_{one}"] for one in ("mean", "min", "max")] == [None, None, None]
    assert [keeper[f"sharpe_{one}"] for one in ("mean", "min", "max")] == [3.0, 3.0, 3.0]
    assert keeper["known_at"] == KNOWN + timedelta(hours=1)
    assert keeper["slippage"] is None


def test_a_line_reads_as_in_the_published_tables() -> None:
    table = tables(FOUR, {"chaser": "The Chaser"})[0]
    assert table.title == "The Chaser under kalshi-2025-10-01"
    assert table.header[:6] == ("Episode", "PnL ($)", "Return (%)", "Max DD (%)", "Contracts", "Fill (%)")
    assert table.rows[0][:6] == ("A-1", "-100.00", "-10.00", "31.25", "500", "–")
    assert table.rows[2][:6] == ("C-1", "+12.34", "+1.23", "2.00", "1,000.50", "50.0")
    assert table.rows[3] == ("Total", "-87.66", "-2.92", "31.25", "1,500.50", "62.5")


QUEUES = backtests(
    backtest("a", "E", 5, queues=[*range(-3, 17)]),
    backtest("a", "F", -2, queues=[*range(20)]),
    backtest("a", "G", 900, unsettled=True),
    backtest("b", "E", 1, queues=[7, 7]),
    backtest("b", "F", 2),
)


def test_sampled_queues_are_summed_over_episodes_history_by_history() -> None:
    a, b = summarise(QUEUES).to_dicts()
    sums = sorted(first + second for first, second in zip(range(-3, 17), range(20), strict=True))
    assert (a["queues"], a["queue_pnl_low"], a["queue_pnl_median"], a["queue_pnl_high"]) == (20, sums[1], 16, sums[18])
    assert a["queue_profitable"] == sum(total > 0 for total in sums) / 20
    assert (b["queues"], b["queue_pnl_median"], b["queue_profitable"]) == (0, None, None), "F has no histories"


def test_tables_name_the_sampled_queues_or_the_option_that_adds_them() -> None:
    table, other = tables(QUEUES)
    assert table.header[-1] == "20 sampled queues ($)"
    assert [row[-1] for row in table.rows] == ["+6.50, 80% (-3.00…+16.00)", "+9.50, 95% (0.00…+19.00)", "–", "+16.00, 90% (-1.00…+33.00)"]
    assert other.rows[-1][-1] == "–"
    assert comparison_table(summarise(QUEUES)).header[-1] == "20 sampled queues ($)"
    assert any("no bound" in note for note in table.notes)
    (plain,) = tables(backtests(backtest("a", "E", 1)))
    assert plain.header[-1] == "Fill (%)"
    assert any("--queues 20" in note for note in plain.notes)
    original = comparison_table(summarise(backtests(backtest("a", "E", 1, rules="pmb-2026-01"))))
    assert not any("--queues" in note for note in original.notes), "its rules have none"


MIXED = backtests(
    backtest("a", "E", 5),
    backtest("a", "F", 100, unsettled=True, contracts=1000),
    backtest("a", "G", -2, default_fees=True),
    backtest("b", "E", 7, unsettled=True),
)


def test_unsettled_episodes_are_lines_that_no_total_and_no_mean_has() -> None:
    first, second = SUMMARY.validate(summarise(MIXED)).to_dicts()
    assert (first["pnl"], first["pnl_mean"], first["episodes"], first["unsettled"], first["default_fees"]) == (Decimal(3), 1.5, 2, 1, 1)
    assert (second["pnl"], second["pnl_mean"], second["profitable"], second["episodes"], second["unsettled"]) == (0, None, None, 0, 1)
    a, b = tables(MIXED)
    assert [row[1] for row in a.rows] == ["+5.00", "+100.00*", "-2.00†", "+3.00†"]
    assert [row[1] for row in b.rows] == ["+7.00*", "–"]


def test_a_recording_counts_once_where_an_agent_traded_it_alone_and_with_others() -> None:
    alone = (backtest("a", "E", 1), backtest("a", "F", 3))
    mixed = backtests(*alone, backtest("a", "E+F", 50, unsettled=True))
    assert [row[:2] for row in tables(mixed)[0].rows] == [("E", "+1.00"), ("E+F", "+50.00*"), ("F", "+3.00"), ("Total", "+4.00")]
    assert summarise(mixed).drop("known_at").equals(summarise(backtests(*alone)).drop("known_at"))
    joined = backtests(backtest("a", "E+F", 50), backtest("a", "G+H", 7))
    assert summarise(joined).select("episodes", "pnl").rows() == [(2, Decimal(57))]


@pytest.mark.parametrize(
    ("pnl", "text"), [(-1.64, "-0.002"), (0, "0.00"), (0.004, "+0.000004"), (123.4, "+0.12"), (-499.9, "-0.50")], ids=str
)
def test_a_return_has_the_sign_of_its_pnl(pnl: float, text: str) -> None:
    (table,) = tables(backtests(backtest("a", "E", pnl, bankroll=100_000, **{"return": pnl / 100_000})))
    assert [row[2] for row in table.rows] == [text, text]
    shown = earning(pnl / 100_000).text
    assert shown.replace("−", "-").replace("\u00a0%", "") == text.removeprefix("+")


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
    both = backtests(backtest("a", "E", 1), backtest("a", "F", 3, rules="kalshi-2026-08-30"))
    assert summarise(both).select("rules", "episodes", "pnl").rows() == [("kalshi-2025-10-01", 1, 1), ("kalshi-2026-08-30", 1, 3)]
