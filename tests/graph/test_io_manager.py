"""The IO manager: outputs of assets become partitions of the lake, inputs become slices, and each failure has a name."""

from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

from bellwether.errors import LakeError, SchemaError
from bellwether.lake import Lake, Slice
from bellwether.tables import table
from resources import LakeIOManager, LakeResource
from resources.io_manager import Unchanged, format_size
from tests.unit.lake.frames import FORECASTS, PRICES, SERIES, forecasts, prices, series

DAYS = dg.DailyPartitionsDefinition("2025-09-01", end_date="2025-09-06")
RELEASES = dg.StaticPartitionsDefinition(["2025q3", "2025q4"])
PAIRS = dg.MultiPartitionsDefinition({"release": RELEASES, "forecaster": dg.StaticPartitionsDefinition(["a", "b", "c"])})
SINGLE_RUN = dg.BackfillPolicy.single_run()


@pytest.fixture
def manager(tmp_path: Path) -> LakeIOManager:
    return LakeIOManager(lake=LakeResource(uri=str(tmp_path / "lake")))


@pytest.fixture
def lake(manager: LakeIOManager) -> Lake:
    return manager.lake.lake


def output(name: str = "clean/prices", key: str | None = "2025-09-01", run_id: str = "run-1", **more: Any) -> dg.OutputContext:
    defs = {"clean/prices": DAYS, "benchmark/forecasts": PAIRS}.get(name)
    return dg.build_output_context(asset_key=name.split("/"), run_id=run_id, partition_key=key, asset_partitions_def=defs, **more)


def input_(name: str = "clean/prices", key: str | None = "2025-09-01", **more: Any) -> dg.InputContext:
    defs = {"clean/prices": DAYS, "benchmark/forecasts": PAIRS}.get(name)
    return dg.build_input_context(asset_key=name.split("/"), partition_key=key, asset_partitions_def=defs, **more)


def pair(release: str, forecaster: str) -> dg.MultiPartitionKey:
    return dg.MultiPartitionKey({"release": release, "forecaster": forecaster})


def range_of(first: str, last: str) -> dict[str, str]:
    return {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}


def materialize(manager: LakeIOManager, assets: list[Any], **how: Any) -> dg.ExecuteInProcessResult:
    return dg.materialize(assets, resources={"io_manager": manager}, **how)


def test_what_is_unchanged_is_not_written_again(manager: LakeIOManager, lake: Lake) -> None:
    manager.handle_output(output(run_id="first"), prices())
    before = lake.manifests(PRICES)
    again = output(run_id="second")
    manager.handle_output(again, {"2025-09-01": Unchanged()})
    assert lake.manifests(PRICES) == before
    assert again.get_logged_metadata()["dagster/row_count"] == dg.MetadataValue.int(prices().height)
    with pytest.raises(LakeError, match="never written"):
        manager.handle_output(output(key="2025-09-02"), {"2025-09-02": Unchanged()})


def test_the_output_is_described(manager: LakeIOManager, lake: Lake) -> None:
    context = output()
    manager.handle_output(context, prices())
    shown = context.get_logged_metadata()
    manifest = lake.manifest(PRICES, ("2025-09-01",))
    assert manifest is not None
    assert shown["dagster/row_count"].value == shown["dagster/partition_row_count"].value == 6
    assert shown["dagster/table_name"].value == "clean.prices"
    assert shown["dagster/uri"].value == lake.storage.location(manifest.file)
    assert shown["size"].value == format_size(manifest.bytes), "a size is no number: the UI would plot it"
    assert shown["seconds"].value >= 0
    assert shown["preview"].value.count("\n") == 6
    assert "dagster/column_schema" not in shown


@pytest.mark.parametrize("fails", [True, False])
def test_the_tables_of_a_step_switch_with_its_last_output_in_one_transaction(manager: LakeIOManager, lake: Lake, fails: bool) -> None:
    rejects = table("raw/kalshi_series_rejects")
    lake.write(SERIES, (), series(), run_id="before")
    begun = lake.catalog.head()

    @dg.multi_asset(outs={name: dg.AssetOut(key=["raw", name]) for name in ("kalshi_series", "kalshi_series_rejects")})
    def pull() -> Any:
        yield dg.Output(series(rows=5), "kalshi_series")
        assert lake.slice(SERIES).rows == 3, "the first table waits for the second one"
        if fails:
            raise RuntimeError("killed between two tables")
        yield dg.Output(rejects.empty(), "kalshi_series_rejects")

    assert materialize(manager, [pull], raise_on_error=False).success is not fails
    assert lake.slice(SERIES).rows == (3 if fails else 5)
    assert lake.catalog.heads() == {SERIES.name: begun} | ({} if fails else {SERIES.name: begun + 1, rejects.name: begun + 2})


def day_asset(rows: Any) -> Any:
    @dg.asset(key=["clean", "prices"], partitions_def=DAYS, backfill_policy=SINGLE_RUN)
    def clean_prices(context: dg.AssetExecutionContext) -> Any:
        return rows(list(context.partition_keys))

    return clean_prices


def test_a_frame_of_a_range_is_split_into_its_partitions_also_empty_ones(manager: LakeIOManager, lake: Lake) -> None:
    def rows(days: list[str]) -> pl.DataFrame:
        return pl.concat([prices(day) for day in days if day != "2025-09-03"]).sample(fraction=1.0, shuffle=True, seed=1)

    result = materialize(manager, [day_asset(rows)], tags=range_of("2025-09-02", "2025-09-04"))
    assert {partition: manifest.rows for partition, manifest in lake.manifests(PRICES).items()} == {
        ("2025-09-02",): 6,
        ("2025-09-03",): 0,
        ("2025-09-04",): 6,
    }
    assert lake.slice(PRICES, [("2025-09-04",)]).read().equals(prices("2025-09-04"))
    events = result.get_asset_materialization_events()
    shown = {event.partition: event.materialization.metadata for event in events}
    assert {day: one["dagster/partition_row_count"].value for day, one in shown.items()} == {
        "2025-09-02": 6,
        "2025-09-03": 0,
        "2025-09-04": 6,
    }
    assert [day for day, one in shown.items() if "preview" in one] == ["2025-09-04"], "the last partition alone, which the UI shows"


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (
            lambda days: prices("2025-09-05"),
            r"6 rows belong to no partition of this run: 2025-09-05; the run writes 3 partitions from 2025-09-02",
        ),
        (lambda days: prices().drop("day"), "lacks the partition column day"),
        (
            lambda days: iter([prices()]),
            "the run writes 3 partitions and the asset returned list_iterator; return a polars.DataFrame, or a mapping",
        ),
        (lambda days: {days[0]: prices(days[0])}, "must return rows for exactly the run's partitions; not so for 2025-09-03, 2025-09-04"),
        (lambda days: {day: prices("2025-09-02") for day in days}, "partition 2025-09-03: 6 rows have another day"),
    ],
)
def test_rows_that_do_not_fit_the_range_are_refused(manager: LakeIOManager, rows: Any, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        materialize(manager, [day_asset(rows)], tags=range_of("2025-09-02", "2025-09-04"))


def test_the_data_version_follows_the_bytes_and_not_the_run(manager: LakeIOManager) -> None:
    def version(seed: int) -> str:
        result = materialize(manager, [day_asset(lambda days: prices(days[0], seed=seed))], partition_key="2025-09-01")
        return result.get_asset_materialization_events()[0].materialization.tags["dagster/data_version"]

    assert version(0) == version(0) != version(1)


def read_by(received: dict[str, Slice], **of: Any) -> Any:
    """Return an asset that records its slice of clean/prices."""
    return reader(received, "prices", ["clean", "prices"], **of)


def reader(received: dict[str, Slice], name: str, key: list[str], mapping: Any = None, **of: Any) -> Any:
    @dg.asset(name="reader", io_manager_key="nowhere", ins={"rows": dg.AssetIn(key, partition_mapping=mapping)}, **of)
    def asset(rows: Slice) -> None:
        received[name] = rows

    return asset


def read(manager: LakeIOManager, asset: Any, **how: Any) -> None:
    upstream = [dg.AssetSpec(["clean", "prices"], partitions_def=DAYS), dg.AssetSpec(["benchmark", "forecasts"], partitions_def=PAIRS)]
    resources = {"io_manager": manager, "nowhere": dg.mem_io_manager}
    assert dg.materialize([*upstream, asset], resources=resources, selection=[asset], **how).success


def days_of(received: dict[str, Slice]) -> list[str]:
    return ["/".join(manifest.partition) for manifest in received["prices"].manifests]


def test_a_range_with_a_missing_day_is_an_error_even_when_it_is_every_day(written: LakeIOManager) -> None:
    with pytest.raises(LakeError, match=r"partition 2025-09-03 \(and 1 more\) was never written"):
        read(written, read_by({}, partitions_def=DAYS, backfill_policy=SINGLE_RUN), tags=range_of("2025-09-01", "2025-09-05"))


@pytest.mark.parametrize("mapping", [None, dg.MultiToSingleDimensionPartitionMapping("release")])
def test_a_release_reads_all_its_forecasters_that_exist(written: LakeIOManager, mapping: Any) -> None:
    received: dict[str, Slice] = {}
    asset = reader(received, "forecasts", ["benchmark", "forecasts"], mapping, partitions_def=RELEASES)
    read(written, asset, partition_key="2025q3")
    assert [manifest.partition for manifest in received["forecasts"].manifests] == [("2025q3", "a"), ("2025q3", "c")]
    read(written, asset, partition_key="2025q4")
    assert received["forecasts"].read().equals(FORECASTS.empty())


def test_a_pair_reads_its_own_pair(written: LakeIOManager) -> None:
    received: dict[str, Slice] = {}
    asset = reader(received, "forecasts", ["benchmark", "forecasts"], partitions_def=PAIRS)
    read(written, asset, partition_key=pair("2025q3", "c"))
    assert received["forecasts"].read().equals(forecasts(forecaster="c"))
    with pytest.raises(LakeError, match="partition 2025q3/b was never written"):
        read(written, asset, partition_key=pair("2025q3", "b"))


def test_an_asset_check_reads_the_partition_it_checks(manager: LakeIOManager) -> None:
    received: list[Slice] = []
    asset = day_asset(lambda days: pl.concat([prices(day, seed=1) for day in days]))

    @dg.asset_check(asset=asset, partitions_def=DAYS)
    def checked(rows: Slice) -> dg.AssetCheckResult:
        received.append(rows)
        return dg.AssetCheckResult(passed=rows.rows == 6)

    manager.handle_output(output(), prices())
    assert materialize(manager, [asset, checked], partition_key="2025-09-02").success
    assert received[0].read().equals(prices("2025-09-02", seed=1))


def test_a_frame_comes_back_as_a_slice_and_a_retry_writes_another_file(manager: LakeIOManager, lake: Lake) -> None:
    for _ in range(2):
        manager.handle_output(output(run_id="3f2a"), prices())
    found = manager.load_input(input_())
    assert isinstance(found, Slice)
    assert found.read().equals(prices())
    assert [entry.name for entry in lake.storage.files("clean/prices")] == [
        f"clean/prices/2025-09-01/{name}" for name in ("3f2a-1.parquet", "3f2a.parquet")
    ]
    assert manager.load_input(input_(key="2025-09-02", definition_metadata={"missing": "skip"})).files == ()


def test_pairs_of_a_range_are_split_by_both_columns_into_the_rows_of_single_runs(manager: LakeIOManager, lake: Lake) -> None:
    @dg.asset(key=["benchmark", "forecasts"], partitions_def=PAIRS, backfill_policy=SINGLE_RUN)
    def benchmark_forecasts() -> pl.DataFrame:
        return pl.concat([forecasts(release, name) for release in ("2025q3", "2025q4") for name in ("b", "c")])

    materialize(manager, [benchmark_forecasts], tags=range_of("b|2025q3", "c|2025q4"))
    together = {partition: manifest.digest for partition, manifest in lake.manifests(FORECASTS).items()}
    assert list(together) == [("2025q3", "b"), ("2025q3", "c"), ("2025q4", "b"), ("2025q4", "c")]
    manager.handle_output(output("benchmark/forecasts", pair("2025q4", "b")), forecasts("2025q4", "b"))
    assert {partition: manifest.digest for partition, manifest in lake.manifests(FORECASTS).items()} == together


@pytest.fixture
def written(manager: LakeIOManager) -> LakeIOManager:
    """Days 1, 2 and 4 of clean/prices, and release 2025q3 of forecasters a and c."""
    for day in ("2025-09-01", "2025-09-02", "2025-09-04"):
        manager.handle_output(output(key=day), prices(day))
    for name in ("a", "c"):
        manager.handle_output(output("benchmark/forecasts", pair("2025q3", name)), forecasts(forecaster=name))
    return manager


WINDOW = dg.TimeWindowPartitionMapping(start_offset=-1)
READERS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "its own day": ({"partitions_def": DAYS}, {"partition_key": "2025-09-02"}, ["2025-09-02"]),
    "its range": (
        {"partitions_def": DAYS, "backfill_policy": SINGLE_RUN},
        {"tags": range_of("2025-09-01", "2025-09-02")},
        ["2025-09-01", "2025-09-02"],
    ),
    "a window": ({"mapping": WINDOW, "partitions_def": DAYS}, {"partition_key": "2025-09-02"}, ["2025-09-01", "2025-09-02"]),
    "all that exist": ({}, {}, ["2025-09-01", "2025-09-02", "2025-09-04"]),
    "all that exist, for a release": (
        {"mapping": dg.AllPartitionMapping(), "partitions_def": RELEASES},
        {"partition_key": "2025q3"},
        ["2025-09-01", "2025-09-02", "2025-09-04"],
    ),
}


@pytest.mark.parametrize("kind", READERS)
def test_a_reader_has_the_days_that_its_partitions_need(written: LakeIOManager, kind: str) -> None:
    of, how, days = READERS[kind]
    received: dict[str, Slice] = {}
    read(written, read_by(received, **of), **how)
    assert days_of(received) == days
    assert received["prices"].read().equals(pl.concat([prices(day) for day in days]))
