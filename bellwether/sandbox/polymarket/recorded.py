"""What recordings hold of Polymarket, recognised by content: Gamma's markets and events, the CLOB's markets and books.

Bodies come bare, in pages or wrapped in notes of the recorder, also with lines of text between them; objects are found wherever
they stand and are kept as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from bellwether.sandbox.polymarket.source import Object
from bellwether.sandbox.recorded import Found, broken, content_of, files, has_lines, is_polymarket, read_time, texts

#: Where recorders note when a body came.
_CAPTURED = ("captured_at", "recorded_at", "fetched_at", "collector_ts", "run_ts")
_VALUE = re.compile(r"^[\[{]", re.MULTILINE)
_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class Findings:
    """Everything found so far, in the order in which it stands."""

    markets: list[Found] = field(default_factory=list)
    events: list[Found] = field(default_factory=list)
    clob_markets: list[Found] = field(default_factory=list)
    books: list[Found] = field(default_factory=list)


def _has_id(node: Object) -> bool:
    return isinstance(node.get("id"), str) and node["id"].isascii() and node["id"].isdecimal()


def is_market(node: Object) -> bool:
    """A market object of Gamma."""
    return _has_id(node) and texts(node, "conditionId", "question", "slug")


def is_event(node: Object) -> bool:
    """An event object of Gamma; its series have the same names, and a type."""
    return _has_id(node) and texts(node, "slug", "title") and "conditionId" not in node and "seriesType" not in node


def is_clob_market(node: Object) -> bool:
    """A market object of the CLOB."""
    return texts(node, "condition_id", "question") and isinstance(node.get("tokens"), list)


def is_book(node: Object) -> bool:
    """A token's order book."""
    return texts(node, "asset_id", "market") and isinstance(node.get("bids"), list) and isinstance(node.get("asks"), list)


def _captured(node: Object) -> int | None:
    return next((found for name in _CAPTURED if (found := read_time(node.get(name))) is not None), None)


def collect(node: Any, findings: Findings, captured: int | None = None) -> None:
    """Find every object below `node`; `captured` is what the wrappers around it say of its time."""
    if isinstance(node, list):
        for item in node:
            collect(item, findings, captured)
        return
    if not isinstance(node, dict):
        return
    noted = _captured(node)
    captured = captured if noted is None else noted
    if is_market(node):
        findings.markets.append(Found(node, captured))
        collect(node.get("events"), findings, captured)
    elif is_event(node):
        findings.events.append(Found(node, captured))
        collect(node.get("markets"), findings, captured)
    elif is_clob_market(node):
        findings.clob_markets.append(Found(node, captured))
    elif is_book(node):
        findings.books.append(Found(node, captured))
    else:
        collect(list(node.values()), findings, captured)


def _between_text(path: Path, content: bytes) -> Iterator[Any]:
    """JSON values that begin at the beginning of a line, whatever stands between them. Raises `BellwetherError` for a broken one."""
    text = content.decode("utf-8", "replace")
    found = _VALUE.search(text)
    if found is None:
        raise broken(path, "there is no JSON in it")
    while found is not None:
        try:
            value, end = _DECODER.raw_decode(text, found.start())
        except (json.JSONDecodeError, RecursionError) as error:
            raise broken(path, error) from error
        yield value
        found = _VALUE.search(text, end)


def _bodies(path: Path, content: bytes) -> Iterator[Any]:
    """The JSON values of a file. Raises `BellwetherError` naming a broken one."""
    if not has_lines(path):
        try:
            yield orjson.loads(content)
        except orjson.JSONDecodeError:
            yield from _between_text(path, content)
        return
    for number, line in enumerate(content.splitlines(), 1):
        try:
            if line.strip():
                yield orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise broken(path, f"line {number}: {error}") from error


def find(folder: Path) -> Findings:
    """Everything of Polymarket under a folder; files of others are left out.

    Raises `ConfigError` when there is no such folder, `BellwetherError` naming a file that cannot be read.
    """
    findings = Findings()
    for path in files(folder):
        content = content_of(path)
        if is_polymarket(content):
            for body in _bodies(path, content):
                collect(body, findings)
    return findings
