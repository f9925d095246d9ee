"""Rows that leave the platform: without what looks like a credential, and without text that a spreadsheet would run as a formula."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from bellwether.files import atomic_file
from bellwether.untrusted_text import CREDENTIAL, redact, redact_name

#: Columns that quote a model, by table. `messages` is made without credentials, and the journal keeps what came.
_QUOTING = {
    "arena/decisions": ("message", "reasoning"),
    "arena/decision_versions": ("message", "reasoning"),
    "arena/refusals": ("message",),
    "benchmark/forecasts": ("raw_response", "reasoning", "error", "contradiction"),
}
#: The column of decisions that is JSON.
_JSON = "decision"
#: First characters that spreadsheets take for the beginning of a formula (OWASP, CSV injection).
FORMULA = r"^([=+\-@\t\r])"
#: Control characters but tabs and ends of lines, which CSV quotes: a terminal that shows the file obeys them.
_CONTROLS = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\u009f]"
_SIGNS = {
    **{chr(code): chr(ord("\N{SYMBOL FOR NULL}") + code) for code in range(0x20) if chr(code) not in "\t\n\r"},
    "\x7f": "\N{SYMBOL FOR DELETE}",
    **{chr(code): "\N{REPLACEMENT CHARACTER}" for code in range(0x80, 0xA0)},
}


def redact_rows(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of the table `name`, such as arena/decisions, without what looks like a credential; those of other tables, and the rest, unchanged."""
    chosen = [column for column in _QUOTING.get(name, ()) if column in frame.columns]
    # Responses are long and keys rare: texts become Python's only where there may be one.
    frame = frame.with_columns(_map_texts(frame[column], redact) for column in chosen if frame[column].str.contains(CREDENTIAL).any())
    if name.startswith("arena/") and _JSON in frame.columns:
        frame = frame.with_columns(_map_texts(frame[_JSON], _redact_json))
    return frame


def _map_texts(texts: pl.Series, change: Any) -> pl.Series:
    """The texts with those replaced that `change` changes; the series itself if none changes."""
    values = texts.to_list()
    changed = [text if text is None else change(text) for text in values]
    return texts if changed == values else pl.Series(texts.name, changed, dtype=texts.dtype)


def _redact_json(text: str) -> str:
    """A decision in JSON, its reasoning and its names of markets, sides and positions without credentials; byte-identical if it has none."""
    try:
        said = json.loads(text)
    except json.JSONDecodeError:
        return redact(text)
    found = _redact_value(said)
    return text if found == said else json.dumps(found)


def _redact_value(value: Any, field: str = "") -> Any:
    if isinstance(value, str):
        return redact(value) if field == "reasoning" else redact_name(value)
    if isinstance(value, Mapping):
        return {name: _redact_value(one, name) for name, one in value.items()}
    if isinstance(value, Sequence):
        return [_redact_value(one, field) for one in value]
    return value


def neutralise_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with an apostrophe before every text that begins like a formula, and a sign in place of every control character.

    An escape becomes `␛`; tabs and ends of lines stay, and so do numbers and times.
    """
    frame = frame.with_columns(pl.col(pl.String).str.replace(FORMULA, "'${1}"))
    odd = [name for name, dtype in frame.schema.items() if dtype == pl.String and frame[name].str.contains(_CONTROLS).any()]
    return frame.with_columns(pl.col(odd).str.replace_many(list(_SIGNS), list(_SIGNS.values())))


def flatten_lists(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with lists as texts in brackets, which are no formula: CSV has no lists."""
    lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    texts = [pl.format("[{}]", pl.col(name).cast(pl.List(pl.String)).list.join("; ", ignore_nulls=True)).alias(name) for name in lists]
    return frame.with_columns(texts)


def write_rows(rows: pl.DataFrame, into: Path) -> None:
    """Write rows as CSV or Parquet, by the end of the file's name; a CSV has no lists and no formulas."""
    with atomic_file(into) as draft:
        if into.suffix.lower() == ".csv":
            flatten_lists(neutralise_formulas(rows)).write_csv(draft)
        else:
            rows.write_parquet(draft)
