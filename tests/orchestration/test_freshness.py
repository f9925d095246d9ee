"""Which partitions are out of date."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from bellwether.lake import Lake
from orchestration.freshness import Record, spans, stale

PARTS = dg.StaticPartitionsDefinition(["a", "b"])


def test_a_partition_that_an_output_lacks_is_stale() -> None:
    assert stale(["a", "b"], [{"a": 1, "b": 2}, {"a": 3}], []) == ["b"]


def test_a_partition_with_a_newer_source_is_stale() -> None:
    assert stale(["a", "b"], [{"a": 10, "b": 10}], [{"a": 5, "b": 11}]) == ["b"]


def test_the_oldest_output_decides() -> None:
    assert stale(["a"], [{"a": 10}, {"a": 4}], [{"a": 5}]) == ["a"]


def test_a_source_that_was_never_made_makes_nothing_stale() -> None:
    assert stale(["a"], [{"a": 10}], [{}]) == []


def test_the_same_rows_made_again_make_nothing_stale(tmp_path: Path) -> None:
    versions = {"a": "1", "b": "1"}

    @dg.asset(partitions_def=PARTS)
    def rows(context) -> dg.MaterializeResult:  # type: ignore[no-untyped-def]
        return dg.MaterializeResult(data_version=dg.DataVersion(versions[context.partition_key]))

    @dg.asset(partitions_def=PARTS, code_version="1")
    def unstated() -> None: ...

    @dg.asset(deps=[rows, unstated], partitions_def=PARTS)
    def derived() -> None: ...

    assets = [rows, unstated, derived]
    with dg.DagsterInstance.ephemeral() as instance:

        def make(asset: dg.AssetsDefinition, partition: str) -> None:
            assert dg.materialize(assets, instance=instance, partition_key=partition, selection=[asset]).success

        def due(source: dg.AssetsDefinition) -> list[str]:
            record = Record(instance, dg.Definitions(assets), Lake(str(tmp_path)))
            return stale(["a", "b"], [record.partitions(derived.key)], [record.changes(source.key)])

        for partition in ("a", "b"):
            for asset in assets:
                make(asset, partition)
        make(rows, "a")
        make(rows, "a")
        assert due(rows) == []
        versions["b"] = "2"
        make(rows, "b")
        assert due(rows) == ["b"]
        versions["b"] = "1"
        make(rows, "b")
        assert due(rows) == ["b"], "what it was made from in between is not known"
        make(unstated, "a")
        assert due(unstated) == ["a"]


def test_neighbouring_days_are_one_span_of_bounded_length() -> None:
    days = ["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-05", "2026-03-04", "2026-03-10"]
    assert spans(days) == [("2026-02-27", "2026-03-01"), ("2026-03-04", "2026-03-05"), ("2026-03-10", "2026-03-10")]
    assert spans(days, most=2) == [
        ("2026-02-27", "2026-02-28"),
        ("2026-03-01", "2026-03-01"),
        ("2026-03-04", "2026-03-05"),
        ("2026-03-10", "2026-03-10"),
    ]
