"""Commands about a whole home: demo, ui, worker, doctor, sandbox, backup, restore, home."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from bellwether.console import console, emit
from bellwether.doctor import examine, try_connections
from bellwether.domains import load_domains, resolve_reference
from bellwether.errors import BellwetherError, ConfigError
from bellwether.settings import Fleet, World, settings
from bellwether.untrusted_text import visible
from cli.options import AS_JSON
from orchestration.run_session import print_summary, require_success, runner

#: Measured seconds of the demo's stages in an empty home, on a machine with two cores.
_DEMO_SECONDS = {"venues": 40.0, "benchmark": 25.0, "replay": 30.0, "arena": 20.0, "warehouse": 15.0}


@click.command()
@click.option("--days", default=90, show_default=True, type=click.IntRange(1, 2000), help="Days to pull, up to the sandbox's present.")
@AS_JSON
def demo(days: int, as_json: bool) -> None:
    """Run everything in the sandbox: pull, clean, check, ask, score, rank, replay recorded markets, publish.

    Needs no key and no network, and skips partitions that are up to date. Ends with the leaderboards and the results of agents.
    """
    if settings().world is not World.SANDBOX:
        raise ConfigError(
            f"bellwether demo: BELLWETHER_WORLD is {settings().world}; the demo runs in the sandbox. Use `bellwether run` here"
        )
    ends: dict[str, BellwetherError | None] = {}
    stages = {domain.name: domain.demo for domain in load_domains() if domain.demo}
    with runner() as work:
        with work.progress.plan({name: _DEMO_SECONDS.get(name, 10.0) for name in stages}) as begin:
            for name, part in stages.items():
                begin(name)
                ends |= resolve_reference(part)(work, days)
        require_success(ends)
    results = [resolve_reference(domain.results)(as_json) for domain in load_domains() if domain.results]
    print_summary(work, as_json, results={name: value for found in results for name, value in found.items()})


@click.command()
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535), help="Port of the UI.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address of the UI in a fleet. It has no login: keep the network private."
)
def ui(port: int, host: str) -> None:
    """Serve Dagster's UI and run its daemon (schedules, sensors, backfills) on 127.0.0.1 until interrupted.

    In a fleet exactly one daemon runs: a second `bellwether ui` with the same Postgres is refused. Stopping it leaves the workers' runs alone.
    """
    from orchestration.server import serve

    if host != "127.0.0.1" and settings().fleet is None:
        raise ConfigError("bellwether ui --host: only in a fleet (BELLWETHER_FLEET); the UI has no login")
    code = serve(settings(), port, lambda text: click.echo(visible(text, "\n"), err=True), host)
    if code:
        sys.exit(code)


@click.command()
@click.option("--name", help="Name of the worker, unique in the fleet; host and process number when left out.")
def worker(name: str | None) -> None:
    """Execute runs of a Celery fleet, two at a time, until interrupted (docs/operating.md).

    SIGTERM and Ctrl-C finish the current runs and take no more. After SIGKILL the daemon retries them on other workers.
    """
    from orchestration.fleet import require_settings

    if settings().fleet is not Fleet.CELERY:
        raise ConfigError("bellwether worker: set BELLWETHER_FLEET=celery; on Kubernetes each run is a job of its own")
    require_settings(settings())
    from orchestration.worker import work

    sys.exit(work(settings(), name, lambda text: click.echo(text, err=True)))


@click.command()
@click.option("--live", is_flag=True, help="Try every venue and every configured key once instead; no key is shown.")
@AS_JSON
def doctor(live: bool, as_json: bool) -> None:
    """Check versions, folders, registry, venue and warehouse, and say how to fix what is wrong. Exits 1 if something is.

    With --live it makes one harmless call to Kalshi, its WebSocket, Polymarket's two interfaces, and each provider of models whose key is set
    (OPENAI_API_KEY, ANTHROPIC_API_KEY, ...; OPENAI_API_BASE and its like are honoured).
    """
    if live:
        _try_connections(as_json)
        return

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


@click.command()
@click.option("--port", default=8321, show_default=True, type=click.IntRange(0, 65535), help="Port on 127.0.0.1; 0 takes a free one.")
@click.option("--seed", type=int, help="Seed of the generated world; BELLWETHER_SANDBOX_SEED when left out.")
@click.option(
    "--playback", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Serve recorded bodies from this folder instead."
)
@click.option("--faults", help="Faults on demand, such as status=0.1,cut=0.05; BELLWETHER_SANDBOX_FAULTS when left out.")
@click.option("--run/--stand", default=False, show_default=True, help="Let its clock run at BELLWETHER_SANDBOX_SPEED.")
def sandbox(port: int, seed: int | None, playback: Path | None, faults: str | None, run: bool) -> None:
    """Serve the sandbox on 127.0.0.1 until interrupted, to look at it with a browser or a client of your own."""
    from bellwether.sandbox.server import serve
    from bellwether.sandbox.worlds import build_application

    chosen: dict[str, Any] = {"world": World.SANDBOX if playback is None else World.PLAYBACK, "playback": playback}
    if seed is not None:
        chosen["sandbox_seed"] = seed
    if faults is not None:
        chosen["sandbox_faults"] = faults
    app = build_application(settings().model_copy(update=chosen), running=run)
    with serve(app, port=port) as site:
        for service in ("kalshi", "kalshi_stream", "gamma", "clob", "models", "control"):
            console().print(f"{service:<14} {getattr(site, service)}", soft_wrap=True)
        console().print(f"Try {site.kalshi}/events?status=settled&limit=1; Ctrl-C ends it", soft_wrap=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            console().print("stopped")


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--newest", default=7, show_default=True, type=click.IntRange(min=1), help="Keep so many of the newest backups.")
@click.option("--weeks", default=5, show_default=True, type=click.IntRange(min=0), help="Keep the last of each of so many weeks.")
@click.option("--months", default=12, show_default=True, type=click.IntRange(min=0), help="Keep the last of each of so many months.")
@AS_JSON
def backup(folder: Path, newest: int, weeks: int, months: int, *, as_json: bool) -> None:
    """Back up this world into a folder of its own below FOLDER, and remove older backups by tiers.

    Copied are lake, journal, registry, submissions, recordings, episodes, trajectories and evaluations; nothing needs to stop meanwhile.
    Reports, datasets, site, warehouse and tapes are left out: they are rebuilt from these.
    """
    from bellwether.backup.backup import backup as back_up
    from bellwether.backup.backup import prune
    from bellwether.backup.manifest import Manifest

    config = settings()
    made = back_up(config, folder, at=datetime.now(UTC))
    gone = prune(config, folder, newest=newest, weeks=weeks, months=months)
    count = len(Manifest.read(made).files)
    if as_json:
        emit({"backup": str(made), "files": count, "removed": [str(path) for path in gone]})
        return
    console().print(f"{made}: {count:,} files{f', {len(gone)} older backups removed' if gone else ''}", markup=False, soft_wrap=True)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@AS_JSON
def restore(folder: Path, *, as_json: bool) -> None:
    """Restore the backup FOLDER into the home of this world, which must be empty.

    Checksums are compared before anything is written. An interrupted restoration is continued by the same command.
    """
    from bellwether.backup.manifest import Manifest
    from bellwether.backup.restore import REGISTRY, registry_path
    from bellwether.backup.restore import restore as restored

    config = settings()
    manifest: Manifest = restored(config, folder)
    if as_json:
        emit({"restored": manifest.made_at, "files": len(manifest.files), "home": str(config.world_home)})
        return
    console().print(f"{len(manifest.files):,} files of {manifest.made_at} restored into {config.world_home}", markup=False, soft_wrap=True)
    if (folder / REGISTRY).is_dir() and config.registry is None:
        console().print(f"Set BELLWETHER_REGISTRY={registry_path(config)}: the backup has a registry.", markup=False, soft_wrap=True)
    console().print("`bellwether warehouse` publishes the warehouse.")


@click.group()
def home() -> None:
    """Convert the Dagster home of an earlier version."""


@home.command()
def convert() -> None:
    """Give a Dagster home of version 0.2 Dagster's own storage.

    Lake, journal and results are not touched, and nothing is materialized again. Schedules and sensors stay switched on or off.
    The list of earlier runs is not converted; its files are kept next to the new home.
    """
    from orchestration.home import convert as convert_home

    kept = convert_home(settings())
    if kept is None:
        click.echo("Nothing to convert: the Dagster home has Dagster's own storage.")
    else:
        click.echo(f"Converted. The former home, with the history of its runs, is in {kept}; delete it when you no longer need it.")
