"""Commands about the whole installation: demo, ui, worker, doctor, sandbox, backup, restore, home."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from bellwether.console import console, shown
from bellwether.doctor.connections import try_connections
from bellwether.doctor.installation import examine
from bellwether.domains import DOMAINS, resolve_reference
from bellwether.errors import BellwetherError, ConfigError
from bellwether.formatting import visible
from bellwether.settings import Fleet, World, settings
from orchestration.run_session import print_summary, require_success, runner


@click.command()
@click.option("--days", default=90, show_default=True, type=click.IntRange(1, 2000), help="Days to pull, up to the sandbox's present day.")
def demo(days: int) -> None:
    """Run all stages in the sandbox and print the leaderboards.

    Needs no key and no network. Partitions that are up to date are skipped.
    """
    if settings().world is not World.SANDBOX:
        raise ConfigError(
            f"bellwether demo: BELLWETHER_WORLD is {settings().world}; the demo runs in the sandbox. Use `bellwether pull` and `bellwether release` here"
        )
    ends: dict[str, BellwetherError | None] = {}
    stages = {domain.name: domain.demo for domain in DOMAINS if domain.demo}
    with runner() as work:
        with work.progress.stage("demo", len(stages)) as advance:
            for name, run_stage in stages.items():
                work.progress.say(name)
                ends |= resolve_reference(run_stage)(work, days)
                advance(1)
        require_success(ends)
    for domain in DOMAINS:
        if domain.results:
            resolve_reference(domain.results)()
    print_summary(work)


@click.command()
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535), help="Port of the UI.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address of the UI in a fleet. The UI has no login: keep the network private."
)
def ui(port: int, host: str) -> None:
    """Serve Dagster's UI and run its daemon on 127.0.0.1 until interrupted.

    A fleet has one daemon: a second `bellwether ui` on the same Postgres is refused. Runs of workers continue when it stops.
    """
    from orchestration.server import serve

    if host != "127.0.0.1" and settings().fleet is None:
        raise ConfigError("bellwether ui --host: only in a fleet (BELLWETHER_FLEET); the UI has no login")
    code = serve(settings(), port, lambda text: click.echo(visible(text, "\n"), err=True), host)
    if code:
        sys.exit(code)


@click.command()
@click.option("--name", help="Unique name of the worker.  [default: host and process number]")
def worker(name: str | None) -> None:
    """Execute runs of a Celery fleet, two at a time, until interrupted.

    SIGTERM and Ctrl-C finish the current runs. After SIGKILL, other workers retry them.
    """
    from orchestration.fleet import require_settings

    if settings().fleet is not Fleet.CELERY:
        raise ConfigError("bellwether worker: set BELLWETHER_FLEET=celery; on Kubernetes each run is a separate job")
    require_settings(settings())
    from orchestration.worker import work

    sys.exit(work(settings(), name, lambda text: click.echo(text, err=True)))


@click.command()
@click.option("--live", is_flag=True, help="Test every venue and every configured key instead; keys are not shown.")
@click.option("--files", is_flag=True, help="Compare all files of the lake with their checksums instead.")
@click.option(
    "--rebuild",
    is_flag=True,
    help="Rebuild a lost catalog of the lake instead, and list uncommitted files.",
)
@click.option(
    "--backup",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="With --rebuild: folder of a backup to start from instead of the warehouse.",
)
@click.option(
    "--adopt",
    multiple=True,
    metavar="FILE",
    help="With --rebuild: make this uncommitted file (a path in the lake) the current one of its partition; repeatable.",
)
def doctor(*, live: bool, files: bool, rebuild: bool, backup: Path | None, adopt: tuple[str, ...]) -> None:
    """Check the installation and its home; exit with 1 if there is a problem.

    Covers versions, folders, registry, venues, databases and warehouse.

    --live sends one harmless request to Kalshi, its WebSocket, Polymarket's two APIs, and each model provider whose key is set
    (OPENAI_API_KEY, ANTHROPIC_API_KEY, ...; variables such as OPENAI_API_BASE apply).
    """
    if files:
        _verify_files()
        return
    if rebuild:
        _rebuild_catalog(backup, adopt)
        _require_journal()
        return

    findings = try_connections(settings()) if live else examine(settings())
    marks = {"ok": "[green]ok  [/green]", "note": "[yellow]note[/yellow]", "bad": "[red]bad [/red]"}
    for finding in findings:
        console().print(marks[finding.status], end=" ")
        console().print(f"{finding.check}: {finding.found}", markup=False, soft_wrap=True)
        if finding.advice:
            console().print(f"     {finding.advice}", markup=False, soft_wrap=True)
    if any(finding.status == "bad" for finding in findings):
        sys.exit(1)


def _verify_files() -> None:
    """Compare the files of the lake with their checksums and print the damaged ones; exit with 1 if there is one."""
    from bellwether.lake import Lake
    from bellwether.lake.recovery import verify

    with shown() as progress:
        verification = verify(Lake.of(settings()), progress=progress)
    for damage in verification.damaged:
        click.echo(f"{damage.table} {damage.partition}: {visible(damage.reason)}", err=True)
    size = f"{verification.files:,} files, {verification.bytes / 1e6:.1f} MB"
    console().print(f"{size}: {len(verification.damaged) or 'none'} damaged", markup=False)
    if verification.damaged:
        sys.exit(1)


def _rebuild_catalog(backup: Path | None, adopt: tuple[str, ...]) -> None:
    """Rebuild the catalog from the published warehouse, or from a backup, unless it exists, adopt files, and print the uncommitted ones."""
    from bellwether.backup import CATALOG
    from bellwether.lake import Lake, recovery

    config = settings()
    lake = Lake.of(config)
    if not lake.catalog.exists() or not lake.catalog.read():
        source = str(backup / CATALOG) if backup is not None else config.warehouse_uri
        partitions = recovery.read_backup(backup / CATALOG) if backup is not None else recovery.read_publication(lake, source)
        recovery.rebuild(lake, partitions)
        console().print(f"{len(partitions):,} partitions from {source}", markup=False, soft_wrap=True)
    adopted = [manifest.file for manifest in recovery.adopt(lake, adopt)]
    uncommitted = recovery.find_uncommitted(lake)
    for name in adopted:
        console().print(f"adopted {name}", markup=False, soft_wrap=True)
    for manifest in uncommitted:
        text = f"uncommitted {manifest.file}: {manifest.rows:,} rows, run {manifest.run_id}, {manifest.written_at:%Y-%m-%d %H:%M:%S} UTC"
        console().print(text, markup=False, soft_wrap=True)


def _require_journal() -> None:
    """Raise `LakeError` if the journal is missing while the lake has answers of models."""
    from bellwether.journal.journal import Journal

    with Journal.of(settings()) as journal:
        if not journal.exists():
            journal.require_no_answers()


@click.command()
@click.option("--port", default=8321, show_default=True, type=click.IntRange(0, 65535), help="Port on 127.0.0.1; 0: a free one.")
def sandbox(port: int) -> None:
    """Serve the sandbox's venues and models on 127.0.0.1 until interrupted, for a browser or your own client.

    Its clock runs at BELLWETHER_SANDBOX_SPEED.
    """
    from bellwether.sandbox.app import build_application
    from bellwether.sandbox.server import serve

    app = build_application(settings().model_copy(update={"world": World.SANDBOX}), running=True)
    with serve(app, port=port) as site:
        for service in ("kalshi", "kalshi_stream", "gamma", "clob", "models"):
            console().print(f"{service:<14} {getattr(site, service)}", soft_wrap=True)
        console().print(f"Try {site.kalshi}/events?status=settled&limit=1; Ctrl-C ends it", soft_wrap=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            console().print("stopped")


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def backup(folder: Path) -> None:
    """Back up this world into a new folder below FOLDER, and remove older backups.

    The 7 newest stay, and the last of each of 5 weeks and 12 months.

    A backup has lake, journal, registry, submissions, recordings, episodes and trajectories; other commands may run meanwhile.
    Reports, datasets, site and warehouse are left out: they can be rebuilt.
    """
    from bellwether.backup import BackupManifest, prune
    from bellwether.backup import backup as back_up

    config = settings()
    created = back_up(config, folder, at=datetime.now(UTC))
    removed = prune(config, folder)
    count = len(BackupManifest.read(created).files)
    console().print(
        f"{created}: {count:,} files{f', {len(removed)} older backups removed' if removed else ''}", markup=False, soft_wrap=True
    )


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def restore(folder: Path) -> None:
    """Restore the backup FOLDER into the home of this world, which must be empty.

    Checksums are verified before anything is written. After an interruption, remove the home and restore again.
    """
    from bellwether.backup import REGISTRY, BackupManifest, registry_path
    from bellwether.backup import restore as restored

    config = settings()
    manifest: BackupManifest = restored(config, folder)
    console().print(f"{len(manifest.files):,} files of {manifest.made_at} restored into {config.world_home}", markup=False, soft_wrap=True)
    if (folder / REGISTRY).is_dir() and config.registry is None:
        console().print(f"The backup has a registry: set BELLWETHER_REGISTRY={registry_path(config)}.", markup=False, soft_wrap=True)
    console().print("`bellwether warehouse` publishes the warehouse.")
