"""Recordings below a folder, local or in an object store. An object store contains only finished recordings."""

from __future__ import annotations

import shutil
from pathlib import Path

from bellwether.errors import ConfigError
from bellwether.files import create, folders, upload
from bellwether.places import is_stored
from bellwether.recordings.recording import ABOUT, DONE, LOCK, Recording, RecordingStatus, check_name


def list_recordings(root: Path) -> list[Recording]:
    """Return all recordings below `root`, sorted by name. Empty if the folder does not exist."""
    return [Recording(folder, version) for folder, version in folders(root, _marker(root)).items()]


def find_recording(root: Path, name: str) -> Recording:
    """Return the recording of this name. Raises `ConfigError` with the existing names if it does not exist."""
    if not (root / check_name(name) / _marker(root)).is_file():
        names = ", ".join(recording.name for recording in list_recordings(root)) or "none"
        raise ConfigError(f"looking for the recording {name!r}: below {root} there are {names}")
    return Recording(root / name)


def store_finished(local: Path, root: Path) -> list[Recording]:
    """Move the finished recordings below the folder `local` to the object store `root`, and return them. No effect if `root` is local."""
    if not is_stored(root):
        return []
    moved = []
    for recording in list_recordings(local):
        if recording.status is RecordingStatus.FINISHED:
            moved.append(store_recording(recording.folder, root / recording.name))
            shutil.rmtree(recording.folder)
    return moved


def store_recording(folder: Path, target: Path) -> Recording:
    """Upload a finished recording to the folder `target`. An identical one there is kept; a different one raises `ConfigError`."""
    about = (folder / ABOUT).read_bytes()
    if not create(target / ABOUT, about) and (target / ABOUT).read_bytes() != about:
        raise ConfigError(
            f"storing the recording {folder.name}: {target} is a different recording of the same name; rename {folder}, then `bellwether recordings store`"
        )
    (folder / LOCK).unlink(missing_ok=True)
    upload(folder, target, DONE)
    return Recording(target)


def _marker(root: Path) -> str:
    return DONE if is_stored(root) else ABOUT
