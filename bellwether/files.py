"""Writing, copying and locking of files outside the lake. Writes are atomic: readers see a file or folder completely or not at all.

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

#: Version of a Dagster home, and the file in it that contains the version once the home's databases are complete.
HOME_VERSION, HOME_MARKER = "1", "made"
#: Seconds for which an unused copy of a stored folder is kept, and attempts to copy one that is being replaced.
_KEEP_COPY, _ATTEMPTS = 7 * 86_400, 6
_DRAFT = re.compile(r"\.(?P<target>.+)\.(tmp|old)-[0-9a-f]{8}")


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading bytes. If the name ends in .gz, the contents are decompressed."""
    return cast(IO[bytes], gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb")


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """Yield a local path for a draft. At the end of the block the draft replaces `target`; if the block fails, the draft is deleted.

    Raises `BellwetherError` when it cannot be written.
    """
    if is_stored(target):
        with writing(target), tempfile.TemporaryDirectory(prefix="bellwether-") as folder:
            yield (local := Path(folder, target.name))
            fs, key = filesystem(target)
            fs.put_file(str(local), key)
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
    """Create a file with these contents. Return False if the file exists already. Raises `BellwetherError` if it cannot be written."""
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
    """Store an object under conditions such as If-Match. Return False if a condition is not met."""
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
    """Return the ETag of a file in an object store; None if there is no such file. Raises `BellwetherError` if the store does not answer."""
    fs, key = filesystem(path)
    try:
        return cast(str, fs.info(key).get("ETag", ""))
    except FileNotFoundError:
        return None
    except failures() as error:
        raise BellwetherError(f"reading {path}: {error}; run again when the store answers") from error


def replace_version(path: Path, data: bytes, known: str | None) -> bool:
    """Replace a file in an object store if its ETag is still `known` (None: if there is no file).
    Return False if another process has changed the file.
    """
    if known is None:
        return create(path, data)
    return _put_if(path, data, **({"IfMatch": known} if known else {}))


@contextmanager
def atomic_folder(target: Path, marker: str) -> Iterator[Path]:
    """Yield a local folder for a draft. At the end of the block the draft replaces `target`; if the block fails, the draft is deleted.

    marker: the file in it that readers require; see `upload`. Folders that killed processes left next to a local `target` are removed first.
    Raises `BellwetherError` when it cannot be written.
    """
    if is_stored(target):
        with writing(target), tempfile.TemporaryDirectory(prefix="bellwether-") as name:
            yield Path(name)
            upload(Path(name), target, marker)
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
    """Upload a local folder so that it replaces the folder `target` in an object store. Files that are equal there are not sent.

    If other files change, the marker is removed first and stored last, so that readers that require it find a complete folder or none.
    """
    stored = _stored(target)
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    changed = [name for name, path in files.items() if name != marker and not _is_same(path, stored.get(name))]
    removed = [name for name in stored if name not in files]
    fs, root = filesystem(target)
    if marker in stored and (changed or removed):
        fs.rm_file(f"{root}/{marker}")
    fs.put([str(files[name]) for name in changed], [f"{root}/{name}" for name in changed])
    for name in removed:
        if name != marker:
            fs.rm_file(f"{root}/{name}")
    if changed or removed or not _is_same(files[marker], stored.get(marker)):
        fs.put_file(str(files[marker]), f"{root}/{marker}")


def _is_same(path: Path, stored: tuple[str, int] | None) -> bool:
    """Return True if a local file has the size and MD5 of a stored one. stored: ETag and size; an ETag that is no MD5 counts as different."""
    if stored is None or stored[1] != path.stat().st_size:
        return False
    with path.open("rb") as file:
        return stored[0] == hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _stored(folder: Path) -> dict[str, tuple[str, int]]:
    """Return ETag and size of each file in an object store's folder, by name; {} for a missing folder."""
    fs, key = filesystem(folder)
    root = f"{key}/"
    try:
        objects: Mapping[str, Mapping[str, object]] = fs.find(root, detail=True)
    except FileNotFoundError:
        return {}
    stamps = {
        name.removeprefix(root): (str(info.get("ETag") or info.get("created")).strip('"'), info["size"]) for name, info in objects.items()
    }
    return cast(dict[str, tuple[str, int]], dict(sorted(stamps.items())))


def local_copy(folder: Path | str, marker: str) -> Path:
    """Return the path of a folder on this machine: a local folder itself, or an up-to-date cached copy of one in an object store.

    Raises `BellwetherError` if a store has no such folder with the file `marker`, or cannot be read.
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
    problem = "it is being replaced, or its upload was interrupted; make it again" if stored else "there is no such folder"
    raise BellwetherError(f"reading {folder}/{marker}: {problem}")


def _copied(folder: Path, stored: Mapping[str, tuple[str, int]], cache: Path) -> Path | None:
    """Return the cached copy of a folder with exactly these files, downloaded if necessary; None if the files changed meanwhile."""
    copy = cache / f"{folder.name}-{hashlib.sha256(repr(stored).encode()).hexdigest()[:16]}"
    if copy.is_dir():
        os.utime(copy)
        return copy
    cache.mkdir(parents=True, exist_ok=True)
    _remove_unused(cache)
    with tempfile.TemporaryDirectory(prefix=".", dir=cache, ignore_cleanup_errors=True) as name:
        draft = Path(name, folder.name)
        for file in stored:
            (draft / file).parent.mkdir(parents=True, exist_ok=True)
        fs, root = filesystem(folder)
        with suppress(FileNotFoundError):
            fs.get([f"{root}/{file}" for file in stored], [str(draft / file) for file in stored])
        sizes = {path.relative_to(draft).as_posix(): path.stat().st_size for path in draft.rglob("*") if path.is_file()}
        if sizes != {file: size for file, (_, size) in stored.items()} or _stored(folder) != stored:
            return None
        with suppress(OSError):  # another process has copied it meanwhile
            draft.rename(copy)
    return copy


def _remove_unused(cache: Path) -> None:
    """Delete cached copies that were not used for a while."""
    for copy in cache.iterdir():
        with suppress(FileNotFoundError):
            if copy.stat().st_mtime < time.time() - _KEEP_COPY:
                shutil.rmtree(copy, ignore_errors=True)


def folders(root: Path, marker: str) -> dict[Path, str]:
    """Return the complete folders directly below `root` (those with the file `marker`), each with the marker's ETag ("" for local files)."""
    if is_stored(root):
        etags = {name: etag for name, (etag, _) in _stored(root).items() if name.endswith(f"/{marker}") and name.count("/") == 1}
    else:
        etags = {f"{path.parent.name}/{marker}": "" for path in root.glob(f"*/{marker}")}
    named = sorted((name.partition("/")[0], etag) for name, etag in etags.items() if not name.startswith("."))
    return {root / name: etag for name, etag in named}


@contextmanager
def _draft_folder(target: Path) -> Iterator[Path]:
    """Yield a new, locked folder next to `target`. The folder is deleted at the end of the block unless it was renamed."""
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
    """Clean up after killed processes: delete their drafts, and move back folders that were moved away but not replaced."""
    for draft in parent.glob(".*.tmp-*"):
        if _DRAFT.fullmatch(draft.name) and not _is_locked(draft):
            shutil.rmtree(draft, ignore_errors=True)
    for old in parent.glob(".*.old-*"):
        match = _DRAFT.fullmatch(old.name)
        if match and not old.with_name(old.name.replace(".old-", ".tmp-")).exists():
            target = parent / match["target"]
            shutil.rmtree(old, ignore_errors=True) if target.exists() else os.rename(old, target)


def _is_locked(folder: Path) -> bool:
    """Return True if `folder` is locked or no longer exists."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        return not try_lock(handle)
    finally:
        os.close(handle)


def home_error(error: Exception) -> str | None:
    """Return a message if `error` means that the home is unusable or the object store does not answer; None for other errors."""
    from bellwether.settings import settings

    if not isinstance(error, OSError) or hasattr(error.__cause__, "response"):
        return f"reaching the object store: {error}. Check AWS_ENDPOINT_URL, the keys and the network; then run again"

    home, name = str(settings().home.expanduser().absolute()), str(error.filename or "")
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) and not name.startswith(home):
        return None
    where = name or home
    return f"using {where}: {error.strerror}. Free space, make the folder writable, or set BELLWETHER_HOME to another place; then run again"


def is_other_home(home: Path) -> bool:
    """Return True if another version of Bellwether made this Dagster home."""
    marker = home / HOME_MARKER
    if marker.is_file():
        return marker.read_text(encoding="utf-8").strip() != HOME_VERSION
    return (home / "history" / "runs" / "index.db").is_file()


def require_whole_home(config: Settings) -> None:
    """Raise `BellwetherError` if a backup was only partly restored into this home."""
    if config.restoring_path.exists():
        name = config.restoring_path.read_text(encoding="utf-8")
        raise BellwetherError(
            f"opening {config.world_home}: the restoration of {name} into it was interrupted; remove this folder, then run `bellwether restore` again"
        )


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_durably(path: Path, data: bytes) -> None:
    """Write a small file atomically, so that it survives a power failure. Raises `OSError`."""
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
    """Write a file, or the entries of a folder, to disk now. Raises `OSError`."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def try_lock(file: IO[str] | IO[bytes] | int, *, shared: bool = False) -> bool:
    """Lock an open file until it is closed or the process ends. Return False if another process holds the lock.

    shared: other processes may share the lock.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock on the file `path` (created if missing) until the block ends, after waiting for other holders.
    Raises `BellwetherError` if the file cannot be opened.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Convert an error of writing `target` to a `BellwetherError` that names this file."""
    try:
        yield
    except failures() as error:
        raise BellwetherError(
            f"writing {target}: it cannot be written ({getattr(error, 'strerror', None) or error}); free space or name another place"
        ) from None
