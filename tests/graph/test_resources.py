"""The lake and the warehouse as resources, and the columns of a table shown by Dagster."""

import subprocess
import sys
from pathlib import Path

import dagster as dg
import duckdb
import pytest

from bellwether.errors import LakeError
from bellwether.tables import TABLES
from resources import LakeIOManager, LakeResource, WarehouseResource, table_schema
from tests.lake.frames import PRICES, prices

DAY = ("2025-09-01",)


@pytest.fixture
def warehouse(tmp_path: Path) -> WarehouseResource:
    lake = LakeResource(uri=str(tmp_path / "lake")).lake
    lake.write(PRICES, DAY, prices(), run_id="r1")
    resource = WarehouseResource(database=str(tmp_path / "warehouse.duckdb"))
    resource.publish(lake)
    return resource


def test_the_lake_is_where_the_uri_says(tmp_path: Path) -> None:
    LakeResource(uri=str(tmp_path / "here")).lake.write(PRICES, DAY, prices(), run_id="r1")
    assert (tmp_path / "here" / "clean" / "prices" / "2025-09-01" / "r1.parquet").is_file()


def test_the_lake_can_be_chosen_when_a_run_is_launched(tmp_path: Path) -> None:
    @dg.asset(key=["raw", "kalshi_series"])
    def series(lake: LakeResource) -> None:
        lake.lake.write(PRICES, DAY, prices(), run_id="r1")

    lake = LakeResource.configure_at_launch()
    config = {"resources": {"lake": {"config": {"uri": str(tmp_path / "chosen")}}}}
    resources = {"lake": lake, "io_manager": LakeIOManager(lake=lake)}
    assert dg.materialize([series], resources=resources, run_config=config).success
    assert (tmp_path / "chosen" / "clean").is_dir()


def test_the_warehouse_is_published_and_read(warehouse: WarehouseResource) -> None:
    with warehouse.get_connection() as connection:
        assert connection.execute("SELECT count(*) FROM clean.prices").fetchall() == [(6,)]


def test_a_connection_is_closed_after_an_exception(warehouse: WarehouseResource) -> None:
    with pytest.raises(ZeroDivisionError), warehouse.get_connection() as connection:
        _ = 1 / 0
    with pytest.raises(duckdb.ConnectionException):
        connection.execute("SELECT 1")
    write = f"import duckdb; duckdb.connect({warehouse.database!r}).execute('CREATE TABLE mine AS SELECT 1')"
    assert subprocess.run([sys.executable, "-c", write], check=False).returncode == 0, "the file is still locked"


def test_a_warehouse_that_was_never_published_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="`make demo`"), WarehouseResource(database=str(tmp_path / "none.duckdb")).get_connection():
        pass


def test_every_table_has_its_columns_described() -> None:
    for declared in TABLES.values():
        columns = {column.name: column for column in table_schema(declared).columns}
        assert list(columns) == declared.names
        for column in declared.columns:
            shown = columns[column.name]
            assert column.description in (shown.description or "")
            assert shown.tags == ({"unit": column.unit} if column.unit else {})
            assert shown.constraints.nullable == column.nullable


def test_importing_the_resources_is_light() -> None:
    heavy = ("pandas", "great_expectations", "sklearn", "altair", "s3fs", "scipy", "bellwether.journal")
    code = f"import sys, resources, resources.journal; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert found.stdout.strip() == "[]"
