"""The `bellwether` command: what only reads is here, what runs the graph is added by the orchestration package."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click

from bellwether import __version__
from bellwether.console import AS_JSON, console, emit, grid, leaderboard_table
from bellwether.errors import BellwetherError, ConfigError
from bellwether.settings import World, settings


class Commands(click.Group):
    """A group that ends every error of ours in one line instead of a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BellwetherError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Measure how well models forecast and trade on prediction markets.

    Start with `bellwether demo`: it needs no key and no network. Settings are BELLWETHER_* variables or an .env file
    (.env.example lists them); BELLWETHER_WORLD chooses sandbox, playback or live.
    """


@main.command()
@click.argument("releases", nargs=-1)
@AS_JSON
def leaderboard(releases: tuple[str, ...], as_json: bool) -> None:
    """Show the leaderboard of RELEASES from the published warehouse (all releases when none is named)."""
    from bellwether.lake.warehouse import query as run

    frame = run(settings().warehouse_path, "SELECT * FROM benchmark.leaderboard ORDER BY release, rank NULLS LAST, forecaster")
    known = frame["release"].unique(maintain_order=True).to_list()
    unknown = [name for name in releases if name not in known]
    if unknown:
        raise ConfigError(f"showing the leaderboard: the warehouse has no release {unknown[0]!r}; it has {', '.join(known) or 'none'}")
    chosen = [name for name in known if not releases or name in releases]
    parts = {name: frame.filter(frame["release"] == name) for name in chosen}
    if as_json:
        emit({name: part.to_dicts() for name, part in parts.items()})
        return
    if not parts:
        console().print("No release has been ranked yet; `bellwether demo` makes one.")
    for name, part in parts.items():
        console().print(leaderboard_table(name, part))


@main.command()
@click.argument("sql")
@click.option("--set", "values", multiple=True, metavar="NAME=VALUE", help="Value of $NAME in the SQL; may be repeated.")
@click.option("--rows", default=100, show_default=True, type=click.IntRange(1), help="Most rows to show.")
@AS_JSON
def query(sql: str, values: tuple[str, ...], rows: int, as_json: bool) -> None:
    """Run SQL on the published warehouse, read-only, while the pipeline may be running.

    Tables are named like the assets: clean.markets, benchmark.scores, ... `FROM meta.tables` lists them. `@FILE` reads the SQL from a file:
    `@sql/analysis/leaderboard.sql --set release=sandbox-2026`.
    """
    from bellwether.lake.warehouse import query as run

    text = sql
    if sql.startswith("@"):
        path = Path(sql[1:])
        if not path.is_file():
            raise ConfigError(f"reading SQL: there is no file {path}")
        text = path.read_text(encoding="utf-8")
    try:
        frame = run(settings().warehouse_path, text, _named(values))
    except ConfigError as error:
        if "prepared parameter" not in str(error):
            raise
        raise ConfigError(f"{error} Give every $NAME in the query a value: --set NAME=VALUE") from None
    if as_json:
        emit(frame.to_dicts())
    else:
        console().print(grid(frame, most=rows))


def _named(values: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` as a mapping."""
    for value in values:
        if not value.partition("=")[0] or "=" not in value:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", param_hint="--set")
    return dict(value.split("=", 1) for value in values)


@main.command()
@click.option("--port", default=8321, show_default=True, type=click.IntRange(0, 65535), help="Port on 127.0.0.1; 0 takes a free one.")
@click.option("--seed", type=int, help="Seed of the generated world; BELLWETHER_SANDBOX_SEED when left out.")
@click.option(
    "--playback", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Serve recorded bodies from this folder instead."
)
@click.option("--faults", help="Faults on demand, such as status=0.1,cut=0.05; BELLWETHER_SANDBOX_FAULTS when left out.")
@click.option("--run/--stand", default=False, show_default=True, help="Let its clock run at BELLWETHER_SANDBOX_SPEED.")
def sandbox(port: int, seed: int | None, playback: Path | None, faults: str | None, run: bool) -> None:
    """Serve the sandbox on 127.0.0.1 until interrupted, to look at it with a browser or a client of your own."""
    from bellwether.sandbox import serve
    from bellwether.sandbox.worlds import application

    chosen: dict[str, Any] = {"world": World.SANDBOX if playback is None else World.PLAYBACK, "playback": playback}
    if seed is not None:
        chosen["sandbox_seed"] = seed
    if faults is not None:
        chosen["sandbox_faults"] = faults
    app = application(settings().model_copy(update=chosen), running=run)
    with serve(app, port=port) as site:
        for service in ("kalshi", "kalshi_stream", "gamma", "clob", "models", "control"):
            console().print(f"{service:<14} {getattr(site, service)}", soft_wrap=True)
        console().print(f"Try {site.kalshi}/events?status=settled&limit=1; Ctrl-C ends it", soft_wrap=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            console().print("stopped")


@main.command()
@click.option("--live", is_flag=True, help="Try every venue and every configured key once instead; no key is shown.")
@AS_JSON
def doctor(live: bool, as_json: bool) -> None:
    """Check versions, folders, registry, venue and warehouse, and say how to mend what is wrong. Exits 1 if something is.

    With --live it makes one harmless call to Kalshi, its WebSocket, Polymarket's two interfaces, and each provider of models whose key is set
    (OPENAI_API_KEY, ANTHROPIC_API_KEY, ...; OPENAI_API_BASE and its like are honoured).
    """
    if live:
        _try_connections(as_json)
        return
    from bellwether.doctor import examine

    findings = examine(settings())
    if as_json:
        emit([{"check": found.check, "status": found.status, "found": found.found, "advice": found.advice} for found in findings])
    else:
        for found in findings:
            mark = {"ok": "[green]ok  [/green]", "note": "[yellow]note[/yellow]", "bad": "[red]bad [/red]"}[found.status]
            console().print(mark, end=" ")
            console().print(f"{found.check}: {found.found}", markup=False, soft_wrap=True)
            if found.advice:
                console().print(f"     {found.advice}", markup=False, soft_wrap=True)
    if any(found.status == "bad" for found in findings):
        sys.exit(1)


def _try_connections(as_json: bool) -> None:
    from bellwether.connections import try_connections

    tried = try_connections(settings())
    if as_json:
        emit([asdict(one) for one in tried])
    else:
        colours = {"ok": "green", "not set": "yellow", "refused": "red", "unreachable": "red"}
        for one in tried:
            latency = "" if one.milliseconds is None else f"{one.milliseconds} ms"
            console().print(f"[{colours[one.status]}]{one.status:<11}[/] {latency:>8}", end=" ")
            console().print(f"{one.name}: {one.found}", markup=False, soft_wrap=True)
            if one.is_bad:
                console().print(f"{'':<20} {one.advice}", markup=False, soft_wrap=True)
    if any(one.is_bad for one in tried):
        sys.exit(1)


def _extend(group: click.Group) -> None:
    """Add the commands of installed packages (entry points `bellwether.commands`)."""
    for point in entry_points(group="bellwether.commands"):
        for command in point.load():
            group.add_command(command)


_extend(main)
