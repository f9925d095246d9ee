"""Commands that read, publish and verify: leaderboard, query, warehouse, verify."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from bellwether.console import AS_JSON, console, emit, grid, leaderboard_table
from bellwether.errors import ConfigError, suggestion
from bellwether.lake.warehouse import query as run
from bellwether.progress import shown
from bellwether.settings import settings
from bellwether.text_tables import visible


@click.command()
@click.argument("releases", nargs=-1)
@AS_JSON
def leaderboard(releases: tuple[str, ...], as_json: bool) -> None:
    """Show the leaderboard of RELEASES from the published warehouse (all releases when none is named)."""
    frame = run(settings().warehouse_path, "SELECT * FROM benchmark.leaderboard ORDER BY release, rank NULLS LAST, forecaster")
    known = frame["release"].unique(maintain_order=True).to_list()
    unknown = [name for name in releases if name not in known]
    if unknown:
        raise ConfigError(f"showing the leaderboard: the warehouse has no release {unknown[0]!r}; {suggestion(unknown[0], known)}")
    chosen = [name for name in known if not releases or name in releases]
    parts = {name: frame.filter(frame["release"] == name) for name in chosen}
    if as_json:
        emit({name: part.to_dicts() for name, part in parts.items()})
        return
    if not parts:
        console().print("No release has been ranked yet; `bellwether demo` makes one.")
    for name, part in parts.items():
        console().print(leaderboard_table(name, part))


@click.command()
@click.argument("sql")
@click.option("--set", "values", multiple=True, metavar="NAME=VALUE", help="Value of $NAME in the SQL; may be repeated.")
@click.option("--rows", default=100, show_default=True, type=click.IntRange(1), help="Most rows to show.")
@AS_JSON
def query(sql: str, values: tuple[str, ...], rows: int, as_json: bool) -> None:
    """Run SQL on the published warehouse, read-only, while the pipeline may be running.

    Tables are named like the assets: clean.markets, benchmark.scores, ... `FROM meta.tables` lists them. `@FILE` reads the SQL from a file:
    `@sql/analysis/leaderboard.sql --set release=sandbox-2026`.
    """
    text = sql
    if sql.startswith("@"):
        path = Path(sql[1:])
        if not path.is_file():
            raise ConfigError(f"reading SQL: there is no file {path}")
        text = path.read_text(encoding="utf-8")
    frame = run(settings().warehouse_path, text, _named(values))
    if as_json:
        emit(frame.to_dicts())
    else:
        console().print(grid(frame, most=rows))


@click.command()
@click.option(
    "--to",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a self-contained DuckDB file here instead, with the rows of every table: to move, share or keep.",
)
@AS_JSON
def warehouse(target: Path | None, as_json: bool) -> None:
    """Publish the warehouse of this world from what the lake has now.

    The published file shows big tables in the lake's files, by their places: publish it again after the home was moved or copied.
    """
    from bellwether.lake import Lake
    from bellwether.lake.warehouse import publish

    lake = Lake(settings().lake_uri)
    with shown() as progress:
        progress.say(f"publishing {target or settings().warehouse_path}")
        done = publish(lake, target or settings().warehouse_path, self_contained=target is not None)
    if as_json:
        emit({**asdict(done), "path": str(done.path)})
    else:
        console().print(f"{done.path}: {done.tables} tables, {done.rows:,} rows, {done.bytes / 1e6:.1f} MB", markup=False, soft_wrap=True)
        if done.outdated:
            console().print(f"Left out, made by an older version: {', '.join(done.outdated)}", markup=False, soft_wrap=True)
    for name, reason in done.damaged.items():
        click.echo(f"Left out {name}: {visible(reason)}", err=True)
    if done.damaged:
        click.get_current_context().exit(1)


@click.command()
@AS_JSON
def verify(as_json: bool) -> None:
    """Compare every file of the lake with the checksum that was stored when it was written. Exits 1 if one differs."""
    from bellwether.lake import Lake
    from bellwether.lake.verification import verify as verify_lake

    with shown() as progress:
        found = verify_lake(Lake(settings().lake_uri), progress=progress)
    if as_json:
        emit({"files": found.files, "bytes": found.bytes, "damaged": [asdict(one) for one in found.damaged]})
    else:
        for one in found.damaged:
            click.echo(f"{one.table} {one.partition}: {visible(one.reason)}", err=True)
        console().print(f"{found.files:,} files, {found.bytes / 1e6:.1f} MB: {len(found.damaged) or 'none'} damaged", markup=False)
    if found.damaged:
        click.get_current_context().exit(1)


def _named(values: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` as a mapping."""
    for value in values:
        if not value.partition("=")[0] or "=" not in value:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", param_hint="--set")
    return dict(value.split("=", 1) for value in values)
