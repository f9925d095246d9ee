"""Inputs of rankings from the lake, tables as known at an earlier time, and standings as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether.arena.families import Family
from bellwether.arena.lineup import release_rows
from bellwether.arena.methodology import Methodology
from bellwether.arena.rankings.estimates import RELATIVE
from bellwether.arena.rankings.inputs import RankingInputs
from bellwether.arena.rankings.tables import compute_rankings
from bellwether.arena.weekly.queries import AS_KNOWN, TableReader, tables_as_known
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


def load_cutoffs(folder: Path | None = None) -> dict[str, datetime | None]:
    """Load the knowledge cutoff of each model of the registry by name."""
    return {name: model.knowledge_cutoff for name, model in models(folder).items()}


def read_tables_as_known(
    lake: Lake, rules: Mapping[str, Methodology], known: Mapping[str, datetime | None], at: datetime, families: Mapping[str, Family]
) -> TableReader:
    """Return a reader of all arena tables as known at an instant, including rankings and releases.

    rules: methodologies by name. known: from `load_cutoffs`. families: present families of the registry by name.
    """
    read = tables_as_known(lake, rules, at)
    made: dict[str, pl.DataFrame] = {}

    def rows(declared: Table) -> pl.DataFrame:
        if "known_at" in declared.names or declared.name in AS_KNOWN:
            return read(declared)
        if not made:
            made.update(compute_rankings(load_inputs(read, known)))
            made[RELEASES.name] = release_rows(read(AGENTS), families)
        return made[declared.name]

    return rows


def load_inputs(read: TableReader, known: Mapping[str, datetime | None]) -> RankingInputs:
    """Load the inputs of rankings from the tables of `read`. known: from `load_cutoffs`."""
    return RankingInputs(**{name: read(table(f"arena/{name}")) for name in INPUTS}, cutoffs=known)


_NOTE = (
    "Ranked by stated Brier score minus the price's Brier score on the same questions (vs price): below 0 is better than the market. Brackets: 95 % intervals over events. "
    "adjusted: Brier score adjusted for question difficulty. Families that share a letter (grp) do not differ significantly (5 %, Holm)."
)


def render_standings(rows: pl.DataFrame, imputation: str = "none") -> Iterator[RenderableType]:
    """Yield standings by group: families ranked by their score relative to the price, with intervals and reasons for missing ranks."""
    chosen = rows.filter(pl.col("imputation") == imputation)
    for key, part in sorted(chosen.partition_by(GROUP, as_dict=True).items()):
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for row in part.iter_rows(named=True):
            found.setdefault(row["family"], {})[row["metric"]] = row
        columns = ("family", "rank", "vs price", "stated", "adjusted", *(("return",) if imputation == "none" else ()), "grp")
        table = TextTable(_format_title(key, imputation), columns, caption=_NOTE)
        for name in sorted(found, key=lambda one: (found[one][RELATIVE]["rank"] or len(found) + 1, one)):
            mine = found[name]
            main = mine[RELATIVE]
            table.add(
                name,
                "–" if main["rank"] is None else str(main["rank"]),
                _format_interval(main, 3),
                _format_value(mine["brier_stated"]["value"], 3),
                _format_value(mine["brier_adjusted"]["value"], 3),
                *((_format_percent(mine["return"]["value"]),) if imputation == "none" else ()),
                main["letters"] or "–",
            )
        yield table
        yield table.caption
        yield from (
            f"{name}: not ranked, {found[name][RELATIVE]['unranked_because']}"
            for name in sorted(found)
            if found[name][RELATIVE]["rank"] is None
        )
        yield from (
            f"{name}: no interval, {reason}"
            for name in sorted(found)
            if (reason := _explain_missing_interval(found[name][RELATIVE])) is not None
        )


def _explain_missing_interval(row: dict[str, Any]) -> str | None:
    """Explain why a ranked family has no interval; None otherwise."""
    return row["reason"] if row["rank"] is not None else None


def _format_title(key: tuple[Any, ...], imputation: str) -> str:
    methodology, reconstructed, contaminated = key
    kind = "reconstructed" if reconstructed else "live"
    known = ", models that may know the outcomes" if contaminated else ""
    missing = "" if imputation == "none" else f"; missing forecasts are {'the price' if imputation == 'price' else 'one half'}"
    return f"Arena, {methodology}, {kind} cohorts{known}{missing}"


def _format_interval(row: dict[str, Any], digits: int) -> str:
    value, lower, upper = (_format_value(row[name], digits, sign=True) for name in ("value", "lower", "upper"))
    return value if row["lower"] is None else f"{value} [{lower}, {upper}]"


def _format_value(value: float | None, digits: int, *, sign: bool = False) -> str:
    return "–" if value is None else f"{value:{'+' if sign else ''}z.{digits}f}"


def _format_percent(value: float | None) -> str:
    return "–" if value is None else f"{value:+z.1%}"
