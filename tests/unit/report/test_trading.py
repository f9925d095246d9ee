"""The trading report: computed from rows alone, reproducible, and with escaped names."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from bellwether.figures import canvas
from bellwether.report.trading import build_results_document, render_trading_page, trading_figures, write_trading_report
from bellwether.report.trading_inputs import TradingInputs
from tests.unit.figures.chart_contents import chart_texts
from tests.unit.figures.test_trading import equity, fills
from tests.unit.replay.results.frames import KNOWN, backtest, backtests
from tests.unit.replay.results.tapes import book, tape

ROWS = backtests(
    *(backtest("steady", f"E-{index}", index, sharpe_annualised=1.5, sharpe=0.1) for index in range(4)),
    backtest(
        "reckless", "E-0", "-12.5", failure="ValueError: | no <b>book</b>\n# head", failed_step=7, rejected=2, rejections='{"halted": 2}'
    ),
)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_report_is_a_page_every_number_figures_and_metadata_that_name_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canvas, "png", lambda *_: b"\x89PNG")
    on = tape(*book(0, 400, 420), *book(500, 430, 450))
    inputs = TradingInputs(
        ROWS,
        fills=fills(on, 20, agent="steady", episode="E-0"),
        equity=equity("steady", "E-0"),
        tapes={"E-0": on},
        titles={"steady": "Steady!"},
    )
    written = write_trading_report(inputs, tmp_path)
    files = contents(tmp_path / "trading")
    stamp = KNOWN.strftime("%Y%m%d_%H%M%S")
    expected = ("results", "pnl", "equity", "book_e-0", "trading", "metadata")
    assert sorted({name.rsplit("_", 2)[0].split("-")[0] for name in files}) == sorted({name.split("-")[0] for name in expected})
    assert len(written) == len(files) == len(expected)
    metadata = json.loads(files[f"metadata_{stamp}.json"])
    assert set(metadata["files"]) == set(files) - {f"metadata_{stamp}.json"}
    assert metadata["rules"] == ["kalshi-2025-10-01"]
    text = files.pop(f"trading_{stamp}.md").decode()
    assert "Steady!" in text
    assert [name for name in files if f"]({name})" not in text] == []


def test_no_name_breaks_the_page() -> None:
    evil = "<script>x</script>|`a`\n# heading ![p](http://e.vil) $x$"
    rows = backtests(backtest(evil, evil, 1, failure=evil, failed_step=0, rules="kalshi-2025-10-01"), backtest("b", "E", 2))
    text = render_trading_page(TradingInputs(rows, name=evil), {}, {})
    assert "<script>" not in text
    assert "\n# heading" not in text
    assert "](http" not in text.replace("\\]", "")
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.replace("\\|", "").count("|") > 2 for line in tables)


def test_the_document_keeps_every_digit_and_null() -> None:
    inputs = TradingInputs(backtests(backtest("a", "E", "0.000001", slippage="0.000003")))
    row = build_results_document(inputs)["backtests"][0]
    assert (row["pnl"], row["slippage"], row["sharpe"]) == (Decimal("0.000001"), Decimal("0.000003"), None)


def test_figures_never_mix_rule_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    written: set[str] = set()
    monkeypatch.setattr(canvas, "png", lambda chart: written.update(chart_texts(chart)) or b"")
    on = tape(*book(0, 400, 420))
    rows = pl.concat((backtests(backtest("a", "E", 1)), backtests(backtest("a", "E", 2, rules="pmb-2026-01"))))
    both = pl.concat((fills(on, 9), fills(on, 5).with_columns(rules=pl.lit("pmb-2026-01"))))
    for figure in trading_figures(TradingInputs(rows, fills=both, equity=equity(), tapes={"E": on})):
        figure.draw()
    assert {"a (kalshi-2025-10-01)", "a (pmb-2026-01)"} <= written
