"""Pages about the data: dictionary, downloads, queries and methodologies."""

from __future__ import annotations

import io
from collections.abc import Iterator

import polars as pl

from bellwether.arena.methodology import methodologies
from bellwether.pages.columns import Row, build_column, build_table
from bellwether.pages.model import Cell, Facts, Head, Links, Note, Page, PageTable, Part, Section, Text
from bellwether.pages.render import File, render
from bellwether.pages.values import any_value, text
from bellwether.site.paths import download_path, table_path
from bellwether.site.source import SiteSource
from bellwether.tables import TABLES
from bellwether.tables.exports import neutralise_formulas

#: Larger tables are downloaded as Parquet only.
_CSV_ROWS = 50_000
#: Tables that can be downloaded in addition to the marts.
_MORE = (
    "arena/agents",
    "arena/decisions",
    "arena/refusals",
    "arena/trades",
    "arena/positions",
    "arena/ledger",
    "arena/scores",
    "arena/settlements",
)
_ABOVE = [("Data", "data/index.html")]

#: Title and text of the queries that readers can copy.
_QUERIES = (
    (
        "The files of this site, with any DuckDB",
        "duckdb -c \"FROM 'downloads/benchmark.leaderboard.parquet' ORDER BY release, rank\"",
    ),
    (
        "The whole warehouse, where it was published, or as one file with every row",
        'bellwether query "FROM benchmark.leaderboard ORDER BY release, rank"\nbellwether warehouse --to copy.duckdb',
    ),
)


def pages(source: SiteSource) -> Iterator[File]:
    """Yield the overview, a page per table, and the downloadable tables."""
    files = [name for name in source.tables if name in TABLES and source.rows(name) and (TABLES[name].mart or name in _MORE)]
    yield from _overview(source, files)
    for about in source.described.iter_rows(named=True):
        name = about["table_name"]
        yield from _table(about, source.columns.filter(pl.col("table_name") == name), name.replace(".", "/", 1) in files)
    for name in files:
        yield from _downloads(source, name)


def _overview(source: SiteSource, files: list[str]) -> Iterator[File]:
    def download(row: Row, title: str) -> Cell:
        name, kind = row["table_name"].replace(".", "/", 1), title.lower()
        is_file = name in files and (kind == "parquet" or row["rows"] <= _CSV_ROWS)
        return Cell(title, href=download_path(name, kind)) if is_file else Cell("–")

    table = build_table(
        "",
        "Every table of the warehouse",
        source.described.iter_rows(named=True),
        *(("table_name", "Table"), ("description", "One row is"), "rows", "partitions", "version", ("known_at", "Newest fact")),
        build_column("Parquet", lambda row: download(row, "Parquet"), "tables of results can be downloaded here; the warehouse has all"),
        build_column("CSV", lambda row: download(row, "CSV"), f"of tables up to {_CSV_ROWS:,} rows"),
        links={"table_name": lambda row: table_path(row["table_name"])},
    )
    note = "In CSV files an apostrophe precedes texts that a spreadsheet would read as formulas, and control characters are replaced by symbols such as ␛; "
    note += "Parquet files contain texts unchanged."
    sections = [
        Section("Tables", [table, Note(note)]),
        Section("How to query", [Text(title, query) for title, query in _QUERIES]),
        Section("Methodologies of the arena", [_methodologies()]),
    ]
    lead = "Tables behind the numbers of this site. A cohort keeps its methodology; a table gets a new version when its rules change."
    yield from render(Page("data/index.html", "Data", lead, sections))


def _methodologies() -> PageTable:
    """Build the table of the rules of each methodology, one column per methodology."""
    methods = {name: method.model_dump() for name, method in sorted(methodologies().items())}
    fields = sorted(
        {field for method in methods.values() for field in method if field != "name"}, key=lambda field: (field != "title", field)
    )
    rows = [[text(field.replace("_", " ")), *(any_value(method.get(field)) for method in methods.values())] for field in fields]
    return PageTable("Their rules, side by side", [Head("Rule"), *(Head(name) for name in methods)], rows)


def _table(about: Row, columns: pl.DataFrame, is_file: bool) -> Iterator[File]:
    """Yield the page of a table. about: its row of meta.tables. columns: its rows of meta.columns. is_file: it can be downloaded."""
    name = about["table_name"]
    listed = build_table(
        "",
        f"Columns of {name}",
        columns.iter_rows(named=True),
        *(("column_name", "Column"), "type", "unit", ("nullable", "May be null")),
        build_column("Meaning", lambda row: text(row["description"], most=600)),
    )
    parts: list[Part] = [listed]
    if is_file:
        kinds = ["Parquet", "CSV"] if about["rows"] <= _CSV_ROWS else ["Parquet"]
        path = name.replace(".", "/", 1)
        parts.insert(0, Links([Cell(f"Download as {kind}", href=download_path(path, kind.lower())) for kind in kinds]))
    facts = Facts([(one.replace("_", " "), any_value(about[one])) for one in ("stored_as", "key", "version", "rows")])
    sections = [Section("Columns", parts), Section("The table", [facts])]
    yield from render(Page(table_path(name), name, about["description"], sections, _ABOVE))


def _downloads(source: SiteSource, name: str) -> Iterator[File]:
    """Yield the downloadable files of a table: Parquet, and CSV unless the table is too long."""
    frame = source.frame(name)
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", statistics=True)
    yield download_path(name, "parquet"), buffer.getvalue()
    if frame.height <= _CSV_ROWS:
        yield download_path(name, "csv"), csv(frame)


def csv(frame: pl.DataFrame) -> bytes:
    """Format a frame as CSV. A text that a spreadsheet would read as a formula gets a leading apostrophe."""
    lists = [pl.col(one).cast(pl.List(pl.String)).list.join("; ") for one, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    return neutralise_formulas(frame.with_columns(lists)).write_csv().encode()
