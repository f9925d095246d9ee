"""The recordings below a folder."""

from __future__ import annotations

from pathlib import Path

from bellwether.errors import ConfigError
from bellwether.recordings.recording import ABOUT, Recording, check_name


def list_recordings(root: Path) -> list[Recording]:
    """Every recording below `root` by name; none where there is no such folder."""
    if not root.is_dir():
        return []
    return [Recording(folder) for folder in sorted(root.iterdir()) if not folder.name.startswith(".") and (folder / ABOUT).is_file()]


def find_recording(root: Path, name: str) -> Recording:
    """The recording of this name. Raises `ConfigError` naming those there are."""
    if not (root / check_name(name) / ABOUT).is_file():
        known = ", ".join(recording.name for recording in list_recordings(root)) or "none"
        raise ConfigError(f"looking for the recording {name!r}: below {root} there are {known}")
    return Recording(root / name)
