"""`bellwether arena export`: a cohort as an open dataset."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from assets.arena.reading import arena_lake
from bellwether.console import AS_JSON, DAY, console, emit
from bellwether.settings import settings


@click.command(name="export")
@click.argument("cohort", metavar="COHORT", type=DAY)
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--without-prompts", is_flag=True, help="Leave prompts and answers out.")
@AS_JSON
def export_cohort(cohort: datetime, target: Path, *, without_prompts: bool, as_json: bool) -> None:
    """Write COHORT (its Sunday) into TARGET, a folder or a .zip: Parquet and CSV, a card, and the query that gives its leaderboard."""
    from bellwether.arena.exporting import cohort_tables
    from bellwether.arena.exporting import export_cohort as write
    from bellwether.arena.methodology import methodologies
    from bellwether.journal import Journal

    config = settings()
    lake, rules = arena_lake(), methodologies(config.registry)
    if without_prompts:
        tables = cohort_tables(lake, rules, cohort.date())
    else:
        with Journal.of(config) as journal:
            tables = cohort_tables(lake, rules, cohort.date(), journal)
    written = write(tables, cohort.date(), target)
    counts = {name: rows.height for name, rows in tables.items()}
    if as_json:
        emit({"export": str(written), "rows": counts})
        return
    console().print(f"{written}: {', '.join(f'{number:,} {name}' for name, number in counts.items())}", markup=False, soft_wrap=True)
