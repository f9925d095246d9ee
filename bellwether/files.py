"""Atomic writes and locks: files and folders that appear whole or not at all, made under another name beside their place, then renamed."""

from __future__ import annotations

import errno
import fcntl
import gzip
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from bellwether.errors import BellwetherError

if TYPE_CHECKING:
    from bellwether.settings import Settings

#: Storage classes of version 0.2, which `dagster.yaml` named.
_FORMER_CLASSES = re.compile(r"module: orchestration\.(event_log|run_storage|schedule_storage|compute_logs)\b")
_DRAFT = re.compile(r"\.(?P<target>.+)\.(tmp|old)-[0-9a-f]{8}")


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file of bytes, decompressed if its name ends in .gz."""
    return cast(IO[bytes], gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb")


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

    Folders that killed processes left next to `target` are removed first. Raises `BellwetherError` when it cannot be written.
    """
    with _writing(target), ExitStack() as stack:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target.parent)
        draft = stack.enter_context(_draft_folder(target))
        yield draft
        old = target.with_name(draft.name.replace(".tmp-", ".old-"))
        if target.exists():
            os.rename(target, old)
        try:
            os.rename(draft, target)
        except BaseException:
            if old.exists():
                os.rename(old, target)
            raise
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _draft_folder(target: Path) -> Iterator[Path]:
    """A new folder, locked as long as the block lasts and removed with it, unless it was renamed."""
    while True:
        draft = target.with_name(f".{target.name}.tmp-{secrets.token_hex(4)}")
        draft.mkdir()
        with suppress(FileNotFoundError):  # another process may take it for abandoned before it is locked
            handle = os.open(draft, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if draft.exists():
                break
            os.close(handle)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        os.close(handle)


def _remove_abandoned(parent: Path) -> None:
    """Remove drafts that no process has locked; a target that its owner had moved away, but not replaced, is moved back."""
    for draft in parent.glob(".*.tmp-*"):
        if _DRAFT.fullmatch(draft.name) and not _is_locked(draft):
            shutil.rmtree(draft, ignore_errors=True)
    for old in parent.glob(".*.old-*"):
        found = _DRAFT.fullmatch(old.name)
        if found and not old.with_name(old.name.replace(".old-", ".tmp-")).exists():
            target = parent / found["target"]
            shutil.rmtree(old, ignore_errors=True) if target.exists() else os.rename(old, target)


def _is_locked(folder: Path) -> bool:
    """Return whether a process works in `folder`, or it was removed meanwhile."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        return not try_lock(handle)
    finally:
        os.close(handle)


def home_error(error: OSError) -> str | None:
    """Return the message for a home that cannot be used; None for errors elsewhere."""
    from bellwether.settings import settings

    home, name = str(settings().home.expanduser().absolute()), str(error.filename or "")
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) and not name.startswith(home):
        return None
    where = name or home
    return f"using {where}: {error.strerror}. Free space, make the folder writable, or set BELLWETHER_HOME to another place; then run again"


def is_former(home: Path) -> bool:
    """Return whether a Dagster home was created by version 0.2: its dagster.yaml names classes of that version, or was deleted."""
    file = home / "dagster.yaml"
    if file.is_file():
        return _FORMER_CLASSES.search(file.read_text(errors="replace")) is not None
    return (home / "history" / "runs" / "index.db").is_file() and not (home / "event_log.db").is_file()


def require_whole_home(config: Settings) -> None:
    """Raise `BellwetherError` while the restoration of a backup into the home is unfinished."""
    if config.restoring_path.exists():
        name = config.restoring_path.read_text(encoding="utf-8").partition("\n")[0]
        raise BellwetherError(
            f"opening {config.world_home}: the restoration of {name} into it was interrupted; `bellwether restore` of the same backup finishes it"
        )


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
