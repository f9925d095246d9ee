"""Rows of any table for tests."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import polars as pl

from bellwether.tables import table

#: Value of a required column by type; 0 for others.
_VALUES = MappingProxyType(
    {
        pl.String: "some",
        pl.Boolean: False,
        pl.Float64: 0.0,
        pl.Decimal: Decimal(0),
        pl.List: [],
        pl.Date: date(2026, 6, 7),
        pl.Datetime: datetime(2026, 6, 7, tzinfo=UTC),
    }
)


def filled(name: str, **given: Any) -> dict[str, Any]:
    """Return a row of a table with these columns, a plain value in each other required column, and null in the others."""
    required = (column for column in table(name).columns if not column.nullable)
    return {**{column.name: _VALUES.get(column.dtype.base_type(), 0) for column in required}, **given}
