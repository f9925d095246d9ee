"""Reading of slices by Polars and SQL: selected partitions, bound parameters, exact dtypes, and messages about missing or damaged files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import polars as pl
import pytest

from bellwether.errors import LakeError, SchemaError
from bellwether.lake import Lake, duckdb_connection
from bellwether.lake.sql import evaluate
from bellwether.tables import TABLES, Column, Table
from tests.damage import replace as replace_file
from tests.sizes import NIGHTLY
from tests.unit.lake.frames import FORECASTS, PRICES, prices

DAYS = [("2025-09-01",), ("2025-09-02",), ("2025-09-03",)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    for (day,) in DAYS:
        lake.write(PRICES, (day,), prices(day), run_id="r1")
    return lake


def file_of(lake: Lake, day: str) -> Path:
    manifest = lake.manifest(PRICES, (day,))
    assert manifest is not None
    return Path(lake.storage.location(manifest.file))


def test_a_file_that_is_gone_is_named(lake: Lake) -> None:
    file = file_of(lake, "2025-09-02")
    file.unlink()
    with pytest.raises(LakeError, match=f"reading clean/prices: {file} is missing; `bellwether pull 2025-09-02` restores it$"):
        lake.slice(PRICES).scan()


def test_one_changed_byte_is_found_when_the_rows_are_read(lake: Lake) -> None:
    rows = lake.slice(PRICES)
    assert rows.read().height == 18
    file = file_of(lake, "2025-09-02")
    content = bytearray(file.read_bytes())
    content[64] ^= 1
    replace_file(file, bytes(content))
    with pytest.raises(LakeError, match=rf"{file} is damaged: .*; `bellwether pull 2025-09-02` restores it$"):
        rows.scan()
    with pytest.raises(LakeError, match=rf"{file} is damaged"), duckdb_connection.connect() as connection:
        duckdb_connection.add_input(connection, "prices", rows)
    assert lake.slice(PRICES, [("2025-09-01",)]).read().height == 6


def redeclared(**changes: object) -> Table:
    return replace(PRICES, **changes)


def test_rows_of_other_rules_are_an_error_that_says_what_to_do(lake: Lake) -> None:
    with pytest.raises(
        LakeError,
        match=r"partition 2025-09-01 \(and 2 more\) was written by version 1 of the table's rules, this code has version 2; `bellwether pull 2025-09-01` restores it$",
    ):
        lake.slice(redeclared(version="2"))


def test_the_result_is_in_the_tables_order_whatever_the_query_says(lake: Lake) -> None:
    columns = ", ".join(f'"{name}"' for name in reversed(PRICES.names))
    result = evaluate(PRICES, f'SELECT {columns} FROM prices ORDER BY hash("at")', {"prices": lake.slice(PRICES)})
    assert result.equals(both())


def test_parameters_are_bound_and_never_read_as_sql(lake: Lake) -> None:
    query = (
        'SELECT * REPLACE ($name AS market_id) FROM prices WHERE market_id = \'KXTEST-000000\' AND "at" = (SELECT min("at") FROM prices)'
    )
    text = "x'; DROP VIEW prices; --"
    assert evaluate(PRICES, query, {"prices": lake.slice(PRICES)}, {"name": text})["market_id"].to_list() == [text]


def test_times_are_in_utc_whatever_the_machine_says(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    query = "SELECT * REPLACE (CAST(date_trunc('day', known_at) AS TIMESTAMPTZ) AS known_at) FROM prices"
    result = evaluate(PRICES, query, {"prices": lake.slice(PRICES)})
    assert result["known_at"].equals(both()["known_at"].dt.truncate("1d"))


def test_nothing_is_fetched_from_the_network_or_left_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb_connection.connect() as connection:
        settings = connection.execute(
            "SELECT name, value FROM duckdb_settings() WHERE name LIKE '%known_extensions' OR name IN ('threads', 'temp_directory')"
        ).fetchall()
        assert {value for name, value in settings if name.endswith("known_extensions")} == {"false"}
        assert dict(settings)["threads"] == str(duckdb_connection.THREADS)
        with pytest.raises(duckdb.Error):
            connection.execute("SELECT * FROM read_parquet('s3://nowhere/x.parquet')")
    assert list(tmp_path.iterdir()) == []


def both() -> pl.DataFrame:
    return pl.concat([prices(day) for (day,) in DAYS])


def test_a_slice_has_the_named_partitions_once_in_order(lake: Lake) -> None:
    found = lake.slice(PRICES)
    assert ([manifest.partition for manifest in found.manifests], found.rows) == (DAYS, 18)
    assert found.read().equals(both())
    assert lake.slice(PRICES, [DAYS[2], DAYS[0], DAYS[2]]).read().equals(pl.concat([prices("2025-09-01"), prices("2025-09-03")]))
    skipped = lake.slice(PRICES, [("2025-08-31",), *DAYS[:1]], missing="skip")
    assert [manifest.partition for manifest in skipped.manifests] == DAYS[:1]
    nothing = lake.slice(FORECASTS)
    assert nothing.read().equals(FORECASTS.empty())
    assert evaluate(FORECASTS, "SELECT * FROM forecasts WHERE p_yes > 0.5", {"forecasts": nothing}).equals(FORECASTS.empty())


def test_a_file_of_another_declaration_is_refused(lake: Lake) -> None:
    columns = PRICES.columns
    declarations = {
        "note": (*columns, Column("note", pl.String(), "a note")),
        "volume": tuple(c for c in columns if c.name != "volume"),
        "period_minutes": tuple(replace(c, dtype=pl.Int64()) if c.name == "period_minutes" else c for c in columns),
    }
    for difference, declared in declarations.items():
        with pytest.raises(LakeError, match=rf"(?s)reading clean/prices: .*{difference}"):
            lake.slice(redeclared(columns=declared)).read()


def test_every_dtype_survives_the_way_through_duckdb() -> None:
    for declared in list(TABLES.values())[:: 1 if NIGHTLY else 3]:
        if pl.Datetime("ns", "UTC") in declared.schema.values():
            continue  # DuckDB truncates zoned times to microseconds; no SQL builds such a table
        rows = declared.empty().clear(1)
        assert evaluate(declared, 'SELECT * FROM "rows" WHERE false', {"rows": rows}).schema == declared.schema


def test_a_query_that_fails_or_gives_rows_of_another_form_is_refused(lake: Lake) -> None:
    inputs = {"prices": lake.slice(PRICES)}
    problems = {
        "SELECT * REPLACE (CAST(bid AS DOUBLE) AS bid) FROM prices": "column bid is Float64",
        "SELECT * REPLACE (CAST(bid AS DECIMAL(12,6)) AS bid) FROM prices": r"column bid is Decimal\(precision=12",
        "SELECT * REPLACE (CAST(known_at AS TIMESTAMP) AS known_at) FROM prices": "column known_at is Datetime.*time_zone=None",
        "SELECT * REPLACE (CAST(period_minutes AS BIGINT) AS period_minutes) FROM prices": "column period_minutes is Int64",
        "SELECT * EXCLUDE (ask) FROM prices": "missing ask",
        "SELECT *, 1 AS more FROM prices": "not declared more",
        "SELECT * REPLACE (NULL AS venue) FROM prices": "column venue is (Int32|Null)",
        "SELECT * REPLACE (CAST(NULL AS VARCHAR) AS venue) FROM prices": "column venue may not be null",
        "SELECT * FROM prices UNION ALL SELECT * FROM prices": "the key day, venue, market_id, at is not unique",
    }
    for query, problem in problems.items():
        with pytest.raises(SchemaError, match=f"sql/clean/prices.sql does not fit; table clean/prices: .*{problem}"):
            evaluate(PRICES, query, inputs)
    for query in ("SELECT * FROM elsewhere", "SELEC 1", "SELECT * FROM prices WHERE bid = $absent", "SELECT CAST('x' AS DATE)"):
        with pytest.raises(LakeError, match=r"running sql/clean/prices.sql over prices: "):
            evaluate(PRICES, query, inputs)
