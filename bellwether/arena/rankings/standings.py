"""Rankings of a lake: their inputs, the tables as known at an earlier time, and standings as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether.arena.families import Family
from bellwether.arena.lineup import releases
from bellwether.arena.methodology import Methodology
from bellwether.arena.rankings.estimates import RELATIVE
from bellwether.arena.rankings.inputs import Inputs
from bellwether.arena.rankings.rankings import rankings
from bellwether.arena.weekly.queries import AS_KNOWN, Rows, as_known
from bellwether.console import TextTable
from bellwether.lake import Lake
from bellwether.models.registry import models
from bellwether.tables import table
from bellwether.tables.arena import AGENTS
from bellwether.tables.arena_lineups import RELEASES
from bellwether.tables.arena_rankings import GROUP, INPUTS
from bellwether.tables.schema import Table

if TYPE_CHECKING:
    from rich.console import RenderableType


def cutoffs(folder: Path | None = None) -> dict[str, datetime | None]:
    """End of the knowledge of each model of the registry, by its name."""
    return {name: model.knowledge_cutoff for name, model in models(folder).items()}


def every_table_as_known(
    lake: Lake, rules: Mapping[str, Methodology], known: Mapping[str, datetime | None], at: datetime, families: Mapping[str, Family]
) -> Rows:
    """Every table of the arena as known at an instant: `as_known`, and what is computed from it: the tables of `rankings`, and releases.

    rules: the methodologies by name. known: as `cutoffs` returns it. families: of the registry by name, as it is now.
    """
    read = as_known(lake, rules, at)
    made: dict[str, pl.DataFrame] = {}

    def rows(declared: Table) -> pl.DataFrame:
        if "known_at" in declared.names or declared.name in AS_KNOWN:
            return read(declared)
        if not made:
            made.update(rankings(inputs_of(read, known)))
            made[RELEASES.name] = releases(read(AGENTS), families)
        return made[declared.name]

    return rows


def inputs_of(read: Rows, known: Mapping[str, datetime | None]) -> Inputs:
    """Inputs of rankings, from the tables that `read` returns. known: as `cutoffs` returns it."""
    return Inputs(**{name: read(table(f"arena/{name}")) for name in INPUTS}, cutoffs=known)


_NOTE = (
    "Ranked by the stated Brier score minus that of the price of the same questions (vs price): below 0 is better than the market. Brackets: 95 % intervals over events. "
    "adjusted: Brier score on every question of the group. Families that share a letter (grp) do not differ significantly (5 %, Holm)."
)


def standings(rows: pl.DataFrame, imputation: str = "none") -> Iterator[RenderableType]:
    """Families by their score relative to the price, with intervals and why a family has no rank; live, reconstructed and contaminated cohorts apart."""
    chosen = rows.filter(pl.col("imputation") == imputation)
    for key, part in sorted(chosen.partition_by(GROUP, as_dict=True).items()):
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for row in part.iter_rows(named=True):
            found.setdefault(row["family"], {})[row["metric"]] = row
        columns = ("family", "rank", "vs price", "stated", "adjusted", *(("return",) if imputation == "none" else ()), "grp")
        table = TextTable(_title(key, imputation), columns, caption=_NOTE)
        for name in sorted(found, key=lambda one: (found[one][RELATIVE]["rank"] or len(found) + 1, one)):
            mine = found[name]
            main = mine[RELATIVE]
            table.add(
                name,
                "–" if main["rank"] is None else str(main["rank"]),
                _cell(main, 3),
                _value(mine["brier_stated"]["value"], 3),
                _value(mine["brier_adjusted"]["value"], 3),
                *((_percent(mine["return"]["value"]),) if imputation == "none" else ()),
                main["letters"] or "–",
            )
        yield table
        yield table.caption
        yield from (
            f"{name}: not ranked, {found[name][RELATIVE]['unranked_because']}"
            for name in sorted(found)
            if found[name][RELATIVE]["rank"] is None
        )
        yield from (f"{name}: no interval, {reason}" for name in sorted(found) if (reason := _unbounded(found[name][RELATIVE])) is not None)


def _unbounded(row: dict[str, Any]) -> str | None:
    """Why a ranked family has no interval."""
    return row["reason"] if row["rank"] is not None else None


def _title(key: tuple[Any, ...], imputation: str) -> str:
    methodology, reconstructed, contaminated = key
    kind = "reconstructed" if reconstructed else "live"
    known = ", models that may know the outcomes" if contaminated else ""
    missing = "" if imputation == "none" else f"; missing forecasts are {'the price' if imputation == 'price' else 'one half'}"
    return f"Arena, {methodology}, {kind} cohorts{known}{missing}"


def _cell(row: dict[str, Any], digits: int) -> str:
    value, lower, upper = (_value(row[name], digits, sign=True) for name in ("value", "lower", "upper"))
    return value if row["lower"] is None else f"{value} [{lower}, {upper}]"


def _value(value: float | None, digits: int, *, sign: bool = False) -> str:
    return "–" if value is None else f"{value:{'+' if sign else ''}z.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:+z.1%}"
