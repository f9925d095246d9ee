"""SQL over slices: bound parameters, exact dtypes, no external access, and clear errors."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pytest

from bellwether.errors import LakeError, SchemaError
from bellwether.lake import Lake, duckdb_connection
from bellwether.lake.sql import evaluate, run_sql
from bellwether.tables import TABLES
from tests.lake.frames import FORECASTS, PRICES, SERIES, prices, series

SAME = "-- One row per price.\nSELECT * FROM prices"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "la'ke [1]*"))
    for day in ("2025-09-01", "2025-09-02"):
        lake.write(PRICES, (day,), prices(day), run_id="r1")
    return lake


def both() -> pl.DataFrame:
    return pl.concat([prices("2025-09-01"), prices("2025-09-02")])


def test_a_frame_is_a_view_with_the_declared_dtypes() -> None:
    assert evaluate(PRICES, SAME, {"prices": both()}).equals(both())
    assert evaluate(SERIES, "SELECT * FROM series", {"series": series()}).equals(series())


def test_a_slice_without_files_has_its_columns(lake: Lake) -> None:
    nothing = lake.slice(FORECASTS)
    assert evaluate(FORECASTS, "SELECT * FROM forecasts WHERE p_yes > 0.5", {"forecasts": nothing}).equals(FORECASTS.empty())


#: DuckDB truncates zoned times to microseconds. No SQL builds a table with finer ones.
MADE_BY_SQL = [name for name, declared in TABLES.items() if pl.Datetime("ns", "UTC") not in declared.schema.values()]


@pytest.mark.parametrize("name", MADE_BY_SQL)
def test_every_dtype_survives_the_way_through_duckdb(lake: Lake, name: str) -> None:
    declared = TABLES[name]
    rows = declared.empty().clear(1)
    assert evaluate(declared, 'SELECT * FROM "rows" WHERE false', {"rows": rows}).schema == declared.schema


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


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT * REPLACE (CAST(bid AS DOUBLE) AS bid) FROM prices", r"column bid is Float64, declared Decimal\(precision=10, scale=6\)"),
        ("SELECT * REPLACE (CAST(bid AS DECIMAL(12,6)) AS bid) FROM prices", r"column bid is Decimal\(precision=12"),
        (
            "SELECT * REPLACE (CAST(known_at AS TIMESTAMP) AS known_at) FROM prices",
            r"column known_at is Datetime\(time_unit='us', time_zone=None\)",
        ),
        (
            "SELECT * REPLACE (CAST(period_minutes AS BIGINT) AS period_minutes) FROM prices",
            "column period_minutes is Int64, declared Int32",
        ),
        ("SELECT * EXCLUDE (ask) FROM prices", "missing ask"),
        ("SELECT *, 1 AS more FROM prices", "not declared more"),
        ("SELECT * REPLACE (NULL AS venue) FROM prices", "column venue is (Int32|Null)"),
        ("SELECT * REPLACE (CAST(NULL AS VARCHAR) AS venue) FROM prices", "column venue may not be null"),
        ("SELECT * FROM prices UNION ALL SELECT * FROM prices", "the key day, venue, market_id, at is not unique"),
    ],
)
def test_a_result_that_is_not_of_the_table_is_refused(lake: Lake, query: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=f"the result of sql/clean/prices.sql does not fit; table clean/prices: .*{problem}"):
        evaluate(PRICES, query, {"prices": lake.slice(PRICES)})


@pytest.mark.parametrize(
    "query", ["SELECT * FROM elsewhere", "SELEC 1", "SELECT * FROM prices WHERE bid = $absent", "SELECT CAST('x' AS DATE)"]
)
def test_what_duckdb_refuses_names_the_file_and_its_inputs(lake: Lake, query: str) -> None:
    with pytest.raises(LakeError, match=r"running sql/clean/prices.sql over prices: "):
        evaluate(PRICES, query, {"prices": lake.slice(PRICES)})


def test_a_damaged_input_is_named(lake: Lake) -> None:
    rows = lake.slice(PRICES)
    Path(rows.files[1]).write_bytes(b"PAR1 this is no parquet PAR1")
    with pytest.raises(LakeError, match=r"2025-09-02/r1.parquet: it is not a complete Parquet file"):
        evaluate(PRICES, SAME, {"prices": rows})


def test_the_text_comes_from_the_file_of_the_table(lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "clean").mkdir()
    (tmp_path / "clean" / "prices.sql").write_text(f"{SAME} WHERE day = $day")
    monkeypatch.setattr("bellwether.lake.sql.files", lambda package: tmp_path)
    result = run_sql(PRICES, {"prices": lake.slice(PRICES)}, {"day": prices("2025-09-02")["day"][0]})
    assert result.equals(prices("2025-09-02"))


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


def test_a_dtype_without_a_duckdb_type_is_refused() -> None:
    with pytest.raises(SchemaError, match="UInt8 has no DuckDB type"):
        duckdb_connection.sql_type(pl.UInt8())


def test_an_s3_lake_without_the_extension_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_connection, "_HTTPFS", "no_such_package")
    with (
        duckdb_connection.connect() as connection,
        pytest.raises(LakeError, match=f"install the package duckdb-extension-httpfs=={duckdb.__version__}"),
    ):
        duckdb_connection.allow_s3(connection, {})
