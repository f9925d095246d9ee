"""Checks of a deployment by trying out its folders, object stores, journal and, for several machines (a fleet), their servers.

Probes run concurrently, each for a few seconds at most. Findings contain no password. Installation, venues and keys are checked in doctor.py.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from bellwether.database import convert_error, describe_url, parse_url
from bellwether.errors import BellwetherError
from bellwether.places import failures, is_stored, place
from bellwether.settings import Fleet, Settings

#: Seconds after which a probe is given up, and for a reply of workers.
PROBE_SECONDS, _REPLY_SECONDS = 8.0, 2.0
_CONNECT_SECONDS = 4
#: Packages that a fleet needs, by their modules; the extra `fleet` installs all.
_MODULES = {
    Fleet.CELERY: ("dagster_postgres", "psycopg2", "dagster_celery", "redis"),
    Fleet.KUBERNETES: ("dagster_postgres", "psycopg2", "dagster_k8s"),
}
_DAEMONS = "{ instance { daemonHealth { allDaemonStatuses { daemonType healthy required } } } }"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check. found: description of the state. status: ok, note (works, but deserves attention) or bad (`advice` states the remedy)."""

    check: str
    status: Literal["ok", "note", "bad"]
    found: str
    advice: str = ""


def missing_settings(config: Settings) -> list[str]:
    """Return a message for each setting or package that a fleet (several machines) needs and that is missing; empty without a fleet."""
    if config.fleet is None:
        return []
    missing = [f"{name} is not installed: pip install 'bellwether[fleet]'" for name in _MODULES[config.fleet] if find_spec(name) is None]
    if config.postgres is None:
        missing.append(
            "BELLWETHER_POSTGRES is not set: it is the address of Dagster's storage, such as postgresql://user:password@host/database"
        )
    elif not config.shares_limits:
        missing.append(
            "BELLWETHER_JOURNAL is a file of one node: calls would be made and paid for once per node. Leave it out, or name a Postgres database"
        )
    if config.store is None and config.lake is None:
        missing.append(
            "BELLWETHER_STORE is not set: files would be on one node each; name an object store or a folder that all nodes share"
        )
    if config.fleet is Fleet.CELERY and config.broker is None:
        missing.append("BELLWETHER_BROKER is not set: it is the address of Celery's Redis, such as redis://:password@host:6379/0")
    return missing


def deployment(config: Settings) -> Iterator[Finding]:
    """Yield findings on the places of the world's files, the journal, and the servers of a fleet."""
    missing = missing_settings(config)
    yield from (Finding("fleet", "bad", text, "docs/operating.md lists the settings of a fleet") for text in missing)
    probes: list[tuple[str, Callable[[], Finding]]] = [
        (name, partial(_place, name, where, config)) for name, where in _places(config).items()
    ]
    probes.append(("journal", partial(_journal, config)))
    if config.fleet is not None:
        probes += [(name, partial(probe, config)) for name, probe in _servers(config).items()]
    yield from _together(probes)


def _together(probes: Sequence[tuple[str, Callable[[], Finding]]]) -> Iterator[Finding]:
    """Run checks in parallel threads and yield their findings in order. A check without a result after `PROBE_SECONDS` becomes a bad finding."""
    findings: dict[str, Finding] = {}

    def run(name: str, probe: Callable[[], Finding]) -> None:
        try:
            findings[name] = probe()
        except Exception as error:  # in a thread it would be lost
            is_expected = isinstance(error, (BellwetherError, *failures()))
            reason = getattr(error, "strerror", None) or (str(error) if is_expected else "") or type(error).__name__
            findings[name] = Finding(name, "bad", reason.partition("\n")[0], "check its setting, the network and the rights of this user")

    threads = [threading.Thread(target=run, args=probe, daemon=True) for probe in probes]
    for thread in threads:
        thread.start()
    end = time.monotonic() + PROBE_SECONDS
    for (name, _), thread in zip(probes, threads, strict=True):
        thread.join(max(0.0, end - time.monotonic()))
        silent = Finding(name, "bad", f"no answer within {PROBE_SECONDS:g} seconds", "check its address and the network")
        yield findings.get(name, silent)


def _places(config: Settings) -> dict[str, str]:
    """Return the folders or URLs of the world's files, by the name of the place."""
    warehouse = config.warehouse_uri if "://" in config.warehouse_uri else str(Path(config.warehouse_uri).parent)
    return {
        "store": config.world_store,
        "lake": config.lake_uri,
        "warehouse": warehouse,
        "reports": config.reports_uri,
        "episodes": str(config.episodes_path),
        "recordings": str(config.recordings_path),
        "site": str(config.site_path),
        "submissions": str(config.submissions_path),
    }


def _place(name: str, where: str, config: Settings) -> Finding:
    """Check a folder or URL by writing, reading and deleting a file. If a folder does not exist yet, its nearest existing parent is checked."""
    root = place(where)
    target = root if is_stored(root) else next(path for path in (root, *root.parents) if path.exists())
    probe = target / f".bellwether-probe-{secrets.token_hex(8)}"
    content = secrets.token_bytes(16)
    probe.write_bytes(content)
    try:
        is_same = probe.read_bytes() == content
    finally:
        probe.unlink(missing_ok=True)
    address = _without_user(where)
    if not is_same:
        return Finding(name, "bad", f"{address} returns other bytes than were written", "look for a proxy or cache in between")
    if config.fleet is None or is_stored(root):
        return Finding(name, "ok", f"{address} is writable")
    if root.is_relative_to(config.world_home):
        return Finding(
            name, "bad", f"{address} is a folder of this node alone", "set BELLWETHER_STORE to an object store or a shared folder"
        )
    if name != "store" and where.startswith(config.world_store):
        return Finding(name, "ok", f"{address} is writable")
    return Finding(name, "note", f"{address} is a writable folder", "all nodes must mount it at the same path")


def _journal(config: Settings) -> Finding:
    setting = "BELLWETHER_POSTGRES" if config.journal is None else "BELLWETHER_JOURNAL"
    url = parse_url(config.journal_url, setting)
    if url.get_backend_name() != "sqlite":
        return _database("journal", url, setting)
    file = Path(url.database or "").absolute()
    if config.fleet is not None:
        return Finding("journal", "bad", f"{file} is SQLite", "leave BELLWETHER_JOURNAL out: a fleet's journal is in Postgres")
    folder = next(path for path in file.parents if path.exists())
    writable = os.access(file if file.exists() else folder, os.W_OK)
    return Finding("journal", "ok", str(file)) if writable else Finding("journal", "bad", f"{file} is not writable", "change its owner")


def _servers(config: Settings) -> dict[str, Callable[[Settings], Finding]]:
    """Return the checks of a fleet's servers, by the server's name."""
    probes: dict[str, Callable[[Settings], Finding]] = {}
    if config.postgres is not None:
        probes["postgres"] = _postgres
    if config.fleet is Fleet.CELERY and config.broker is not None and find_spec("redis") and find_spec("celery"):
        probes |= {"broker": _broker, "workers": _workers}
    return {**probes, "ui": _ui}


def _postgres(config: Settings) -> Finding:
    stated = config.postgres.get_secret_value() if config.postgres else ""
    return _database("postgres", parse_url(stated, "BELLWETHER_POSTGRES"), "BELLWETHER_POSTGRES")


def _database(name: str, url: URL, setting: str) -> Finding:
    """Check that tables can be created in a Postgres database. setting: variable that contains `url`, for the advice."""
    engine = create_engine(url, connect_args={"connect_timeout": _CONNECT_SECONDS}, poolclass=NullPool)
    question = "SELECT current_setting('server_version'), has_schema_privilege(current_schema(), 'CREATE') AND NOT pg_is_in_recovery()"
    try:
        with engine.connect() as connection:
            version, writable = connection.execute(text(question)).one()
    except SQLAlchemyError as error:
        reason = str(convert_error(f"connecting to {describe_url(url)}", error, setting, password=url.password))
        return Finding(name, "bad", reason.partition("\n")[0], f"check {setting}, and that the server runs")
    server = f"{describe_url(url)}, Postgres {version}"
    if not writable:
        return Finding(name, "bad", f"{server}: read-only", "grant CREATE on the schema to this user")
    return Finding(name, "ok", server)


def _broker(config: Settings) -> Finding:
    import redis

    address = config.broker.get_secret_value() if config.broker else ""
    shown_address = _without_user(address)
    try:
        with redis.Redis.from_url(address, socket_timeout=_CONNECT_SECONDS, socket_connect_timeout=_CONNECT_SECONDS) as client:
            client.ping()
            appends = _persists(client)
    except (redis.RedisError, ValueError) as error:
        return Finding("broker", "bad", f"{shown_address}: {type(error).__name__}", "check BELLWETHER_BROKER, and that Redis runs")
    if appends:
        return Finding("broker", "ok", f"{shown_address} answers")
    return Finding(
        "broker", "note", f"{shown_address} keeps no append-only file", "start Redis with --appendonly yes: a restart loses queued runs"
    )


def _persists(client: Any) -> bool:
    """Return True if Redis writes its data to an append-only file, or does not say whether it does."""
    return bool(client.info("persistence").get("aof_enabled", 1))


def _workers(config: Settings) -> Finding:
    """Check that Celery workers answer, and count them."""
    from celery import Celery

    options = {"socket_timeout": _CONNECT_SECONDS, "socket_connect_timeout": _CONNECT_SECONDS, "max_retries": 0}
    app = Celery(broker=config.broker.get_secret_value() if config.broker else "", set_as_current=False)
    app.conf.broker_transport_options = options
    try:
        replies = app.control.ping(timeout=_REPLY_SECONDS)
    except Exception as error:  # kombu's are those of the transport
        return Finding("workers", "bad", f"the broker does not answer ({type(error).__name__})", "check BELLWETHER_BROKER")
    names = sorted(name.removeprefix("celery@") for reply in replies for name in reply)
    summary = f"{len(names)} of {config.workers} answer{'' if names[1:] else 's' if names else ''}" + (
        f": {', '.join(names)}" if names else ""
    )
    if len(names) >= config.workers:
        return Finding("workers", "ok", summary)
    return Finding(
        "workers", "note" if names else "bad", summary, "start `bellwether worker`, or set BELLWETHER_WORKERS to the real number"
    )


def _ui(config: Settings) -> Finding:
    """Check that Dagster's UI answers and reports a running daemon."""
    shown_address = _without_user(config.ui)
    try:
        response = httpx.post(f"{config.ui.rstrip('/')}/graphql", json={"query": _DAEMONS}, timeout=_CONNECT_SECONDS)
        response.raise_for_status()
        states = response.json()["data"]["instance"]["daemonHealth"]["allDaemonStatuses"]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        return Finding(
            "ui", "bad", f"{shown_address} does not answer ({type(error).__name__})", "start `bellwether ui`, or set BELLWETHER_UI"
        )
    idle = sorted(state["daemonType"].lower() for state in states if state["required"] and not state["healthy"])
    if idle:
        return Finding(
            "ui", "bad", f"{shown_address} answers, but no daemon runs ({', '.join(idle)})", "start `bellwether ui`: it runs the daemon"
        )
    return Finding("ui", "ok", f"{shown_address} answers, its daemon runs")


def _without_user(address: str) -> str:
    """Return an address without user, password and query."""
    if "://" not in address:
        return address
    try:
        parts = urlsplit(address)
        host = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    except ValueError:
        return "the address"
    return f"{parts.scheme}://{host}{parts.path}"
