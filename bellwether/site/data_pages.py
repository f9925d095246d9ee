"""Pages about the data: dictionary, downloads, queries and methodologies."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import polars as pl

from bellwether.arena.methodology import methodologies
from bellwether.pages.columns import build_column, build_table
from bellwether.pages.model import Cell, Code, Facts, Head, Links, Note, Page, PageTable, Part, Section
from bellwether.pages.render import File, render
from bellwether.pages.values import any_value, number, text, timestamp, yes_no
from bellwether.site.paths import download_path
from bellwether.site.source import SiteSource
from bellwether.site.unit import Unit, key
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

_QUERY = """\
# the files of this site, with any DuckDB
duckdb -c "FROM 'downloads/benchmark.leaderboard.parquet' ORDER BY release, rank"

# the whole warehouse, where it was published
bellwether query "FROM benchmark.leaderboard ORDER BY release, rank"
bellwether warehouse --to copy.duckdb    # one file with every row, to share
"""
_PYTHON = """\
import duckdb

board = duckdb.sql("FROM 'downloads/benchmark.leaderboard.parquet'").pl()
"""


def units(source: SiteSource) -> Iterator[Unit]:
    """Yield the units of the data pages (groups of files built together): one for the overview, one per table's page, and one per downloadable
    table.
    """
    files = [name for name in source.tables if name in TABLES and source.rows(name) and (TABLES[name].mart or name in _MORE)]
    yield Unit("data", key(source.described, source.columns.height, files, _methodology_fields()), partial(_overview, source, files))
    for (name,), columns in source.columns.group_by("table_name", maintain_order=True):
        about = source.described.filter(pl.col("table_name") == name)
        is_file = str(name).replace(".", "/", 1) in files
        make = partial(_table, str(name), about, columns, is_file)
        yield Unit(f"table {name}", key(about, columns, is_file), make)
    for name in files:
        yield Unit(f"download {name}", key(source.digest(name)), partial(_downloads, source, name))


def _methodology_fields() -> dict[str, dict[str, str]]:
    return {
        name: {
            field: ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
            for field, value in method.model_dump().items()
        }
        for name, method in sorted(methodologies().items())
    }


def _overview(source: SiteSource, files: list[str]) -> Iterator[File]:
    def download(row: Mapping[str, Any], title: str) -> Cell:
        name, kind = row["table_name"].replace(".", "/", 1), title.lower()
        is_file = name in files and (kind == "parquet" or row["rows"] <= _CSV_ROWS)
        return Cell(title, href=download_path(name, kind)) if is_file else Cell("–")

    table = build_table(
        "meta/tables",
        "Every table of the warehouse",
        source.described.iter_rows(named=True),
        build_column("Table", lambda row: text(row["table_name"], f"data/table/{row['table_name']}.html")),
        build_column("One row is", lambda row: text(row["description"])),
        build_column("Rows", lambda row: number(row["rows"]), numeric=True),
        build_column("Partitions", lambda row: number(row["partitions"]), numeric=True),
        build_column("Version", lambda row: text(row["version"]), "of the rules that make its rows"),
        build_column("Newest fact", lambda row: timestamp(row["known_at"])),
        build_column("Parquet", lambda row: download(row, "Parquet"), "tables of results can be downloaded here; the warehouse has all"),
        build_column("CSV", lambda row: download(row, "CSV"), f"of tables up to {_CSV_ROWS:,} rows"),
    )
    note = "In CSV files an apostrophe precedes texts that a spreadsheet would read as formulas, and control characters are replaced by symbols such as ␛; "
    note += "Parquet files contain texts unchanged."
    sections = [
        Section("Tables", [table, Note(note)]),
        Section("How to query", [Code(_QUERY), Code(_PYTHON)]),
        Section("Methodologies of the arena", _methodologies()),
    ]
    lead = "Tables behind the numbers of this site. A cohort keeps its methodology; a table gets a new version when its rules change."
    yield from render(Page("data/index.html", "Data", lead, sections))


def _methodologies() -> list[Part]:
    methods = _methodology_fields()
    fields = sorted({field for method in methods.values() for field in method if field not in ("name", "title")})
    titles = PageTable(
        "Methodologies",
        [Head("Name"), Head("What it measures")],
        [[text(name), text(method.get("title"))] for name, method in methods.items()],
    )
    rows = [[text(field.replace("_", " ")), *(text(method.get(field)) for method in methods.values())] for field in fields]
    return [titles, PageTable("Their numbers, side by side", [Head("Rule"), *(Head(name) for name in methods)], rows)]


def _table(name: str, about: pl.DataFrame, columns: pl.DataFrame, is_file: bool) -> Iterator[File]:
    line: dict[str, Any] = (
        about.row(0, named=True) if about.height else {"description": "", "rows": 0, "stored_as": "", "version": "", "key": []}
    )
    listed = build_table(
        "meta/columns",
        f"Columns of {name}",
        columns.iter_rows(named=True),
        build_column("Column", lambda row: text(row["column_name"])),
        build_column("Type", lambda row: text(row["type"])),
        build_column("Unit", lambda row: text(row["unit"])),
        build_column("May be null", lambda row: yes_no(row["nullable"])),
        build_column("Meaning", lambda row: text(row["description"], most=600)),
    )
    parts: list[Part] = [listed]
    if is_file:
        kinds = ["Parquet", "CSV"] if line["rows"] <= _CSV_ROWS else ["Parquet"]
        plain = name.replace(".", "/", 1)
        parts.insert(0, Links([Cell(f"Download as {kind}", href=download_path(plain, kind.lower())) for kind in kinds]))
    sections = [Section("Columns", parts)]
    facts = Facts([(one, any_value(line[one])) for one in ("stored_as", "key", "version", "rows")])
    sections.append(Section("The table", [facts]))
    yield from render(Page(f"data/table/{name}.html", name, line["description"] or "", sections, _ABOVE))


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
