"""Creation of Dagster's home folder (DAGSTER_HOME).

Not here: retention (retention.py).
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote

import dagster as dg

from bellwether.errors import BellwetherError, ConfigError
from bellwether.files import HOME_MARKER, HOME_VERSION, atomic_file, is_other_home, locked, require_whole_home
from bellwether.settings import Settings
from orchestration import fleet

#: Name and module of the code location, and Dagster's name of its definitions.
LOCATION, CODE, REPOSITORY = "bellwether", "orchestration.definitions", "__repository__"
_FILE = "dagster.yaml"
_LOCK = "first-start.lock"
_STORAGE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}
#: Advice after a failed write.
STORAGE_ADVICE = (
    "Stored results are complete. Free space, make the folder writable, or set BELLWETHER_HOME to another place; then repeat the command, which "
    "continues from there"
)
_DAMAGE = re.compile(r"file is not a database|malformed|no such (table|column)|dagster instance migrate")
_SQLITE_ERRORS = ("disk is full", "readonly database", "unable to open database file", "disk I/O error")


def runs_at_once(processors: int | None = None) -> tuple[int, int]:
    """Return how many runs this machine executes at once, and how many of these may be automatic. One more than the processors, for marks.

    processors: number (default: available ones).
    """
    processors = processors or len(os.sched_getaffinity(0))
    return max(2, processors) + 1, max(1, processors - 1)


def settings_file() -> str:
    """Return the text of dagster.yaml for this machine, with one more concurrent run than it has processors, at least 3."""
    runs, automatic = runs_at_once()
    text = (files("orchestration") / "dagster.yaml").read_text()
    return text.replace("max_concurrent_runs: 3", f"max_concurrent_runs: {runs}").replace("limit: 1}", f"limit: {automatic}}}")


def prepare(config: Settings) -> Path:
    """Create the Dagster home of this world if it is missing, and return its path. Sets DAGSTER_HOME and switches telemetry off.

    Concurrent processes wait for the one that creates the home. An existing dagster.yaml is left unchanged. In a fleet the file is written from the
    settings, and the databases are in Postgres.

    Raises:
        ConfigError: another version of Bellwether made the home, Dagster cannot open its path, or settings of the fleet are missing.
        BellwetherError: the home cannot be written.
    """
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    # One planned event per table and run. An event per partition takes 10 ms of CPU each.
    os.environ.setdefault("DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS", "true")
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(config.dagster_home)))
    if "?" in str(home) or unquote(str(home)) != str(home):
        raise ConfigError(
            f"opening {home}: Dagster takes ? and %20 in a path for parts of a URL; set BELLWETHER_HOME to a path without them"
        )
    require_whole_home(config)
    with storage_errors(home):
        _create_folder(home)
        if is_other_home(home):
            raise ConfigError(f"opening {home}: another version of Bellwether made it; set BELLWETHER_HOME to a new folder")
        if config.fleet is not None:
            _prepare_fleet(config, home)
            return home
        if not ((home / HOME_MARKER).exists() and (home / _FILE).exists()):
            with locked(home / _LOCK):
                _create_databases(home)
    return home


def _prepare_fleet(config: Settings, home: Path) -> None:
    """Write a fleet's dagster.yaml and create Dagster's tables. If the operator wrote dagster.yaml, do neither."""
    fleet.require_settings(config)
    fleet.export_urls(config)
    if fleet.is_own(home / _FILE):
        return
    with locked(home / _LOCK):
        fleet.write_settings(config, home / _FILE)
        if not (home / HOME_MARKER).exists():
            fleet.create_tables(config)
            (home / HOME_MARKER).write_text(HOME_VERSION)


def _create_folder(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BellwetherError(
            f"creating {home}: {error.strerror} ({error.filename}). Make the folder writable or set BELLWETHER_HOME to another place"
        ) from None


def _create_databases(home: Path) -> None:
    """Write dagster.yaml and create Dagster's databases if they are missing. Concurrent calls must be prevented by the caller."""
    target = home / _FILE
    if not target.exists():
        with atomic_file(target) as draft:
            draft.write_text(settings_file())
    if (home / HOME_MARKER).exists():
        return

    with dg.DagsterInstance.get() as instance:
        instance.get_runs_count()
        instance.get_asset_keys(limit=1)
        instance.all_instigator_state()
    (home / HOME_MARKER).write_text(HOME_VERSION)


@contextmanager
def storage_errors(home: Path) -> Iterator[None]:
    """Turn errors of the `with` block about a full disk, a read-only disk or a damaged database of Dagster into `BellwetherError` with advice."""
    try:
        yield
    except BellwetherError:
        raise
    except Exception as error:
        if any(isinstance(cause, sqlite3.DatabaseError | dg.DagsterError) and _DAMAGE.search(str(cause)) for cause in _causes(error)):
            raise BellwetherError(
                f"opening {home}: a database of Dagster is damaged. Move the folder away and repeat the command, which creates a new one. Lake, "
                "journal and results are not affected; the UI loses its runs and shows partitions as missing until they are materialized"
            ) from error
        cause = _storage_error(error)
        if cause is None:
            raise
        raise BellwetherError(f"writing below {home.parent}: {cause}. {STORAGE_ADVICE}") from error


def is_storage_message(text: str) -> bool:
    """Return True if an error message reports a full or read-only disk."""
    return any(f"[Errno {number}]" in text for number in _STORAGE_ERRORS) or any(message in text for message in _SQLITE_ERRORS)


def _storage_error(error: BaseException) -> str | None:
    """Return the system's message if a failed write (full or read-only disk) caused `error`, else None."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in _STORAGE_ERRORS:
            return f"{cause.strerror} ({cause.filename})" if cause.filename else str(cause.strerror)
        if isinstance(cause, sqlite3.OperationalError) and any(text in str(cause) for text in _SQLITE_ERRORS):
            return str(cause)
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
