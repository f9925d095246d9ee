"""A lost catalog is rebuilt from a publication or a backup; later files are adopted by name only."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from bellwether.backup import backup
from bellwether.doctor.installation import examine
from bellwether.errors import ConfigError
from bellwether.journal.journal import Journal
from bellwether.lake import Lake
from bellwether.lake.recovery import adopt, find_uncommitted, read_publication, rebuild
from bellwether.lake.warehouse import publish, query
from bellwether.settings import Settings, settings
from cli.main import main
from tests.unit.lake.frames import FORECASTS, PRICES, SERIES, forecasts, prices, series

CHOSEN = (SERIES, PRICES, FORECASTS)
DAY = ("2025-09-01",)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a home with a published lake."""
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path / "home"))
    settings.cache_clear()
    lake = Lake.of(settings())
    lake.write(PRICES, DAY, prices(), run_id="r1", inputs={"raw/markets": "abc"}, code_version="7")
    lake.write(SERIES, (), series(), run_id="r1")
    lake.write(FORECASTS, ("2025q3", "a/b"), forecasts(forecaster="a/b"), run_id="r1")
    publish(lake, settings().warehouse_uri, tables=CHOSEN)
    return settings()


def lose_catalog(config: Settings) -> Lake:
    Path(config.catalog).unlink()
    return Lake.of(config)


def test_a_catalog_rebuilt_from_a_publication_names_the_same_partitions(config: Settings, tmp_path: Path) -> None:
    before = {one.name: list(Lake.of(config).manifests(one).values()) for one in CHOSEN}
    lake = lose_catalog(config)
    rebuild(lake, read_publication(lake, config.warehouse_uri))
    for one in CHOSEN:
        for old, new in zip(before[one.name], lake.manifests(one).values(), strict=True):
            assert {name: getattr(old, name) for name in old.__slots__ if name not in ("number", "checked_at")} == {
                name: getattr(new, name) for name in new.__slots__ if name not in ("number", "checked_at")
            }
    with pytest.raises(ConfigError, match="exists; move it away first"):
        rebuild(lake, read_publication(lake, config.warehouse_uri))
    publish(lake, tmp_path / "again.duckdb", tables=CHOSEN)
    for one in CHOSEN:
        sql = f"FROM {one.sql_name} ORDER BY ALL"
        assert query(tmp_path / "again.duckdb", sql).equals(query(config.warehouse_uri, sql))


def test_later_files_are_uncommitted_until_they_are_adopted_by_name(config: Settings) -> None:
    Lake.of(config).write(PRICES, DAY, prices(seed=1), run_id="later")
    Lake.of(config).stage(PRICES, DAY, prices(seed=2), run_id="killed")
    lake = lose_catalog(config)
    rebuild(lake, read_publication(lake, config.warehouse_uri))
    assert lake.slice(PRICES).read().equals(prices())
    uncommitted = {manifest.run_id: manifest for manifest in find_uncommitted(lake)}
    assert set(uncommitted) == {"later", "killed"}
    with pytest.raises(ConfigError, match=r"adopting r1.parquet: it is not an uncommitted file"):
        adopt(lake, ["r1.parquet"])
    adopt(lake, ["clean/prices/2025-09-01/later.parquet"])
    assert lake.slice(PRICES).read().equals(prices(seed=1))
    assert [manifest.run_id for manifest in find_uncommitted(lake)] == ["killed"]
    lake.verify(lake.manifests(PRICES)[DAY])


def test_the_command_starts_from_a_backup(config: Settings, tmp_path: Path) -> None:
    Lake.of(config).write(PRICES, DAY, prices(seed=1), run_id="later")
    folder = backup(config, tmp_path / "backups", at=datetime.now(UTC))
    lake = lose_catalog(config)
    refused = CliRunner().invoke(main, ["doctor", "--rebuild", "--backup", str(tmp_path)])
    assert (refused.exit_code, "lake.catalog.db is missing; name the folder of a backup" in refused.stderr) == (1, True)
    command = ["doctor", "--rebuild", "--backup", str(folder)]
    done = CliRunner().invoke(main, command, catch_exceptions=False)
    assert done.stdout == f"3 partitions from {folder / 'lake.catalog.db'}\n"
    assert lake.slice(PRICES).read().equals(prices(seed=1))
    again = CliRunner().invoke(main, ["doctor", "--rebuild"], catch_exceptions=False)
    assert (again.exit_code, again.output) == (0, "")


def test_a_lost_journal_is_not_replaced_while_there_are_answers(config: Settings) -> None:
    answers = forecasts(forecaster="m").with_columns(call_key=pl.lit("key"))
    Lake.of(config).write(FORECASTS, ("2025q3", "m"), answers, run_id="r2")
    publish(Lake.of(config), config.warehouse_uri, tables=CHOSEN)
    lake = lose_catalog(config)
    done = CliRunner().invoke(main, ["doctor", "--rebuild"])
    assert done.exit_code == 1
    assert "could be paid for twice. Restore the journal from a backup, or import" in done.stderr
    assert len(lake.manifests(FORECASTS)) == 2
    with Journal.of(config) as journal:
        assert not journal.exists()


def test_doctor_names_a_lost_catalog_and_what_a_publication_lacks(config: Settings) -> None:
    lake = Lake.of(config)
    assert [finding.status for finding in examine(config) if finding.check in ("catalog", "published warehouse")] == ["ok", "ok"]
    stored = Path(lake.storage.location(lake.manifests(PRICES)[DAY].file))
    stored.chmod(0o644)
    stored.write_bytes(stored.read_bytes()[:-1])
    publish(lake, config.warehouse_uri, tables=CHOSEN)
    lose_catalog(config)
    bad = {finding.check: finding.found for finding in examine(config) if finding.status == "bad"}
    assert "it has files but no catalog" in bad["catalog"]
    assert bad["published warehouse"] == "clean.prices 2025-09-01 was left out as damaged"
