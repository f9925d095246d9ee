"""`bellwether backup` and `bellwether restore`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from bellwether.console import AS_JSON, console, emit
from bellwether.settings import settings


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
