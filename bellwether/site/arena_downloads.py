"""A cohort to download: its rows as Parquet and CSV in one archive."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

import polars as pl

from bellwether.site.data import csv

#: Every file of an archive bears this time, so that the same rows give the same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)


def archive(tables: Mapping[str, pl.DataFrame]) -> bytes:
    """A zip of `data/NAME.parquet` and `csv/NAME.csv` for each table; the same rows give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, rows in tables.items():
            parquet = io.BytesIO()
            rows.write_parquet(parquet, compression="zstd")
            made.writestr(zipfile.ZipInfo(f"data/{name}.parquet", _TIME), parquet.getvalue(), zipfile.ZIP_STORED)
            made.writestr(zipfile.ZipInfo(f"csv/{name}.csv", _TIME), csv(rows), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
