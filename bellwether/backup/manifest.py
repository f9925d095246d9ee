"""Manifest of a backup: format, world, time, and the checksum of each file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from bellwether.errors import BellwetherError
from bellwether.files import checksum

FILE = "backup.json"
#: Version of the layout of backups. Others are refused.
FORMAT = 3
PREFIX = "bellwether-"
_STAMP = "%Y%m%dT%H%M%SZ"


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
