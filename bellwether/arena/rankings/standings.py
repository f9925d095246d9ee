"""Standings of families (competitors) as tables for the terminal, and loading of the inputs of rankings, also as known at an earlier instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether.arena.families import Family
from bellwether.arena.lineup import build_release_rows
from bellwether.arena.methodology import Methodology
from bellwether.arena.rankings.estimates import RELATIVE
from bellwether.arena.rankings.inputs import RankingInputs
from bellwether.arena.rankings.tables import compute_rankings
from bellwether.arena.weekly.queries import AS_KNOWN, TableReader, read_as_known
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
    """Load the knowledge cutoffs of the registry's models by name."""
    return {name: model.knowledge_cutoff for name, model in models(folder).items()}


def read_tables_as_known(
    lake: Lake, rules: Mapping[str, Methodology], cutoffs: Mapping[str, datetime | None], at: datetime, families: Mapping[str, Family]
) -> TableReader:
    """Return a function that reads any table of the arena as known at an instant; rankings and releases are recomputed.

    rules: methodologies by name. cutoffs: from `load_cutoffs`. families: current families of the registry by name.
    """
    read = read_as_known(lake, rules, at)
    computed: dict[str, pl.DataFrame] = {}

    def rows(declared: Table) -> pl.DataFrame:
        if "known_at" in declared.names or declared.name in AS_KNOWN:
            return read(declared)
        if not computed:
            computed.update(compute_rankings(load_inputs(read, cutoffs)))
            computed[RELEASES.name] = build_release_rows(read(AGENTS), families)
        return computed[declared.name]

    return rows


def load_inputs(read: TableReader, cutoffs: Mapping[str, datetime | None]) -> RankingInputs:
    """Load the inputs of rankings. read: function that returns the rows of a table. cutoffs: from `load_cutoffs`."""
    return RankingInputs(**{name: read(table(f"arena/{name}")) for name in INPUTS}, cutoffs=cutoffs)


_NOTE = (
    "Ranked by stated Brier score minus the price's Brier score on the same questions (vs price): below 0 is better than the market. Brackets: 95 % intervals over events. "
    "adjusted: Brier score adjusted for question difficulty. Families that share a letter (grp) do not differ significantly (5 %, Holm)."
)


def render_standings(rows: pl.DataFrame, imputation: str = "none") -> Iterator[RenderableType]:
    """Yield a table of standings per ranking group, sorted by Brier score relative to the price, and lines that explain missing ranks and
    intervals. rows: of arena/rankings. imputation: what replaces missing forecasts.
    """
    chosen = rows.filter(pl.col("imputation") == imputation)
    for key, part in sorted(chosen.partition_by(GROUP, as_dict=True).items()):
        families: dict[str, dict[str, dict[str, Any]]] = {}
        for row in part.iter_rows(named=True):
            families.setdefault(row["family"], {})[row["metric"]] = row
        columns = ("family", "rank", "vs price", "stated", "adjusted", *(("return",) if imputation == "none" else ()), "grp")
        table = TextTable(_format_title(key, imputation), columns, caption=_NOTE)
        for name in sorted(families, key=lambda family: (families[family][RELATIVE]["rank"] or len(families) + 1, family)):
            metrics = families[name]
            main = metrics[RELATIVE]
            table.add(
                name,
                "–" if main["rank"] is None else str(main["rank"]),
                _format_interval(main, 3),
                _format_value(metrics["brier_stated"]["value"], 3),
                _format_value(metrics["brier_adjusted"]["value"], 3),
                *((_format_value(metrics["return"]["value"], 1, sign=True, kind="%"),) if imputation == "none" else ()),
                main["letters"] or "–",
            )
        yield table
        yield table.caption
        yield from (
            f"{name}: not ranked, {families[name][RELATIVE]['unranked_because']}"
            for name in sorted(families)
            if families[name][RELATIVE]["rank"] is None
        )
        yield from (
            f"{name}: no interval, {reason}"
            for name in sorted(families)
            if (reason := families[name][RELATIVE]["reason"]) is not None and families[name][RELATIVE]["rank"] is not None
        )


def _format_title(key: tuple[Any, ...], imputation: str) -> str:
    methodology, reconstructed, contaminated = key
    kind = "reconstructed" if reconstructed else "live"
    contamination = ", models that may know the outcomes" if contaminated else ""
    missing = "" if imputation == "none" else f"; missing forecasts are {'the price' if imputation == 'price' else 'one half'}"
    return f"Arena, {methodology}, {kind} cohorts{contamination}{missing}"


def _format_interval(row: dict[str, Any], digits: int) -> str:
    value, lower, upper = (_format_value(row[name], digits, sign=True) for name in ("value", "lower", "upper"))
    return value if row["lower"] is None else f"{value} [{lower}, {upper}]"


def _format_value(value: float | None, digits: int, *, sign: bool = False, kind: str = "f") -> str:
    return "–" if value is None else f"{value:{'+' if sign else ''}z.{digits}{kind}}"
