"""`bellwether submit`: forecasts of others, accepted or refused by line."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bellwether.console import AS_JSON, DAY, console, emit
from bellwether.settings import settings
from bellwether.text_tables import visible

if TYPE_CHECKING:
    import polars as pl

#: Refused lines that are printed; all are in the file that --refused names.
_SHOWN = 20


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--forecaster", metavar="NAME", help="Who made the forecasts, where no column of FILE says so.")
@click.option(
    "--week",
    type=DAY,
    help="The week of the arena (its Sunday) that the forecasts are for, where no column says so.",
)
@click.option(
    "--refused", type=click.Path(dir_okay=False, path_type=Path), help="Write all refused lines with their reasons into this CSV."
)
@click.option("--dry-run", is_flag=True, help="Judge every line; keep nothing.")
@AS_JSON
def submit(file: Path, forecaster: str | None, week: datetime | None, refused: Path | None, *, dry_run: bool, as_json: bool) -> None:
    """Submit forecasts in FILE (CSV, Parquet or JSON lines): market, probability, stated_at, forecaster.

    What is accepted is a forecaster of the benchmark from then on, and of the arena in the weeks that it fits. The command ends with status 1 where lines are refused; the others are kept.
    """
    from bellwether.arena.methodology import methodologies
    from bellwether.submissions import Submissions, checked
    from bellwether.submissions.markets import arena_families, known_markets, known_weeks
    from bellwether.submissions.reading import for_week, read

    config = settings()
    table, store = read(file), Submissions(config.submissions)
    rows = table.frame if week is None else for_week(table.frame, week.date())
    weeks = known_weeks(config.lake_uri, methodologies(config.registry))
    taken = [*_registered(), *arena_families(config.lake_uri)]
    with nullcontext() if dry_run else store.alone():
        markets = known_markets(config.lake_uri)
        found = checked(rows, markets, store.read(), forecaster=forecaster, taken=taken, now=config.now(), weeks=weeks)
        if not dry_run:
            store.add(found.accepted)
    lines = [{"line": table.place(row), "reason": reason} for row, reason in found.refused.head(_SHOWN).iter_rows()]
    if refused is not None:
        _write(refused, table, found.refused)
    names = sorted(found.accepted["forecaster"].unique())
    counts = {"accepted": found.accepted.height, "refused": found.refused.height, "in_the_arena": weeks.counted(found.accepted)}
    if as_json:
        emit({**counts, "forecasters": names, "lines": lines, "kept": not dry_run})
    else:
        for line in lines:
            console().print(f"{line['line']}: {visible(line['reason'])}", markup=False, highlight=False, soft_wrap=True)
        if (more := found.refused.height - len(lines)) > 0:
            console().print(f"and {more:,} more{'' if refused else '; --refused FILE writes them all'}")
        verb = "would be accepted" if dry_run else "accepted"
        console().print(f"{found.accepted.height:,} forecasts {verb}, {found.refused.height:,} refused")
        if counts["in_the_arena"]:
            console().print(f"{counts['in_the_arena']:,} of them are on a market of their week in the arena")
        if names and not dry_run:
            console().print(f"Next: `bellwether release` scores {', '.join(names[:5])} on the questions of a release.")
            if counts["in_the_arena"]:
                console().print("`bellwether arena run` ranks them with the arena's families.")
    if found.refused.height:
        sys.exit(1)


def _registered() -> list[str]:
    from bellwether.forecasting.registry import registered

    return list(registered())


def _write(path: Path, table: Any, refused: pl.DataFrame) -> None:
    """All refused rows, with their place in the file as messages name it (a line; of Parquet a row) and the reason."""
    import polars as pl

    from bellwether.files import atomic_file
    from bellwether.spreadsheets import neutralised

    places = [table.place(row).split() for row in refused["row"]]
    named = places[0][0] if places else "line"
    rows = refused.join(table.frame, on="row", how="left", maintain_order="left").drop("row")
    numbers = pl.Series(named, [int(number) for _, number in places], dtype=pl.Int64)
    with atomic_file(path) as draft:
        neutralised(rows.insert_column(0, numbers)).write_csv(draft)
