"""Atomic writes, copies and locks of files outside the lake: a file or folder appears complete or not at all.

Local files are written under another name and renamed. On an object store, a folder is built locally and uploaded; its marker, which readers require, comes last.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import hashlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from bellwether.errors import BellwetherError
from bellwether.places import failures, filesystem, is_conflict, is_stored, place

if TYPE_CHECKING:
    from bellwether.settings import Settings

#: Storage classes of version 0.2, which `dagster.yaml` named.
_FORMER_CLASSES = re.compile(r"module: orchestration\.(event_log|run_storage|schedule_storage|compute_logs)\b")
#: Seconds for which an unused copy of a stored folder is kept, and attempts to copy one that is being replaced.
_KEEP_COPY, _ATTEMPTS = 7 * 86_400, 6
#: Bytes of a SHA-256.
_CHECKSUM = 32
_DRAFT = re.compile(r"\.(?P<target>.+)\.(tmp|old)-[0-9a-f]{8}")


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file of bytes, decompressed if its name ends in .gz."""
    return cast(IO[bytes], gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb")


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """Yield a local path that replaces `target` at the end of the block, and is removed if the block fails.

    Raises `BellwetherError` when it cannot be written.
    """
    if is_stored(target):
        with writing(target), tempfile.TemporaryDirectory(prefix="bellwether-") as folder:
            yield (made := Path(folder, target.name))
            fs, key = filesystem(target)
            fs.put_file(str(made), key)
        return
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield draft
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)


def create(target: Path, data: bytes = b"") -> bool:
    """Store a new file; False if it exists already. Raises `BellwetherError` when it cannot be written."""
    if is_stored(target):
        return _put_if(target, data, mode="create")
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("xb") as file:
                file.write(data)
        except FileExistsError:
            return False
    return True


def _put_if(target: Path, data: bytes, **condition: str) -> bool:
    """Store an object on a condition; False if it does not hold."""
    fs, key = filesystem(target)
    with writing(target):
        try:
            fs.pipe_file(key, data, **condition)
        except OSError as error:
            if not is_conflict(error):
                raise
            return False
    return True


def version(path: Path) -> str | None:
    """Return the ETag of a stored file; None if it does not exist. Raises `BellwetherError` if the store does not answer."""
    fs, key = filesystem(path)
    try:
        return cast(str, fs.info(key).get("ETag", ""))
    except FileNotFoundError:
        return None
    except failures() as error:
        raise BellwetherError(f"reading {path}: {error}; run again when the store answers") from error


def replace_version(path: Path, data: bytes, known: str | None) -> bool:
    """Replace a stored file if it still has the version `known`; False if another process has replaced it."""
    if known is None:
        return create(path, data)
    return _put_if(path, data, **({"IfMatch": known} if known else {}))


@contextmanager
def atomic_folder(target: Path, marker: str) -> Iterator[Path]:
    """Yield a local folder that replaces `target` at the end of the block, and is removed if the block fails.

    marker: the file in it that readers require; see `upload`. Folders that killed processes left next to a local `target` are removed first.
    Raises `BellwetherError` when it cannot be written.
    """
    if is_stored(target):
        with writing(target), tempfile.TemporaryDirectory(prefix="bellwether-") as name:
            yield (made := Path(name))
            upload(made, target, marker)
        return
    with writing(target), ExitStack() as stack:
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


def upload(folder: Path, target: Path, marker: str) -> None:
    """Upload a local folder to replace `target`; unchanged files are skipped.

    Where other files change, the marker is removed first and stored last: a reader who requires it finds a whole folder or none.
    """
    stored = _stored(target)
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    changed = [name for name, path in files.items() if name != marker and not _is_same(path, stored.get(name))]
    gone = [name for name in stored if name not in files]
    fs, root = filesystem(target)
    if marker in stored and (changed or gone):
        fs.rm_file(f"{root}/{marker}")
    fs.put([str(files[name]) for name in changed], [f"{root}/{name}" for name in changed])
    for name in gone:
        if name != marker:
            fs.rm_file(f"{root}/{name}")
    if changed or gone or not _is_same(files[marker], stored.get(marker)):
        fs.put_file(str(files[marker]), f"{root}/{marker}")


def _is_same(path: Path, stored: tuple[str, int] | None) -> bool:
    """Return whether a local file equals a stored one, by its MD5; other ETags count as different."""
    if stored is None or stored[1] != path.stat().st_size:
        return False
    with path.open("rb") as file:
        return stored[0] == hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _stored(folder: Path) -> dict[str, tuple[str, int]]:
    """Return ETag and size of the files of a stored folder, by name."""
    fs, key = filesystem(folder)
    root = f"{key}/"
    try:
        found: Mapping[str, Mapping[str, object]] = fs.find(root, detail=True)
    except FileNotFoundError:
        return {}
    stamps = {
        name.removeprefix(root): (str(about.get("ETag") or about.get("created")).strip('"'), about["size"]) for name, about in found.items()
    }
    return cast(dict[str, tuple[str, int]], dict(sorted(stamps.items())))


def local_copy(folder: Path | str, marker: str) -> Path:
    """Return a local folder unchanged, and a stored one as a copy in this machine's cache, refreshed when the stored one has changed.

    Raises `BellwetherError` where a store has no such folder with the file `marker`, or it cannot be read.
    """
    folder = place(folder)
    if not is_stored(folder):
        return folder
    from bellwether.settings import settings

    cache = settings().cache_path / "folders"
    try:
        for attempt in range(_ATTEMPTS):
            stored = _stored(folder)
            if marker in stored and (copy := _copied(folder, stored, cache)) is not None:
                return copy
            if not stored:
                break
            time.sleep(0.1 * 2**attempt)
    except failures() as error:
        raise BellwetherError(f"reading {folder}: {error}; run again when the store answers") from error
    found = "it is being replaced, or its upload was interrupted; make it again" if stored else "there is no such folder"
    raise BellwetherError(f"reading {folder}/{marker}: {found}")


def _copied(folder: Path, stored: Mapping[str, tuple[str, int]], cache: Path) -> Path | None:
    """Return the copy of these files, created if missing; None if they changed meanwhile."""
    copy = cache / f"{folder.name}-{hashlib.sha256(repr(stored).encode()).hexdigest()[:16]}"
    if copy.is_dir():
        os.utime(copy)
        return copy
    cache.mkdir(parents=True, exist_ok=True)
    _remove_unused(cache)
    with tempfile.TemporaryDirectory(prefix=".", dir=cache, ignore_cleanup_errors=True) as name:
        made = Path(name, folder.name)
        for file in stored:
            (made / file).parent.mkdir(parents=True, exist_ok=True)
        fs, root = filesystem(folder)
        with suppress(FileNotFoundError):
            fs.get([f"{root}/{file}" for file in stored], [str(made / file) for file in stored])
        sizes = {path.relative_to(made).as_posix(): path.stat().st_size for path in made.rglob("*") if path.is_file()}
        if sizes != {file: size for file, (_, size) in stored.items()} or _stored(folder) != stored:
            return None
        with suppress(OSError):  # another process has copied it meanwhile
            made.rename(copy)
    return copy


def _remove_unused(cache: Path) -> None:
    for copy in cache.iterdir():
        with suppress(FileNotFoundError):
            if copy.stat().st_mtime < time.time() - _KEEP_COPY:
                shutil.rmtree(copy, ignore_errors=True)


def folders(root: Path, marker: str) -> dict[Path, str]:
    """Return the folders directly below `root` that contain `marker`, with its ETag (empty if local); hidden ones excluded."""
    if is_stored(root):
        found = {name: etag for name, (etag, _) in _stored(root).items() if name.endswith(f"/{marker}") and name.count("/") == 1}
    else:
        found = {f"{path.parent.name}/{marker}": "" for path in root.glob(f"*/{marker}")}
    named = sorted((name.partition("/")[0], etag) for name, etag in found.items() if not name.startswith("."))
    return {root / name: etag for name, etag in named}


@contextmanager
def _draft_folder(target: Path) -> Iterator[Path]:
    """Yield a new locked folder, which is removed at the end of the block unless renamed."""
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
    """Remove unlocked drafts, and restore a target that a killed process moved away but did not replace."""
    for draft in parent.glob(".*.tmp-*"):
        if _DRAFT.fullmatch(draft.name) and not _is_locked(draft):
            shutil.rmtree(draft, ignore_errors=True)
    for old in parent.glob(".*.old-*"):
        found = _DRAFT.fullmatch(old.name)
        if found and not old.with_name(old.name.replace(".old-", ".tmp-")).exists():
            target = parent / found["target"]
            shutil.rmtree(old, ignore_errors=True) if target.exists() else os.rename(old, target)


def _is_locked(folder: Path) -> bool:
    """Return whether `folder` is locked, or was removed meanwhile."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        return not try_lock(handle)
    finally:
        os.close(handle)


def home_error(error: Exception) -> str | None:
    """Return the message for a home that cannot be used, or an object store that does not answer; None for errors elsewhere."""
    from bellwether.settings import settings

    if not isinstance(error, OSError) or hasattr(error.__cause__, "response"):
        return f"reaching the object store: {error}. Check AWS_ENDPOINT_URL, the keys and the network; then run again"

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


def with_checksum(content: bytes | memoryview) -> bytes:
    """Append the SHA-256 to the content of a cached file."""
    return b"".join((content, hashlib.sha256(content).digest()))


def checked(data: bytes | memoryview) -> memoryview | None:
    """Return the content of a file of `with_checksum` without a copy; None if it is damaged."""
    content, stated = memoryview(data)[:-_CHECKSUM], bytes(memoryview(data)[-_CHECKSUM:])
    return content if hashlib.sha256(content).digest() == stated else None


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_durably(path: Path, data: bytes) -> None:
    """Write a small file atomically, so that it survives a loss of power. Raises `OSError`."""
    if is_stored(path):
        path.write_bytes(data)
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
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
    """Wait for and hold the lock of the file `path`, created if missing. Raises `BellwetherError` if that fails."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Turn a failed write into a `BellwetherError` that names the place."""
    try:
        yield
    except failures() as error:
        raise BellwetherError(
            f"writing {target}: it cannot be written ({getattr(error, 'strerror', None) or error}); free space or name another place"
        ) from None
