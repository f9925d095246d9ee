"""The catalog: who may replace a partition, and which files belong to the lake."""

from __future__ import annotations

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bellwether.errors import BellwetherError, LakeError
from bellwether.lake import Lake
from bellwether.lake.catalog import OutrunError
from tests.unit.lake.frames import PRICES, SERIES, prices, series

DAY = ("2025-09-01",)


@pytest.fixture(params=["sqlite", "postgres"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    catalog = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return Lake(str(tmp_path / "lake"), catalog=catalog)


def test_a_run_that_was_outrun_loses_and_changes_none_of_its_tables(lake: Lake) -> None:
    lake.write(PRICES, DAY, prices(), run_id="earlier")
    base = lake.catalog.head()
    lake.write(PRICES, DAY, prices(seed=1), run_id="retry", base=base)
    staged = [lake.stage(SERIES, (), series(), run_id="frozen"), lake.stage(PRICES, DAY, prices(seed=2), run_id="frozen")]
    with pytest.raises(
        OutrunError,
        match=r"writing clean/prices 2025-09-01: run retry has written it at .* UTC, after run frozen began; the newer rows are kept",
    ):
        lake.commit(staged, base=base)
    assert lake.slice(PRICES).read().equals(prices(seed=1))
    assert lake.manifests(SERIES) == {}


def test_a_run_that_was_outrun_with_equal_rows_from_equal_inputs_keeps_them(lake: Lake) -> None:
    base, inputs = lake.catalog.head(), {SERIES.name: "one"}
    written = lake.write(PRICES, DAY, prices(), run_id="first", inputs=inputs)
    assert lake.write(PRICES, DAY, prices(), run_id="second", inputs=inputs, base=base) == written == lake.manifest(PRICES, DAY)
    with pytest.raises(OutrunError, match="run first has written it"):
        lake.write(PRICES, DAY, prices(), run_id="third", inputs={SERIES.name: "two"}, base=base)


def test_a_run_replaces_what_it_has_written_itself_and_what_was_there_when_it_began(lake: Lake) -> None:
    lake.write(PRICES, DAY, prices(), run_id="earlier")
    base = lake.catalog.head()
    for seed in (1, 2):
        lake.write(PRICES, DAY, prices(seed=seed), run_id="run", base=base)
    lake.write(PRICES, ("2025-09-02",), prices("2025-09-02"), run_id="run", base=base)
    assert lake.slice(PRICES, [DAY]).read().equals(prices(seed=2))


def test_a_commit_is_recognized_when_it_is_repeated(lake: Lake) -> None:
    staged = [lake.stage(PRICES, DAY, prices(), run_id="run")]
    assert lake.commit(staged) == lake.commit(staged)


def test_writers_of_one_partition_end_as_one_after_the_other(lake: Lake) -> None:
    with ThreadPoolExecutor(4) as pool:
        written = list(pool.map(lambda seed: lake.write(PRICES, DAY, prices(seed=seed), run_id=f"r{seed}"), range(12)))
    last = max(written, key=lambda manifest: manifest.number)
    assert lake.manifest(PRICES, DAY) == last
    assert len({manifest.number for manifest in written}) == 12
    assert set(lake.catalog.superseded(PRICES.name)) == {manifest.file for manifest in written} - {last.file}


def test_a_file_without_a_row_is_not_read(lake: Lake) -> None:
    lake.stage(PRICES, DAY, prices(), run_id="killed")
    assert lake.manifests(PRICES) == {}
    assert lake.slice(PRICES).read().is_empty()


def test_lakes_share_a_database(tmp_path: Path, postgres_url: str) -> None:
    one, other = (Lake(str(tmp_path / name), catalog=postgres_url) for name in ("one", "other"))
    one.write(PRICES, DAY, prices(), run_id="r")
    assert other.manifests(PRICES) == {}
    assert (one.catalog.heads(), other.catalog.heads()) == ({PRICES.name: 1}, {})


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"), catalog="postgresql://user:secret@127.0.0.1:1/none?connect_timeout=1")
    assert "secret" not in lake.catalog.where


def test_files_without_a_catalog_are_refused_until_it_is_restored(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    lake.write(PRICES, DAY, prices(), run_id="r")
    catalog = tmp_path / "lake.catalog.db"
    aside = catalog.rename(tmp_path / "aside")
    for attempt in (lambda: lake.manifests(PRICES), lambda: lake.write(SERIES, (), series(), run_id="r")):
        with pytest.raises(LakeError, match=r"it has files but no catalog .*lake.catalog.db; restore the catalog from a backup"):
            attempt()
    aside.rename(catalog)
    assert lake.slice(PRICES).read().equals(prices())


@pytest.mark.parametrize("damage", ["version", "content", "tables"])
def test_a_catalog_of_another_version_and_a_damaged_one_are_one_clear_error(tmp_path: Path, damage: str) -> None:
    lake, file = Lake(str(tmp_path / "lake")), tmp_path / "lake.catalog.db"
    lake.write(PRICES, DAY, prices(), run_id="r")
    expected = "its tables have version 3, this Bellwether reads version 2; use the Bellwether that made it"
    if damage == "version":
        with sqlite3.connect(file) as connection:
            connection.execute("UPDATE catalog_version SET version = 3")
    elif damage == "content":
        file.write_bytes(b"no database")
        expected = "the file is damaged or not SQLite.s; it was left as it is. Restore a backup, or rebuild it"
    else:
        file.unlink()
        sqlite3.connect(file).execute("CREATE TABLE other (a)").connection.commit()
        expected = "the database is not a catalog, it contains the table .other."
    with pytest.raises(BellwetherError, match=expected):
        Lake(str(tmp_path / "lake")).manifests(PRICES)


def test_a_log_that_another_process_removes_meanwhile_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, log = Lake(str(tmp_path / "lake")), tmp_path / "lake.catalog.db-wal"
    lake.write(PRICES, DAY, prices(), run_id="r")
    log.touch()
    genuine = Path.stat

    def stat(path: Path, **given: bool) -> os.stat_result:
        """Look at the log just before the other process closes the database, which removes it."""
        found = genuine(path, **given)
        if path == log:
            path.unlink()
        return found

    monkeypatch.setattr(Path, "stat", stat)
    assert Lake(str(tmp_path / "lake")).slice(PRICES).read().equals(prices())
    assert not log.exists()


def test_any_folder_can_contain_a_lake_and_its_catalog(tmp_path: Path) -> None:
    for name in ("a%20b", "a?b=c", "a#b", "a b", "naïve", "a'b"):
        lake = Lake(str(tmp_path / name / "lake"))
        lake.write(PRICES, DAY, prices(), run_id="r")
        assert Lake(str(tmp_path / name / "lake")).slice(PRICES).read().equals(prices())
        assert (tmp_path / name / "lake.catalog.db").is_file()


def test_a_folder_that_is_read_only_can_be_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    lake = Lake(str(home / "lake"))
    lake.write(PRICES, DAY, prices(), run_id="r")
    home.chmod(0o500)
    try:
        assert Lake(str(home / "lake")).slice(PRICES).read().equals(prices())
    finally:
        home.chmod(0o700)
