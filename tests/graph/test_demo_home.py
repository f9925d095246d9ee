"""Results of the demo home, from raw pages to rankings, as its lake, warehouse and events state them."""

from __future__ import annotations

import dagster as dg
import pytest

from bellwether.lake.warehouse import query
from bellwether.tables.benchmark import HORIZONS
from orchestration.asset_declarations import key
from tests.demo_home import World
from tests.graph.worlds import rows


def all_metadata(world: World, name: str) -> list[dict[str, dg.MetadataValue]]:
    """Return the metadata of each materialization of a table, the latest first."""
    records = world.instance.fetch_materializations(key(name), limit=1000).records
    return [dict(record.asset_materialization.metadata) for record in records if record.asset_materialization is not None]


def metadata(world: World, name: str) -> dict[str, dg.MetadataValue]:
    """Return the metadata of the latest materialization of a table."""
    return all_metadata(world, name)[0]


def test_prices_before_the_close_are_those_that_forecasts_are_compared_with(demo: World) -> None:
    """A view of the warehouse computes them from clean/prices once more."""
    for name, hours in HORIZONS.items():
        stored = (
            f"SELECT id, price_{name}_at, round(CAST(price_{name} AS DOUBLE), 6) AS price FROM benchmark.questions WHERE price IS NOT NULL"
        )
        viewed = f"SELECT question_id, price_at, round(price, 6) FROM views.price_before({hours})"
        found = query(demo.config.warehouse_uri, stored).rows()
        assert len(found) > 10
        assert sorted(found) == sorted(query(demo.config.warehouse_uri, viewed).rows()), name


def test_money_in_events_is_a_number_that_the_ui_plots(demo: World) -> None:
    """A file size is text."""
    backtest = next(shown for shown in all_metadata(demo, "replay/backtests") if "P&L, median of sampled queues" in shown)
    for shown, wanted in (
        (backtest, {"P&L", "P&L, median of sampled queues", "fees", "contracts"}),
        (metadata(demo, "replay/summary"), {"P&L of all", "fees of all"}),
    ):
        assert {label for label in wanted if not isinstance(shown[label].value, float)} == set()
    assert isinstance(shown["size"].value, str)
    assert shown["P&L of all"].value == pytest.approx(float(rows(demo, "replay/backtests")["pnl"].sum()))


def test_checks_were_evaluated_and_passed_where_they_block(demo: World) -> None:
    evaluations = [
        event.dagster_event.asset_check_evaluation_data
        for record in demo.instance.get_run_records()
        for event in demo.instance.all_logs(record.dagster_run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        if event.dagster_event is not None
    ]
    checked = {"raw/kalshi_markets", "clean/markets", "benchmark/questions", "benchmark/forecasts", "replay/backtests", "arena/ledger"}
    assert {found.asset_key for found in evaluations} >= {key(name) for name in checked}
    assert {("arena/ledger", name) for name in ("invariants", "decided_on_these_books")} <= {
        (found.asset_key.to_user_string(), found.check_name) for found in evaluations if found.passed
    }
    assert [found.check_name for found in evaluations if found.blocking and not found.passed] == []
