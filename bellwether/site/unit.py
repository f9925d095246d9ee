"""Units of the site: groups of files that are built together, and reused together while a digest of their inputs stays the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import orjson
import polars as pl

from bellwether.tables import TABLES


@dataclass(frozen=True, slots=True)
class Unit:
    """Group of files that are built together: a name, a digest of the inputs (key), a function that yields the files (make), and the time of the
    tables that its pages show (date).
    """

    name: str
    key: str
    make: Callable[[], Iterable[tuple[str, bytes]]]
    date: datetime | None = None


@cache
def code() -> str:
    """Return a digest of the code that builds pages, of the versions of its libraries, and of the versions of the tables."""
    digest = hashlib.sha256()
    for made_from in ("figures", "pages", "site"):
        for name, data in sorted(_sources(files(f"bellwether.{made_from}"), f"{made_from}/")):
            digest.update(name.encode() + b"\0" + data)
    digest.update(files("bellwether.replay.results").joinpath("tear_sheet.py").read_bytes())
    for package in ("altair", "jinja2", "polars", "vl-convert-python"):
        digest.update(f"{package} {version(package)}".encode())
    digest.update(repr(sorted((table.name, table.version) for table in TABLES.values())).encode())
    return digest.hexdigest()


def key(*inputs: Any) -> str:
    """Return a digest that changes with the site's code or with an input. Frames count by their rows, other values by their JSON."""
    digest = hashlib.sha256(code().encode())
    for one in inputs:
        if isinstance(one, pl.DataFrame):
            digest.update(one.rechunk().write_ipc(None).getbuffer())
        else:
            digest.update(orjson.dumps(one, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS))
    return digest.hexdigest()


def _sources(folder: Any, prefix: str) -> Iterator[tuple[str, bytes]]:
    for one in folder.iterdir():
        if one.is_dir():
            if one.name != "__pycache__":
                yield from _sources(one, f"{prefix}{one.name}/")
        elif one.name.endswith((".py", ".html", ".css", ".js")):
            yield f"{prefix}{one.name}", one.read_bytes()
