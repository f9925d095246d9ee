"""Checks of the installation: versions, folders, registries, venues, databases and the published warehouse."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from bellwether.arena.lineup import require_registered
from bellwether.backup import journal_path
from bellwether.database import verify_file
from bellwether.doctor.connections import try_gamma, try_kalshi
from bellwether.doctor.deployment import Finding, deployment
from bellwether.errors import BellwetherError
from bellwether.files import is_other_home
from bellwether.forecasting import forecasters
from bellwether.journal.journal import Journal
from bellwether.journal.tables import SCHEMA as JOURNAL
from bellwether.lake import Lake
from bellwether.lake.catalog import SCHEMA as CATALOG
from bellwether.lake.warehouse import publication_time, query
from bellwether.questions import releases
from bellwether.settings import Settings, Venue
from bellwether.worlds import addresses

PACKAGES = ("dagster", "dagster-webserver", "duckdb", "polars", "pyarrow", "numpy", "great-expectations", "httpx")
LEAST_FREE_BYTES = 2 * 1024**3


def examine(config: Settings) -> list[Finding]:
    """Run all checks of the installation and return what they found."""
    return [finding for look in LOOKS for finding in _guarded(look, config)]


def _guarded(look: Callable[[Settings], Iterator[Finding]], config: Settings) -> Iterator[Finding]:
    """Yield the findings of a check; an exception becomes a bad finding."""
    try:
        yield from look(config)
    except (BellwetherError, OSError) as error:
        yield Finding(look.__name__.strip("_"), "bad", str(error), "the message says what to do; `bellwether doctor` again afterwards")


def _versions(config: Settings) -> Iterator[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    yield Finding("python", "ok" if good else "bad", python, "" if good else "install CPython 3.11 or newer and run make again")
    for name in PACKAGES:
        try:
            yield Finding(name, "ok", version(name))
        except PackageNotFoundError:
            yield Finding(name, "bad", "not installed", "run `make setup`")


def _paths(config: Settings) -> Iterator[Finding]:
    home = config.world_home
    yield Finding("world", "ok", config.world.value, "")
    place = next(path for path in (home, *home.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        yield Finding("home", "bad", f"cannot write to {home}: {error.strerror}", "set BELLWETHER_HOME to a folder that you can write to")
        return
    free = shutil.disk_usage(place).free
    status: Literal["ok", "bad"] = "ok" if free >= LEAST_FREE_BYTES else "bad"
    yield Finding(
        "home", status, f"{home}, {free / 1024**3:.1f} GiB free", "" if status == "ok" else "free some disk space, or set BELLWETHER_HOME"
    )


def _dagster_home(config: Settings) -> Iterator[Finding]:
    stated = os.environ.get("DAGSTER_HOME")
    home = Path(stated or config.dagster_home)
    described = f"{home} (yours)" if stated else f"{home} (set by every command)"
    if not home.is_absolute():
        yield Finding("DAGSTER_HOME", "bad", f"{stated} is not absolute", "unset it, or set an absolute path")
    elif is_other_home(home):
        yield Finding("DAGSTER_HOME", "bad", described, "another version of Bellwether made it; set BELLWETHER_HOME to a new folder")
    elif stated:
        yield Finding("DAGSTER_HOME", "note", described, f"unset it to use {config.dagster_home}")
    else:
        yield Finding("DAGSTER_HOME", "ok", described)


def _database_files(config: Settings) -> Iterator[Finding]:
    """Check the contents of journal and catalog in SQLite. Postgres verifies its own files."""
    if config.shares_limits:
        return
    for schema, path in ((JOURNAL, journal_path(config)), (CATALOG, Path(config.catalog))):
        if path.is_file():
            verify_file(path, schema, f"reading the {schema.name} {path}", immutable=not os.access(path.parent, os.W_OK))
            yield Finding(f"{schema.name} file", "ok", f"{path} is intact")


def _catalog(config: Settings) -> Iterator[Finding]:
    """Open the lake as every command does."""
    Lake.of(config).require_readable()
    yield Finding("catalog", "ok", f"of {config.lake_uri}, readable")


def _responses(config: Settings) -> Iterator[Finding]:
    """Compare the responses in the journal with their checksums."""
    with Journal.of(config) as journal:
        if journal.exists():
            yield Finding("responses", "ok", f"{journal.verify():,} of models are intact")


def _registry(config: Settings) -> Iterator[Finding]:
    yield Finding("registry", "ok", f"{len(releases())} releases, {len(forecasters())} forecasters")


def _arena(config: Settings) -> Iterator[Finding]:
    """Check that the lineup and the methodology for new cohorts of the arena are registered."""
    require_registered(config.arena_lineup, config.methodology, config.registry)
    yield Finding("arena", "ok", f"lineup {config.arena_lineup}" + (f", methodology {config.methodology}" if config.methodology else ""))


def _venue(config: Settings) -> Iterator[Finding]:
    yield from ask_venues(config)


def ask_venues(config: Settings) -> Iterator[Finding]:
    """Send one request to each enabled venue, and yield whether the venue answered."""
    with addresses(config) as venues:
        tries = {Venue.KALSHI: (try_kalshi, venues.kalshi), Venue.POLYMARKET: (try_gamma, venues.gamma)}
        for venue in config.venues:
            ask, url = tries[venue]
            answer = asyncio.run(ask(url))
            advice = f"{answer.advice}, or leave {venue} out of BELLWETHER_VENUES"
            yield answer if answer.status == "ok" else replace(answer, advice=advice)


def _warehouse(config: Settings) -> Iterator[Finding]:
    if not publication_time(config.warehouse_uri):
        yield Finding("published warehouse", "note", "not published yet", "run `bellwether warehouse`, or `make demo` in a new home")
        return
    tables = query(config.warehouse_uri, "SELECT count(*) AS n FROM meta.tables")["n"][0]
    yield Finding("published warehouse", "ok", f"{config.warehouse_uri}, {tables} tables")
    damaged = query(config.warehouse_uri, "SELECT table_name, partition FROM meta.partitions WHERE damage IS NOT NULL ORDER BY ALL")
    for name, partition in damaged.iter_rows():
        advice = "the published table lacks it; materialize the partition again, or restore its file from a backup"
        yield Finding("published warehouse", "bad", f"{name} {partition} was left out as damaged", advice)


LOOKS: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
    _versions,
    _paths,
    _dagster_home,
    _registry,
    _arena,
    _venue,
    deployment,
    _database_files,
    _catalog,
    _responses,
    _warehouse,
)
