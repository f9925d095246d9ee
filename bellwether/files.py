"""Atomic writes and locks: files and folders that appear whole or not at all, made under another name beside their place, then renamed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bellwether.errors import BellwetherError


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """A path beside `target` to write to; it takes the place of `target` when the block ends, and is gone when the block fails.

    Raises `BellwetherError` when it cannot be written.
    """
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    with _writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield draft
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """A folder beside `target` that takes its place when the block ends; nothing is left of it when the block fails.

    Raises `BellwetherError` when it cannot be written.
    """
    token = secrets.token_hex(4)
    draft, old = (target.with_name(f".{target.name}.{kind}-{token}") for kind in ("tmp", "old"))
    with _writing(target):
        try:
            draft.mkdir(parents=True)
            yield draft
            if target.exists():
                os.rename(target, old)
            os.rename(draft, target)
        finally:
            if old.exists() and not target.exists():
                os.rename(old, target)
            for rest in (draft, old):
                shutil.rmtree(rest, ignore_errors=True)


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_durably(path: Path, data: bytes) -> None:
    """Write a small file atomically, so that it survives a loss of power. Raises `OSError`."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a loss of power. Raises `OSError`."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def try_lock(file: IO[str] | IO[bytes] | int, *, shared: bool = False) -> bool:
    """Take the lock of an open file, which is free again when it is closed or the process ends; False while another process holds it.

    shared: others may take it so, too.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the file at `path`, which is made if it lacks, with its folder; waits for it. Raises `BellwetherError` when it cannot be made."""
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BellwetherError(
            f"writing {target}: it cannot be written ({error.strerror or error}); free space or name another place"
        ) from None
