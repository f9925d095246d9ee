"""The trading report and its command: computed from rows alone, reproducible, and with escaped names."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from bellwether.errors import ConfigError, LakeError, SchemaError
from bellwether.figures import canvas
from bellwether.lake import Lake
from bellwether.lake.warehouse import publish
from bellwether.replay.results.folder import read_backtests
from bellwether.report.trading import build_results_document, render_trading_page, trading_figures, write_trading_report
from bellwether.report.trading_inputs import TradingInputs, read_folder_inputs, read_warehouse_inputs, select_rows
from bellwether.settings import settings
from bellwether.tables.replay import BACKTESTS, EQUITY, FILLS
from cli.main import main
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The output folder of `bellwether backtest --out`."""
    out = tmp_path / "out" / "first"
    out.mkdir(parents=True)
    ROWS.write_parquet(out / "backtests.parquet")
    fills(tape(*book(0, 400, 420)), 20, agent="steady", episode="E-0").write_parquet(out / "fills.parquet")
    return tmp_path / "out"


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
    expected = ("results", "pnl", "equity", "markouts", "book_e-0", "fills_e-0", "trading", "metadata")
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


def test_backtests_are_read_from_all_folders_below(folder: Path) -> None:
    (folder / "second").mkdir()
    backtests(backtest("late", "E-0", 3)).write_parquet(folder / "second" / "backtests.parquet")
    assert read_backtests(folder).height == ROWS.height + 1
    inputs = read_folder_inputs(folder, ["steady"])
    assert (inputs.agents, inputs.fills.height) == (["steady"], 20)
    assert inputs.equity.equals(EQUITY.empty())


def test_copies_count_once_and_different_backtests_of_one_episode_are_refused(folder: Path) -> None:
    (folder / "copy").mkdir()
    ROWS.write_parquet(folder / "copy" / "backtests.parquet")
    assert read_backtests(folder).height == ROWS.height
    backtests(backtest("steady", "E-0", 3, settings_digest="other")).write_parquet(folder / "copy" / "backtests.parquet")
    with pytest.raises(ConfigError, match="different backtests of steady in E-0"):
        read_backtests(folder)


def test_the_command_prints_a_table_per_agent_and_all_beside_one_another(folder: Path) -> None:
    shown = CliRunner().invoke(main, ["trading", str(folder)])
    assert shown.exit_code == 0, shown.output
    assert "reckless under kalshi-2025-10-01" in shown.output
    assert "All agents over 1 to 4 episodes" in shown.output
    assert max(map(len, shown.output.splitlines())) <= 80
    line = next(line for line in shown.output.splitlines() if line.startswith("reckless ") and "under" not in line)
    assert line.split() == ["reckless", "-12.50", "-1.25", "1.00", "10", "3", "100.0"]


def test_the_command_prints_json_with_exact_amounts(folder: Path) -> None:
    shown = CliRunner().invoke(main, ["trading", str(folder), "--agent", "reckless", "--json"])
    found = json.loads(shown.output)
    assert [row["pnl"] for row in (*found["agents"], *found["backtests"])] == ["-12.500000", "-12.500000"]
    assert found["agents"][0]["return_mean"] == -0.0125


@pytest.fixture(scope="module")
def trading_inputs() -> TradingInputs:
    """Backtests, fills and equity."""
    on = tape(*book(0, 400, 420))
    return TradingInputs(ROWS, fills=fills(on, 20, agent="steady", episode="E-0"), equity=equity("steady", "E-0"))


@pytest.fixture(scope="module")
def published(trading_inputs: TradingInputs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, tables = tmp_path_factory.mktemp("published"), (BACKTESTS, FILLS, EQUITY)
    lake = Lake(str(folder / "lake"))
    for declared in tables:
        frame = getattr(trading_inputs, declared.short_name)
        for key, rows in frame.partition_by(*declared.partitioned_by, as_dict=True).items():
            lake.write(declared, tuple(str(one) for one in key), rows.sort(declared.order), run_id="r1")
    return Path(publish(lake, folder / "warehouse.duckdb", tables=tables).path)


@pytest.fixture
def warehouse(trading_inputs: TradingInputs, published: Path, monkeypatch: pytest.MonkeyPatch) -> TradingInputs:
    """A published warehouse at the place of the settings."""
    monkeypatch.setenv("BELLWETHER_WAREHOUSE", str(published))
    settings.cache_clear()
    return trading_inputs


def test_a_warehouse_gives_the_report_that_the_frames_give(warehouse: TradingInputs) -> None:
    read = read_warehouse_inputs(settings().warehouse_uri)
    assert read.backtests.equals(warehouse.backtests)
    assert read.summary.equals(warehouse.summary)
    assert read.fills.drop("filled_at").equals(warehouse.fills.drop("filled_at"))
    assert read.equity.equals(warehouse.equity)
    assert read_warehouse_inputs(settings().warehouse_uri, ["reckless"]).fills.is_empty()


def test_figures_never_mix_rule_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    written: set[str] = set()
    monkeypatch.setattr(canvas, "png", lambda chart: written.update(chart_texts(chart)) or b"")
    on = tape(*book(0, 400, 420))
    rows = pl.concat((backtests(backtest("a", "E", 1)), backtests(backtest("a", "E", 2, rules="pmb-2026-01"))))
    both = pl.concat((fills(on, 9), fills(on, 5).with_columns(rules=pl.lit("pmb-2026-01"))))
    for figure in trading_figures(TradingInputs(rows, fills=both, equity=equity(), tapes={"E": on})):
        figure.draw()
    assert {"a (kalshi-2025-10-01)", "a (pmb-2026-01)"} <= written


def test_missing_and_damaged_folders_and_unknown_agents_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "none", tmp_path / "empty"):
        with pytest.raises(ConfigError):
            read_backtests(path)
    (folder / "first" / "backtests.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(LakeError):
        read_backtests(folder)
    FILLS.empty().write_parquet(folder / "first" / "backtests.parquet")
    with pytest.raises(SchemaError):
        read_backtests(folder)
    with pytest.raises(ConfigError):
        select_rows(ROWS, ["passive"])
    with pytest.raises(ConfigError):
        select_rows(ROWS, rules="pmb")
