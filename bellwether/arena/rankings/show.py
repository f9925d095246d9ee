"""Rankings as people read them: a table per group, 80 characters wide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether.tables.arena_rankings import GROUP
from bellwether.text_tables import TextTable

if TYPE_CHECKING:
    from rich.console import RenderableType

_NOTE = (
    "Ranked by stated Brier score. Brackets: 95 % intervals over events. adjusted: Brier score had it answered every question. skill: over the price when the bet was made. first: share of "
    "replicates in which it is first. Families that share a letter (grp) do not differ significantly (5 %, Holm)."
)


def standings(rows: pl.DataFrame, imputation: str = "none") -> Iterator[RenderableType]:
    """Families by stated Brier score with their intervals; live, reconstructed and contaminated cohorts apart."""
    chosen = rows.filter(pl.col("imputation") == imputation)
    for key, part in sorted(chosen.partition_by(GROUP, as_dict=True).items()):
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for row in part.iter_rows(named=True):
            found.setdefault(row["family"], {})[row["metric"]] = row
        columns = ("family", "rank", "stated Brier", "adjusted", "skill", *(("return",) if imputation == "none" else ()), "first", "grp")
        table = TextTable(_title(key, imputation), columns, caption=_NOTE)
        for name in sorted(found, key=lambda one: (found[one]["brier_stated"]["rank"] or len(found) + 1, one)):
            mine = found[name]
            stated = mine["brier_stated"]
            table.add(
                name,
                "–" if stated["rank"] is None else str(stated["rank"]),
                _cell(stated, 3),
                _value(mine["brier_adjusted"]["value"], 3),
                _value(mine["skill_price"]["value"], 2, sign=True),
                *((_percent(mine["return"]["value"]),) if imputation == "none" else ()),
                _value(stated["share_first"], 2),
                stated["letters"] or "–",
            )
        yield table.grid({})
        yield table.caption


def _title(key: tuple[Any, ...], imputation: str) -> str:
    methodology, reconstructed, contaminated = key
    kind = "reconstructed" if reconstructed else "live"
    known = ", models that may know the outcomes" if contaminated else ""
    missing = "" if imputation == "none" else f"; missing forecasts are {'the price' if imputation == 'price' else 'one half'}"
    return f"Arena, {methodology}, {kind} cohorts{known}{missing}"


def _cell(row: dict[str, Any], digits: int) -> str:
    value = _value(row["value"], digits)
    return value if row["lower"] is None else f"{value} [{_value(row['lower'], digits)}, {_value(row['upper'], digits)}]"


def _value(value: float | None, digits: int, *, sign: bool = False) -> str:
    return "–" if value is None else f"{value:{'+' if sign else ''}.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:+.1%}"
