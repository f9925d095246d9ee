"""`bellwether arena table`: the rows of any table of the arena, as the lake has them or as they were known at an instant. It reads; no run is started."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from assets.arena.options import KNOWN_AT
from assets.arena.reading import arena_lake
from bellwether.console import AS_JSON, DAY, console, emit, grid
from bellwether.errors import suggestion
from bellwether.settings import settings


@click.command(name="table")
@click.argument("name")
@KNOWN_AT
@click.option("--from", "first", type=DAY, help="Leave out rows of before this UTC day.")
@click.option("--to", "last", type=DAY, help="Leave out rows of after this UTC day.")
@click.option("--into", type=click.Path(dir_okay=False, path_type=Path), help="Write all rows into this file: .parquet, or .csv.")
@AS_JSON
def show_table(
    name: str, known_at: datetime | None, first: datetime | None, last: datetime | None, into: Path | None, *, as_json: bool
) -> None:
    """Show the rows of NAME, a table of the arena such as rankings, positions or leaderboard."""
    from bellwether.arena.methodology import methodologies
    from bellwether.arena.rankings.reading import cutoffs, every_table_as_known
    from bellwether.arena.releases import registered
    from bellwether.arena.weekly.reading import between, stored
    from bellwether.files import atomic_file
    from bellwether.redacted import redacted
    from bellwether.spreadsheets import flat, neutralised
    from bellwether.tables import TABLES

    named = {one.name: one for one in TABLES.values() if one.group == "arena"}
    declared, config = named.get(name if "/" in name else f"arena/{name}"), settings()
    if declared is None:
        meant = suggestion(name.removeprefix("arena/"), (one.short_name for one in named.values()))
        raise click.BadParameter(f"{name!r:.80} is no table of the arena; {meant}", param_hint="NAME")
    if into is not None and into.suffix.lower() not in (".parquet", ".csv"):
        raise click.BadParameter(f"{into.name}: give a name that ends in .parquet or .csv", param_hint="--into")
    lake, registry = arena_lake(), config.registry
    if known_at is None:
        read = stored(lake)
    else:
        read = every_table_as_known(lake, methodologies(registry), cutoffs(registry), known_at, registered(registry))
    rows = redacted(declared.name, read(declared))
    if first or last:
        rows = between(declared, rows, first and first.date(), last and last.date())
    if into is not None:
        with atomic_file(into) as draft:
            if into.suffix.lower() == ".csv":
                flat(neutralised(rows)).write_csv(draft)
            else:
                rows.write_parquet(draft)
    if as_json:
        emit({declared.short_name: rows.to_dicts()} if into is None else {"rows": rows.height, "file": str(into)})
    elif into is not None:
        console().print(f"{rows.height:,} rows of {declared.name} in {into}", markup=False)
    else:
        console().print(grid(rows, title=declared.name) if rows.height else f"{declared.name}: no rows")
