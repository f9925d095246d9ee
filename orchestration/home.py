"""DAGSTER_HOME: made on first use, by one process at a time, so that history is never written to a folder that vanishes.

Not here: how large it becomes (history.py).
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from bellwether.errors import BellwetherError
from bellwether.files import atomic_file, locked
from bellwether.settings import Settings
from orchestration.precedence import runs_at_once

#: The code location that the UI shows, and its module.
LOCATION, CODE = "bellwether", "orchestration.definitions"
#: Says that Dagster's databases in the home were made to their end.
_MADE = "made"
_FILE = "dagster.yaml"
_LOCK = "first-start.lock"
_STORAGE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}
#: What helps where a write failed.
STORAGE_ADVICE = (
    "What was stored before is whole. Free space, or make the folder writable, or set BELLWETHER_HOME to another place; then run again: it goes on "
    "where it stopped"
)
_SQLITE_ERRORS = ("disk is full", "readonly database", "unable to open database file", "disk I/O error")


def settings_file() -> str:
    """Dagster's settings for this machine, as YAML."""
    runs, automatic = runs_at_once()
    text = (files("orchestration") / "dagster.yaml").read_text()
    return text.replace("max_concurrent_runs: 2", f"max_concurrent_runs: {runs}").replace("limit: 1}", f"limit: {automatic}}}")


def prepare(config: Settings) -> Path:
    """Make DAGSTER_HOME of this world with its dagster.yaml and databases, point this process at it and switch telemetry off.

    Several processes may do so at once: one makes it, the others wait. A dagster.yaml that is there is left as it is;
    one that was deleted is made anew.
    Raises `BellwetherError` when it cannot be written.
    """
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(config.dagster_home)))
    with storage_errors(home):
        home.mkdir(parents=True, exist_ok=True)
        if not ((home / _MADE).exists() and (home / _FILE).exists()):
            with locked(home / _LOCK):
                _make(home)
    return home


def _make(home: Path) -> None:
    """Write dagster.yaml, and let Dagster make its databases: two processes at once would both make the same tables."""
    target = home / _FILE
    if not target.exists():
        with atomic_file(target) as draft:
            draft.write_text(settings_file())
    if (home / _MADE).exists():
        return
    import dagster as dg

    with dg.DagsterInstance.get() as instance:
        instance.get_runs_count()
        instance.get_asset_keys(limit=1)
        instance.all_instigator_state()
    (home / _MADE).touch()


@contextmanager
def storage_errors(home: Path) -> Iterator[None]:
    """Turn what a full or read-only disk makes of any write, Dagster's own included, into a `BellwetherError` that names the remedy."""
    try:
        yield
    except BellwetherError:
        raise
    except Exception as error:
        cause = _storage_error(error)
        if cause is None:
            raise
        raise BellwetherError(f"writing below {home.parent}: {cause}. {STORAGE_ADVICE}") from error


def tells_of_storage(text: str) -> bool:
    """Whether the message of an error is what a full or read-only disk makes of a write."""
    return any(f"[Errno {number}]" in text for number in _STORAGE_ERRORS) or any(said in text for said in _SQLITE_ERRORS)


def _storage_error(error: BaseException) -> str | None:
    """What the system said, where a write that failed is among the causes of `error`."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _STORAGE_ERRORS:
            return f"{seen.strerror} ({seen.filename})" if seen.filename else str(seen.strerror)
        if isinstance(seen, sqlite3.OperationalError) and any(text in str(seen) for text in _SQLITE_ERRORS):
            return str(seen)
        seen = seen.__cause__ or seen.__context__
    return None
