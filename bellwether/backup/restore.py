"""Restoring a backup into a home that has nothing yet."""

from __future__ import annotations

import shutil
from pathlib import Path

from bellwether.backup.backup import JOURNAL, LAKE, REGISTRY, SUBMISSIONS, journal_path, lake_folder
from bellwether.backup.manifest import Manifest, files
from bellwether.errors import BellwetherError
from bellwether.lake.storage import open_storage
from bellwether.settings import Settings


def restore(config: Settings, folder: Path) -> Manifest:
    """Restore the backup in `folder`; every file is compared with its checksum before the first is written.

    Raises `BellwetherError` for a backup of another format or world, or one that is damaged, and where the home has a lake, a journal, submissions or
    a registry already: nothing is overwritten.
    """
    manifest = Manifest.read(folder)
    if manifest.world != config.world.value:
        raise BellwetherError(
            f"restoring {folder}: it is of the world {manifest.world}, and BELLWETHER_WORLD is {config.world.value}; set the world of the backup"
        )
    journal, storage, registry = journal_path(config), open_storage(lake_folder(config)), registry_path(config)
    living = {
        f"the lake {config.lake_uri}": bool(storage.files("")),
        f"the journal {journal}": journal.exists(),
        f"submissions in {config.submissions}": config.submissions.is_dir() and any(config.submissions.glob("*.parquet")),
        f"the registry {registry}": (folder / REGISTRY).is_dir() and registry.is_dir() and any(registry.iterdir()),
    }
    for what, is_there in living.items():
        if is_there:
            raise BellwetherError(f"restoring {folder}: there is {what} already; restore into an empty BELLWETHER_HOME")
    manifest.verify(folder)
    # The journal is last: without it a home whose restoration was interrupted is recognised by its lake.
    for name, path in sorted(files(folder).items()):
        if name.startswith(f"{LAKE}/"):
            storage.put(name.removeprefix(f"{LAKE}/"), path.read_bytes())
    for name, target in ((REGISTRY, registry), (SUBMISSIONS, config.submissions)):
        if (folder / name).is_dir():
            shutil.copytree(folder / name, target, dirs_exist_ok=True)
    if (folder / JOURNAL).is_file():
        journal.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / JOURNAL, journal)
    return manifest


def registry_path(config: Settings) -> Path:
    """Where the registry is restored: BELLWETHER_REGISTRY, or `registry` in the world's home where that is not set."""
    return config.registry or config.world_home / REGISTRY
