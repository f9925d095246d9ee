"""Looks at the installation and says how to mend what is wrong."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from bellwether.errors import BellwetherError
from bellwether.settings import Settings, Venue

PACKAGES = ("dagster", "dagster-webserver", "duckdb", "polars", "pyarrow", "numpy", "great-expectations", "httpx")
LEAST_FREE_BYTES = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: `status` is ok, note (works, but worth knowing) or bad (mend it: `advice` says how)."""

    check: str
    status: Literal["ok", "note", "bad"]
    found: str
    advice: str = ""


def examine(config: Settings) -> list[Finding]:
    """Everything that can be wrong with an installation, in the order in which it would stop a user."""
    return [finding for look in LOOKS for finding in _guarded(look, config)]


def _guarded(look: Callable[[Settings], Iterator[Finding]], config: Settings) -> Iterator[Finding]:
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
    place = next(one for one in (home, *home.parents) if one.exists())
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
    if stated and not Path(stated).is_absolute():
        yield Finding("DAGSTER_HOME", "bad", f"{stated} is not absolute", "unset it, or set an absolute path")
    elif stated:
        yield Finding("DAGSTER_HOME", "note", f"{stated} (yours)", f"unset it to use {config.dagster_home}")
    else:
        yield Finding("DAGSTER_HOME", "ok", f"{config.dagster_home} (set by every command)")


def _registry(config: Settings) -> Iterator[Finding]:
    from bellwether.forecasting import forecasters
    from bellwether.questions import releases

    yield Finding("registry", "ok", f"{len(releases())} releases, {len(forecasters())} forecasters")


def _arena(config: Settings) -> Iterator[Finding]:
    """Whether the lineup and the methodology of new cohorts exist."""
    from bellwether.arena.lineup import require_registered

    require_registered(config.arena_lineup, config.methodology, config.registry)
    yield Finding("arena", "ok", f"lineup {config.arena_lineup}" + (f", methodology {config.methodology}" if config.methodology else ""))


def _venue(config: Settings) -> Iterator[Finding]:
    yield from ask_venues(config)


def ask_venues(config: Settings) -> Iterator[Finding]:
    """One harmless call to each venue that is pulled."""
    from bellwether.connections import try_gamma, try_kalshi
    from bellwether.worlds import addresses

    with addresses(config) as found:
        tries = {Venue.KALSHI: (try_kalshi, found.kalshi), Venue.POLYMARKET: (try_gamma, found.gamma)}
        for venue in config.venues:
            ask, url = tries[venue]
            answer = asyncio.run(ask(url))
            advice = f"{answer.advice}, or leave {venue} out of BELLWETHER_VENUES"
            yield Finding(answer.name, "ok", answer.found) if answer.status == "ok" else Finding(answer.name, "bad", answer.found, advice)


def _warehouse(config: Settings) -> Iterator[Finding]:
    from bellwether.lake.warehouse import query

    if not config.warehouse_path.exists():
        yield Finding("warehouse", "note", "not published yet", "run `make demo`")
        return
    tables = query(config.warehouse_path, "SELECT count(*) AS n FROM meta.tables")["n"][0]
    yield Finding("warehouse", "ok", f"{config.warehouse_path}, {tables} tables")


LOOKS: tuple[Callable[[Settings], Iterator[Finding]], ...] = (_versions, _paths, _dagster_home, _registry, _arena, _venue, _warehouse)
