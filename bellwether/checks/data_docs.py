"""Validation of the published tables with Great Expectations, which renders the results as HTML pages (Data Docs)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from duckdb import ColumnExpression, ConstantExpression, FunctionExpression

from bellwether.checks.rule import Rule, columns_read, rules_for
from bellwether.errors import BellwetherError
from bellwether.files import atomic_folder
from bellwether.lake import Lake
from bellwether.tables import TABLES, Table

MOST_ROWS = 1_000_000
#: Counts without values: a failing value is text of a venue or a model, and Data Docs are HTML.
_COUNTS = {"result_format": "BASIC", "partial_unexpected_count": 0}


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Result of validating the published tables.

    Attributes:
        index: first page of the Data Docs.
        rows: rows validated, by table.
        broken: names of broken rules by table, without rules that the sandbox breaks on purpose; tables without broken rules are absent.
    """

    index: Path
    rows: Mapping[str, int]
    broken: Mapping[str, tuple[str, ...]]


def build_data_docs(connection: duckdb.DuckDBPyConnection, lake: Lake, folder: Path) -> ValidationResult:
    """Validate all published tables with Great Expectations, and replace the Data Docs in `folder`.

    If a table has more than `MOST_ROWS` rows, only its last partitions are validated. One table at a time is in memory.

    Args:
        connection: Connection to the published warehouse.
        lake: Lake for rules that depend on other tables.
        folder: Folder of the Data Docs, replaced as a whole.

    Raises:
        BellwetherError: an expectation could not be evaluated. The message names table and rule.
    """
    import great_expectations as gx
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.enable_analytics(False)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    source = context.data_sources.add_pandas("warehouse")
    published_at = connection.sql("SELECT published_at FROM meta.publication").pl().item()
    rows, broken = {}, {}
    for name, declared in TABLES.items():
        if not rules_for(name):
            continue
        rules = [rule.fit(lake, lake.slice(declared, missing="skip")) if rule.fit else rule for rule in rules_for(name)]
        frame = _newest_rows(connection, declared, columns_read(declared, rules))
        suite = context.suites.add(gx.ExpectationSuite(name=name.replace("/", ".")))
        for rule in rules:
            suite.add_expectation(_expectation(gx, rule))
        batch = source.add_dataframe_asset(suite.name).add_batch_definition_whole_dataframe("published")
        validation = context.validation_definitions.add(gx.ValidationDefinition(name=suite.name, data=batch, suite=suite))
        report = validation.run(
            batch_parameters={"dataframe": _pandas(frame, rules)},
            result_format=_COUNTS,
            run_id=RunIdentifier(run_name="published", run_time=published_at),
        )
        rows[name] = frame.height
        expected = {rule.name for rule in rules if rule.is_expected}
        if failed := tuple(rule for rule in _failed(name, report.results) if rule not in expected):
            broken[name] = failed
    for site in context.get_site_names():
        context.delete_data_docs_site(site)
    with atomic_folder(folder, "index.html") as draft:
        context.add_data_docs_site(
            site_name="published",
            site_config={
                "class_name": "SiteBuilder",
                "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
                "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(draft)},
            },
        )
        context.build_data_docs()
    return ValidationResult(folder / "index.html", rows, broken)


def _newest_rows(connection: duckdb.DuckDBPyConnection, table: Table, columns: Sequence[str]) -> pl.DataFrame:
    """Return the rows of the last partitions that together have at most `MOST_ROWS` rows, and at least those of the last partition."""
    selected = connection.sql(f"FROM {table.sql_name}")
    if table.partitioned_by:
        partition = ColumnExpression(table.partitioned_by[0])
        sizes = selected.aggregate([partition.alias("value"), FunctionExpression("count")], "ALL").order("value DESC").fetchall()
        totals = accumulate(size for _, size in sizes)
        last = [value for (value, _), total in zip(sizes, totals, strict=True) if total <= MOST_ROWS] or [value for value, _ in sizes[:1]]
        if last:
            selected = selected.filter(partition >= ConstantExpression(last[-1]))
    return selected.select(*(ColumnExpression(name) for name in columns)).pl()


def _expectation(gx: Any, rule: Rule) -> Any:
    """Convert a rule to an expectation: the column with the values of its condition (`_pandas`) contains only True."""
    notes = f"{rule.description} (expected to fail in the sandbox: {rule.expected})" if rule.is_expected else rule.description
    described = {"notes": notes, "meta": {"rule": rule.name, "blocking": rule.blocking}}
    if rule.condition is None:
        return gx.expectations.ExpectTableRowCountToBeBetween(min_value=1, **described)
    return gx.expectations.ExpectColumnValuesToBeInSet(column=rule.name, value_set=[True], mostly=rule.mostly, **described)


def _pandas(frame: pl.DataFrame, rules: Sequence[Rule]) -> Any:
    """Evaluate the conditions of the rules, and convert their values to pandas."""
    conditions = {rule.name: rule.condition for rule in rules if rule.condition is not None}
    return frame.select(**conditions, _row=pl.int_range(pl.len())).to_pandas()


def _failed(table: str, results: Iterable[Any]) -> Iterator[str]:
    """Yield the names of the rules whose expectation failed. Raises `BellwetherError` if an expectation could not be evaluated."""
    for result in results:
        rule = result.expectation_config.meta["rule"]
        infos = result.exception_info or {}
        records = [infos] if "raised_exception" in infos else [info for info in infos.values() if isinstance(info, Mapping)]
        for record in records:
            if record.get("raised_exception"):
                raise BellwetherError(f"validating {table}: the rule {rule} could not be evaluated: {record.get('exception_message')}")
        if not result.success:
            yield rule
