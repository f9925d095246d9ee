"""A backup restores into an empty home at any path and publishes the same warehouse. Any other restore is refused before a file is written."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from bellwether.backup import FILE, FORMAT, backup, backup_name, backup_time, prune, restore, select_expired
from bellwether.doctor.deployment import deployment
from bellwether.doctor.installation import _database_files, _paths, _warehouse
from bellwether.errors import BellwetherError, ConfigError, LakeError
from bellwether.journal.journal import Journal
from bellwether.journal.records import Records
from bellwether.lake import Lake, duckdb_connection
from bellwether.lake.recovery import verify
from bellwether.lake.warehouse import publish, query
from bellwether.settings import Settings, settings
from bellwether.submissions import Submissions
from bellwether.submissions.validation import SCHEMA
from bellwether.tables import TABLES, table
from cli.main import main
from tests.unit.journal.calls import answered_lake, begin_attempt, make_reply
from tests.unit.lake.frames import FORECASTS, PRICES, SERIES, forecasts, prices, series
from tests.unit.site.world import rows

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def settings_of_home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a home with tables, a journal with a claim, a registry and submissions."""
    home = tmp_path_factory.mktemp("living")
    registry = home / "registry"
    registry.mkdir()
    (registry / "lineups.toml").write_text('[mine]\ntitle = "t"\n\n[mine.families]\nhold = "rule/hold"\n')
    config = Settings(home=home / "home", registry=registry)
    lake = Lake(config.lake_uri)
    for day in ("2025-09-01", "2025-09-02"):
        lake.write(PRICES, (day,), prices(day), run_id="r")
    lake.write(SERIES, (), series(), run_id="r")
    lake.write(FORECASTS, ("2025q3", "a/b"), forecasts(forecaster="a/b"), run_id="r")
    with Journal(config.journal_url) as journal:
        Records(journal, "r").once("universe", "2026-03-01", lambda: b"answered")
    day = datetime(2026, 3, 1, tzinfo=UTC)
    Submissions(config.submissions_path).add(pl.DataFrame([("mine", "kalshi:K", day, 0.5, day)], schema=SCHEMA, orient="row"))
    return config


@pytest.fixture(scope="module")
def backup_folder(settings_of_home: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return backup(settings_of_home, tmp_path_factory.mktemp("backups"), at=AT)


def empty(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", registry=tmp_path / "registry")


def copied(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / made.name))


def journal_rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as journal:
        names = [name for (name,) in journal.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {name: sorted(journal.execute(f"SELECT * FROM {name}"), key=repr) for name in names}


def test_a_restored_home_publishes_the_same_warehouse_row_for_row(settings_of_home: Settings, backup_folder: Path, tmp_path: Path) -> None:
    config = empty(tmp_path)
    restore(config, backup_folder)
    for declared in TABLES.values():
        before, after = (Lake(one.lake_uri).slice(declared, missing="skip").read() for one in (settings_of_home, config))
        assert before.equals(after), declared.name
    made_of = [declared for declared in TABLES.values() if Lake(settings_of_home.lake_uri).manifests(declared)]
    for one in (settings_of_home, config):
        publish(Lake(one.lake_uri), one.warehouse_uri, tables=made_of)
    assert len(made_of) == 3
    for declared in made_of:
        rows = [query(one.warehouse_uri, f"FROM {declared.sql_name} ORDER BY ALL") for one in (settings_of_home, config)]
        assert rows[0].equals(rows[1]), declared.name
    assert journal_rows(settings_of_home.world_home / "journal.db") == journal_rows(config.world_home / "journal.db")
    assert (tmp_path / "registry" / "lineups.toml").read_text().startswith("[mine]")
    assert Submissions(config.submissions_path).read().equals(Submissions(settings_of_home.submissions_path).read())


def test_a_journal_in_use_is_copied_as_of_one_instant(settings_of_home: Settings, tmp_path: Path) -> None:
    with closing(sqlite3.connect(settings_of_home.world_home / "journal.db", isolation_level=None)) as writer:
        before = journal_rows(settings_of_home.world_home / "journal.db")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("CREATE TABLE torn (x)")
        folder = backup(settings_of_home, tmp_path / "b", at=AT)
        writer.execute("ROLLBACK")
    assert journal_rows(folder / "journal.db") == before
    assert {path.name for path in folder.iterdir() if path.is_file()} == {"journal.db", "lake.catalog.db", FILE}


def recorded(config: Settings, name: str, *, finished: bool) -> None:
    folder = config.recordings_path / name
    folder.mkdir(parents=True)
    files = {"recording.json": "{}", "000001.ndjson": "frame\n", "lock": ""} | ({"done.json": "{}"} if finished else {})
    for file, text in files.items():
        (folder / file).write_text(text)


def test_recordings_episodes_and_trajectories_are_restored(tmp_path: Path) -> None:
    config, other = Settings(home=tmp_path / "home"), empty(tmp_path / "other")
    recorded(config, "whole", finished=True)
    recorded(config, "live", finished=False)
    for place in (config.episodes_path, config.trajectories_path):
        (place / "one").mkdir(parents=True)
        (place / "one" / "file.json").write_text(place.name)
    restore(other, backup(config, tmp_path / "b", at=AT))
    assert sorted(path.name for path in (other.recordings_path / "whole").iterdir()) == ["000001.ndjson", "done.json", "recording.json"]
    assert sorted(path.name for path in (other.recordings_path / "live").iterdir()) == ["000001.ndjson", "recording.json"]
    for place in (other.episodes_path, other.trajectories_path):
        assert (place / "one" / "file.json").read_text() == place.name


def test_a_recording_that_ends_during_the_backup_is_copied_as_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, copy = Settings(home=tmp_path / "home"), shutil.copytree
    recorded(config, "live", finished=False)

    def end_first(source: Path, *rest: object, **named: object) -> object:
        (source / "done.json").write_text("{}")
        return copy(source, *rest, **named)  # type: ignore[arg-type, type-var]

    monkeypatch.setattr(shutil, "copytree", end_first)
    assert not (backup(config, tmp_path / "b", at=AT) / "recordings" / "live" / "done.json").exists()


def test_the_journal_is_readable_by_its_owner_alone(settings_of_home: Settings, backup_folder: Path, tmp_path: Path) -> None:
    config = empty(tmp_path)
    restore(config, backup_folder)
    for path in (settings_of_home.world_home / "journal.db", backup_folder / "journal.db", config.world_home / "journal.db"):
        assert path.stat().st_mode & 0o777 == 0o600, path


def test_answers_without_their_journal_make_no_backup(tmp_path: Path) -> None:
    config = Settings(home=tmp_path / "home")
    answered_lake(config, "benchmark/forecasts")
    (config.world_home / "journal.db").touch()
    with pytest.raises(LakeError, match="answers of models in benchmark/forecasts"):
        backup(config, tmp_path / "b", at=AT)


def test_a_damaged_lake_makes_no_backup(settings_of_home: Settings, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(settings_of_home.home, home)
    config = Settings(home=home)
    next(path for path in sorted(Path(config.lake_uri).rglob("*.parquet"))).write_bytes(b"other")
    with pytest.raises(LakeError, match="SHA-256"):
        backup(config, tmp_path / "backups", at=AT)
    assert list((tmp_path / "backups").iterdir()) == []


def test_databases_and_object_stores_have_their_own_backups(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pg_dump"):
        backup(Settings(home=tmp_path, journal="postgresql://me@host/journal"), tmp_path / "b", at=AT)
    with pytest.raises(ConfigError, match="object"):
        backup(Settings(home=tmp_path, lake="s3://bucket/lake"), tmp_path / "b", at=AT)


def test_tiers_keep_the_newest_and_the_last_of_weeks_and_months() -> None:
    days = [datetime(2026, 3, 31, 2, tzinfo=UTC) - timedelta(days=number) for number in range(500)]
    assert select_expired(days[:7]) == []
    kept = sorted({*days} - {*select_expired(days)}, reverse=True)
    newest = ["03-31", "03-30", "03-29", "03-28", "03-27", "03-26", "03-25"]
    weeks = ["03-22", "03-15", "03-08"]
    months = ["02-28", "01-31", "12-31", "11-30", "10-31", "09-30", "08-31", "07-31", "06-30", "05-31", "04-30"]
    assert [at.strftime("%m-%d") for at in kept] == newest + weeks + months


def test_only_backups_of_the_world_are_removed(settings_of_home: Settings, tmp_path: Path) -> None:
    folders = [backup_name("sandbox", AT + timedelta(days=number)) for number in range(2, 11)]
    for name in (*folders, backup_name("live", AT), "bellwether-sandbox-notes", "photos"):
        (tmp_path / name).mkdir()
    assert [path.name for path in prune(settings_of_home, tmp_path)] == folders[:2]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*folders[2:], backup_name("live", AT), "bellwether-sandbox-notes", "photos"]
    )
    assert backup_time(folders[1], "sandbox") == AT + timedelta(days=3)


def test_the_commands_back_up_and_restore(settings_of_home: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(home: Path, *words: str) -> str:
        monkeypatch.setenv("BELLWETHER_HOME", str(home))
        settings.cache_clear()
        ran = CliRunner().invoke(main, [*words])
        settings.cache_clear()
        return ran.output if ran.exception is None else f"{ran.output} {ran.exception}"

    made, _, count = run(settings_of_home.home, "backup", str(tmp_path / "backups")).partition(": ")
    assert int(count.removesuffix(" files\n")) > 5
    assert "files of" in run(tmp_path / "other", "restore", made)
    assert "already" in run(tmp_path / "other", "restore", made)


def test_nothing_that_is_there_is_overwritten(backup_folder: Path, tmp_path: Path) -> None:
    for kind in ("lake", "journal", "submissions", "registry"):
        config = empty(tmp_path / kind)
        place = {
            "lake": Path(config.lake_uri) / "x" / "file.parquet",
            "journal": config.world_home / "journal.db",
            "submissions": config.submissions_path / "other.parquet",
            "registry": tmp_path / kind / "registry" / "models.toml",
        }[kind]
        place.parent.mkdir(parents=True)
        place.write_text("mine")
        with pytest.raises(BellwetherError, match="restore into an empty BELLWETHER_HOME"):
            restore(config, backup_folder)
        assert [path for path in (tmp_path / kind).rglob("*") if path.is_file()] == [place]


def change_manifest(folder: Path, **changes: object) -> None:
    fields = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps({**fields, **changes}))


HARMS: dict[str, Callable[[Path], object]] = {
    "SHA-256 differs": lambda folder: sorted(folder.rglob("*.parquet"))[0].write_bytes(b"other"),
    "is missing": lambda folder: sorted(folder.rglob("*.parquet"))[0].unlink(),
    "is not part of the backup": lambda folder: (folder / "lake" / "more.parquet").write_bytes(b"x"),
    "lake/pipe is neither a file nor a folder": lambda folder: os.mkfifo(folder / "lake" / "pipe"),
    "registry/link is neither a file nor a folder": lambda folder: (folder / "registry" / "link").symlink_to("/etc"),
    "and this version restores format": lambda folder: change_manifest(folder, format=FORMAT + 1, version="9.0"),
    "of the world live": lambda folder: change_manifest(folder, world="live"),
    f"contains no {FILE}": lambda folder: (folder / FILE).unlink(),
}


@pytest.mark.parametrize("message", HARMS)
def test_a_backup_that_is_not_whole_is_refused_before_a_file_is_written(backup_folder: Path, tmp_path: Path, message: str) -> None:
    folder, config = copied(backup_folder, tmp_path), empty(tmp_path)
    HARMS[message](folder)
    with pytest.raises(BellwetherError, match=message):
        restore(config, folder)
    assert not config.world_home.exists()


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


JOURNAL_HARMS: dict[str, Callable[[Path, bytes], object]] = {
    "cut in half": lambda path, data: path.write_bytes(data[: len(data) // 2]),
    "overwritten": lambda path, data: path.write_bytes(data[:4096] + b"x" * (len(data) // 2 - 4096) + data[len(data) // 2 :]),
    "another header": lambda path, data: path.write_bytes(b"SQLite format 4\x00" + data[16:]),
    "a body without its call": lambda path, _: execute(
        path, "INSERT INTO responses (key, number, body, sha256, stored_at) VALUES ('k', 1, x'00', '', '2026-03-01')"
    ),
    "no version": lambda path, _: execute(path, "DROP TABLE journal_version"),
}


@pytest.mark.parametrize("harm", JOURNAL_HARMS)
def test_a_damaged_journal_makes_no_backup_and_is_reported(settings_of_home: Settings, tmp_path: Path, harm: str) -> None:
    config = Settings(home=Path(shutil.copytree(settings_of_home.home, tmp_path / "home")))
    path = config.world_home / "journal.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert {finding.status for finding in _database_files(config)} == {"ok"}
    JOURNAL_HARMS[harm](path, path.read_bytes())
    with pytest.raises(BellwetherError, match="backing up the journal"):
        backup(config, tmp_path / "backups", at=AT)
    assert list((tmp_path / "backups").iterdir()) == []
    with pytest.raises(LakeError, match="reading the journal"):
        list(_database_files(config))


def test_a_changed_response_makes_no_backup(settings_of_home: Settings, tmp_path: Path) -> None:
    config = Settings(home=Path(shutil.copytree(settings_of_home.home, tmp_path / "home")))
    with Journal(config.journal_url) as journal:
        begin_attempt(journal).answer(make_reply("0.7"))
    execute(config.world_home / "journal.db", "UPDATE responses SET content = '0.8'")
    with pytest.raises(LakeError, match=r"response 1 of call \w{12} is damaged \(SHA-256 differs\)"):
        backup(config, tmp_path / "backups", at=AT)
    assert list((tmp_path / "backups").iterdir()) == []


def fill(home: Path, forecaster: str) -> Settings:
    config = Settings(home=home)
    with Journal.of(config) as journal:
        journal.database.open()
    board = rows("benchmark/leaderboard", 1, release="r", forecaster=forecaster, rank=1, brier=0.1)
    one_series = rows("raw/kalshi_series", 1, series_ticker=forecaster)
    lake = Lake(config.lake_uri)
    lake.write(table("benchmark/leaderboard"), ("r",), board, run_id="r")
    lake.write(table("raw/kalshi_series"), (), one_series, run_id="r")
    return config


def read_back(config: Settings) -> list[str]:
    """Return the forecasters of a mart, of a view, and of the lake read by Polars and by DuckDB."""
    lake = Lake(config.lake_uri)
    publish(lake, config.warehouse_uri, tables=[table("benchmark/leaderboard"), table("raw/kalshi_series")])
    slice_ = lake.slice(table("raw/kalshi_series"))
    with duckdb_connection.connect() as connection:
        duckdb_connection.add_input(connection, "series", slice_)
        own = connection.sql("SELECT series_ticker FROM series").fetchall()
    return [
        *query(config.warehouse_uri, "SELECT forecaster FROM benchmark.leaderboard")["forecaster"],
        *query(config.warehouse_uri, "SELECT series_ticker FROM raw.kalshi_series")["series_ticker"],
        *slice_.read()["series_ticker"],
        *(name for (name,) in own),
    ]


#: Each character that a URL, a pattern or SQL reads otherwise, and folders that the name matches if it is read so.
NAME = """a b%20c?d=e#f*g[h]'i"ü"""
OTHERS = ("a b c?d=e#f*g[h]'i\"ü", "a b%20c", "a b%20c?d=e", "a b%20cxd=e#fxgh'i\"ü")


@pytest.fixture
def config(tmp_path: Path) -> Settings:
    for other in OTHERS:
        (tmp_path / other).mkdir()
    return fill(tmp_path / NAME, "mine")


def test_a_home_works_at_any_path(tmp_path: Path, config: Settings) -> None:
    assert read_back(config) == ["mine"] * 4
    assert (tmp_path / NAME / "sandbox" / "journal.db").is_file()
    assert verify(Lake(config.lake_uri)).damaged == ()
    findings = [finding for look in (_paths, deployment, _database_files, _warehouse) for finding in look(config)]
    assert {finding.status for finding in findings} == {"ok"}, findings
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({NAME, *OTHERS})
    assert not [other for other in OTHERS if list((tmp_path / other).iterdir())]


def test_a_backup_works_at_any_path(tmp_path: Path, config: Settings) -> None:
    restored = Settings(home=tmp_path / "restored" / NAME)
    restore(restored, backup(config, tmp_path / "backups" / NAME, at=AT))
    assert Lake(restored.lake_uri).slice(table("raw/kalshi_series")).read()["series_ticker"].to_list() == ["mine"]
    assert {finding.status for finding in _database_files(restored)} == {"ok"}
