"""Backup of a world, which may be running, into one folder with checksums, and restoration into an empty home (`BELLWETHER_HOME`).

A backup has the lake, the journal, and folders that cannot be rebuilt from them.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from bellwether import __version__
from bellwether.database import DatabaseSchema, convert_driver_error, open_read_only, parse_url, verify_file
from bellwether.errors import BellwetherError, ConfigError
from bellwether.files import atomic_file, atomic_folder, checksum, require_whole_home, writing
from bellwether.journal.journal import Journal, require_no_answers
from bellwether.journal.tables import SCHEMA as JOURNAL_SCHEMA
from bellwether.lake import Lake
from bellwether.lake.catalog import SCHEMA as CATALOG_SCHEMA
from bellwether.lake.storage import TEMPORARY
from bellwether.places import is_stored
from bellwether.recordings.recording import DONE, LOCK
from bellwether.settings import Settings
from bellwether.tables import TABLES

FILE = "backup.json"
#: Version of the layout of backups. Others are refused.
FORMAT = 3
PREFIX = "bellwether-"
_STAMP = "%Y%m%dT%H%M%SZ"
LAKE, CATALOG, JOURNAL, REGISTRY, RECORDINGS = "lake", "lake.catalog.db", "journal.db", "registry", "recordings"
#: Newest backups that are kept, and for how many weeks (ISO) and months the last one is.
RETAINED, RETAINED_PERIODS = 7, {"%G %V": 5, "%Y %m": 12}


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """Contents of a backup, and the version of Bellwether that made it.

    format: version of the layout. version: of Bellwether. files: SHA-256 by path below the backup, without the manifest.
    """

    format: int
    version: str
    world: str
    made_at: str
    files: dict[str, str]

    def write(self, folder: Path) -> None:
        """Write the manifest into the folder of the backup."""
        (folder / FILE).write_text(json.dumps(asdict(self), indent=1, sort_keys=True), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> BackupManifest:
        """Read the manifest of the backup in `folder`. Raises `BellwetherError` for a missing or invalid manifest, or one of another format."""
        try:
            fields = json.loads((folder / FILE).read_text(encoding="utf-8"))
            manifest = cls(**fields) if fields.get("format") == FORMAT else None
        except FileNotFoundError:
            raise BellwetherError(f"restoring {folder}: it contains no {FILE}; name the folder of one backup") from None
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise BellwetherError(f"restoring {folder}: {FILE} cannot be read ({error}); use another backup") from None
        if manifest is None:
            raise BellwetherError(
                f"restoring {folder}: it has format {fields.get('format')!r} of Bellwether {fields.get('version')}, and this version "
                f"restores format {FORMAT}; restore it with the version that made it"
            )
        return manifest

    def verify(self, folder: Path) -> None:
        """Raise `BellwetherError` unless `folder` contains exactly the listed files, unchanged, and no symbolic links or special files."""
        odd = [path for path in folder.rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())]
        if odd:
            name = min(path.relative_to(folder).as_posix() for path in odd)
            raise BellwetherError(f"restoring {folder}: {name} is neither a file nor a folder; use another backup")
        present = list_files(folder)
        for name in sorted(self.files.keys() - present.keys()):
            raise BellwetherError(f"restoring {folder}: {name} is missing; use another backup")
        for name in sorted(present.keys() - self.files.keys()):
            raise BellwetherError(f"restoring {folder}: {name} is not part of the backup; remove it")
        for name, expected in sorted(self.files.items()):
            if checksum(present[name]) != expected:
                raise BellwetherError(f"restoring {folder}: {name} has changed since the backup (SHA-256 differs); use another backup")


def list_files(folder: Path) -> dict[str, Path]:
    """Return all files of a backup except the manifest, by path below the folder."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    paths.pop(FILE, None)
    return paths


def backup_name(world: str, at: datetime) -> str:
    """Return the folder name of a backup of `world` made at the time `at`."""
    return f"{PREFIX}{world}-{at.astimezone(UTC).strftime(_STAMP)}"


def backup_time(name: str, world: str) -> datetime | None:
    """Return the time of a backup from its folder name; None if the name is not that of a backup of `world`."""
    stamp = name.removeprefix(f"{PREFIX}{world}-")
    try:
        return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC) if stamp != name else None
    except ValueError:
        return None


def folders(config: Settings) -> dict[str, Path]:
    """Return the folders copied file by file, by name in the backup. The user's registry is one of them if it is set.

    Raises `ConfigError` for a folder in an object store.
    """
    copied = {
        "submissions": config.submissions_path,
        RECORDINGS: config.recordings_path,
        "episodes": config.episodes_path,
        "trajectories": config.trajectories_path,
    }
    for name, place in copied.items():
        if is_stored(place):
            raise ConfigError(
                f"backing up: the {name} are in {place}; back them up with the tools of that storage, such as versions of objects"
            )
    return copied if config.registry is None else {REGISTRY: config.registry, **copied}


def backup(config: Settings, target: Path, *, at: datetime) -> Path:
    """Copy a world into a new folder below `target`, which appears only when complete. Returns this folder.

    The lake is copied before the journal, so that the journal has every call that the lake refers to. Data written meanwhile may be missing, but no
    file is partial; a recording in progress is copied as an interrupted one.

    Raises `ConfigError` for a journal in PostgreSQL and for object stores, which have their own backups. Raises `BellwetherError` for a home that is
    missing or partly restored, for a damaged lake or journal, and for a lake with answers of models but no journal.
    """
    lake_folder(config)
    journal, lake, copied = journal_path(config), Lake.of(config), folders(config)
    require_whole_home(config)
    if not (journal.is_file() and journal.stat().st_size):
        require_no_answers(config, str(journal))
    if not config.world_home.is_dir():
        raise BellwetherError(
            f"backing up: {config.world_home} does not exist; set BELLWETHER_HOME and BELLWETHER_WORLD to those of the data"
        )
    folder = target / backup_name(config.world.value, at)
    if folder.exists():
        raise BellwetherError(f"backing up into {folder}: a backup of this second exists; try again")
    with atomic_folder(folder, FILE) as draft:
        _copy_lake(lake, draft / LAKE)
        if journal.is_file():
            doing = f"backing up the journal {journal}"
            _copy_sqlite(journal, draft / JOURNAL, JOURNAL_SCHEMA, doing)
            with Journal(f"sqlite:///{quote(str(draft / JOURNAL))}") as copied_journal:
                copied_journal.verify()
        for name, source in copied.items():
            if name == RECORDINGS:
                _copy_recordings(source, draft / name)
            elif source.is_dir():
                shutil.copytree(source, draft / name, ignore=shutil.ignore_patterns(".*"))
        checksums = {name: checksum(path) for name, path in list_files(draft).items()}
        BackupManifest(FORMAT, __version__, config.world.value, at.astimezone(UTC).isoformat(), checksums).write(draft)
    return folder


def prune(config: Settings, target: Path) -> list[Path]:
    """Delete the expired backups of the world (see `select_expired`) below `target`. Returns their folders."""
    backups = {at: path for path in target.iterdir() if path.is_dir() and (at := backup_time(path.name, config.world.value)) is not None}
    expired = [backups[at] for at in select_expired(backups)]
    for path in expired:
        shutil.rmtree(path)
    return expired


def journal_path(config: Settings) -> Path:
    """Return the file of the journal. Raises `ConfigError` for a journal in Postgres, which has backups of its own."""
    url = parse_url(config.journal_url, JOURNAL_SCHEMA.setting)
    if url.get_backend_name() != "sqlite":
        raise ConfigError("backing up: the journal is in PostgreSQL; back it up with pg_dump, and its lake with the tools of its storage")
    return Path(url.database or "").absolute()


def lake_folder(config: Settings) -> str:
    """Return the folder of the lake. Raises `ConfigError` for a lake in an object store, which has backups of its own."""
    if "://" in config.lake_uri:
        raise ConfigError(
            f"backing up: the lake is in {config.lake_uri}; back it up with the tools of its storage, such as versions of objects"
        )
    return config.lake_uri


def _copy_lake(source: Lake, target: Path) -> None:
    """Copy the catalog, then the files that it names and the pages of venues. Raises `BellwetherError` if a copied file is damaged."""
    target.mkdir()
    if source.catalog.path is not None and source.catalog.exists():
        copied_catalog, doing = target.with_name(CATALOG), f"backing up the catalog {source.catalog.where}"
        _copy_sqlite(source.catalog.path, copied_catalog, CATALOG_SCHEMA, doing)
    copied = Lake(str(target), catalog=target.with_name(CATALOG))
    for manifest in copied.catalog.read():
        if manifest.file:
            _copy_file(source, manifest.file, target)
            copied.verify(manifest)
    for entry in source.storage.files(""):
        if TEMPORARY not in entry.name and "/".join(entry.name.split("/")[:2]) not in TABLES:
            _copy_file(source, entry.name, target)


def _copy_file(source: Lake, name: str, target: Path) -> None:
    """Copy a file of the lake unless it was deleted meanwhile."""
    place = target / name
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        source.storage.download(name, place)
    except FileNotFoundError:
        place.unlink(missing_ok=True)


def _copy_recordings(source: Path, target: Path) -> None:
    """Copy all recordings. A recording still in progress is copied as an interrupted one, without its mark of completion."""
    for folder in sorted(path for path in source.glob("[!.]*") if path.is_dir()):
        unfinished = () if (folder / DONE).exists() else (DONE,)
        shutil.copytree(folder, target / folder.name, ignore=shutil.ignore_patterns(".*", LOCK, *unfinished))


def _copy_sqlite(source: Path, target: Path, schema: DatabaseSchema, doing: str) -> None:
    """Copy an SQLite file while it is in use, by SQLite's online backup, and verify the copy, which only its owner can read. doing: for errors."""
    target.touch(mode=0o600)
    try:
        with open_read_only(source) as database, closing(sqlite3.connect(target)) as copy:
            database.backup(copy)
    except sqlite3.Error as error:
        raise convert_driver_error(doing, error, schema.setting, repair=schema.repair) from None
    verify_file(target, schema, doing, immutable=True)


def select_expired(times: Iterable[datetime]) -> list[datetime]:
    """Return the times (UTC) of the backups to delete, oldest first.

    times: of all backups. Those of `RETAINED` stay, and of each of `RETAINED_PERIODS` the last one, for the latest periods with a backup.
    """
    ordered = sorted(set(times), reverse=True)
    retained = set(ordered[:RETAINED])
    for format_period, most in RETAINED_PERIODS.items():
        last: dict[str, datetime] = {}
        for at in ordered:
            last.setdefault(at.strftime(format_period), at)
        retained |= set(list(last.values())[:most])
    return sorted(set(ordered) - retained)


def restore(config: Settings, folder: Path) -> BackupManifest:
    """Restore the backup in `folder`. No file is written before all checksums are verified. Returns the backup's manifest.

    Raises `BellwetherError` for a backup of another format or world, one that is damaged or contains symbolic links, and a home with data,
    also one from an interrupted restoration: nothing is overwritten.
    """
    manifest = BackupManifest.read(folder)
    if manifest.world != config.world.value:
        raise BellwetherError(
            f"restoring {folder}: it is of the world {manifest.world}, and BELLWETHER_WORLD is {config.world.value}; set the world of the backup"
        )
    places = {LAKE: Path(lake_folder(config)), REGISTRY: registry_path(config), **folders(config)}
    marker, files = config.restoring_path, {JOURNAL: journal_path(config), CATALOG: Path(config.catalog)}
    needed = {name: place for name, place in places.items() if name != REGISTRY or (folder / REGISTRY).is_dir()}
    _require_empty(needed, files, folder)
    manifest.verify(folder)
    with atomic_file(marker) as draft:
        draft.write_text(folder.name, encoding="utf-8")
    # The journal comes last: commands that find none next to stored answers refuse to call models.
    for name in sorted(manifest.files, key=lambda name: (name == JOURNAL, name)):
        part, _, rest = name.partition("/")
        _copy(folder / name, places[part] / rest if rest else files[name])
    marker.unlink()
    return manifest


def registry_path(config: Settings) -> Path:
    """Return the folder into which a registry is restored: BELLWETHER_REGISTRY, or by default `registry` in the world's home."""
    return config.registry or config.world_home / REGISTRY


def _require_empty(places: dict[str, Path], files: dict[str, Path], folder: Path) -> None:
    """Raise `BellwetherError` if one of the places or files already exists."""
    present = [
        f"{name} in {place}" for name, place in places.items() if place.is_dir() and any(path.is_file() for path in place.rglob("*"))
    ]
    present += [f"{name} at {file}" for name, file in files.items() if file.exists()]
    if present:
        raise BellwetherError(f"restoring {folder}: there is already {present[0]}; restore into an empty BELLWETHER_HOME")


def _copy(source: Path, target: Path) -> None:
    """Copy one file atomically. A journal can be read by its owner only."""
    draft = target.with_name(f".{target.name}.restored")
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.touch(mode=0o600 if source.name == JOURNAL else 0o666)
        shutil.copyfile(source, draft)
        os.replace(draft, target)
