"""Export of rows for other programs, without credentials and without text that a spreadsheet would execute as a formula."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from bellwether.formatting import CREDENTIAL, redact, redact_name

#: Columns with text of models, by table. `messages` is stored without credentials; the journal keeps the original text.
_QUOTING = {
    "arena/decisions": ("message", "reasoning"),
    "arena/decision_versions": ("message", "reasoning"),
    "arena/refusals": ("message",),
    "benchmark/forecasts": ("raw_response", "reasoning", "error", "contradiction"),
}
#: JSON column of decisions.
_JSON = "decision"
#: First characters of a formula in spreadsheets (OWASP, CSV injection).
FORMULA = r"^([=+\-@\t\r])"
#: Control characters, which a terminal would interpret; without tabs and line ends, which CSV quotes.
_CONTROLS = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\u009f]"
_SIGNS = {
    **{chr(code): chr(ord("\N{SYMBOL FOR NULL}") + code) for code in range(0x20) if chr(code) not in "\t\n\r"},
    "\x7f": "\N{SYMBOL FOR DELETE}",
    **{chr(code): "\N{REPLACEMENT CHARACTER}" for code in range(0x80, 0xA0)},
}


def redact_rows(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Remove credentials from texts that models wrote, in rows of the table `name`. Rows of tables without such texts are returned unchanged."""
    chosen = [column for column in _QUOTING.get(name, ()) if column in frame.columns]
    # Texts are long and credentials rare: only texts that may contain one are converted to Python strings.
    frame = frame.with_columns(_map_texts(frame[column], redact) for column in chosen if frame[column].str.contains(CREDENTIAL).any())
    if name.startswith("arena/") and _JSON in frame.columns:
        frame = frame.with_columns(_map_texts(frame[_JSON], _redact_json))
    return frame


def _map_texts(texts: pl.Series, change: Any) -> pl.Series:
    """Apply `change` to each text. Returns the same series object if no text changes."""
    values = texts.to_list()
    changed = [text if text is None else change(text) for text in values]
    return texts if changed == values else pl.Series(texts.name, changed, dtype=texts.dtype)


def _redact_json(text: str) -> str:
    """Remove credentials from a decision in JSON. Returns the text unchanged if the decision contains none."""
    try:
        decision = json.loads(text)
    except json.JSONDecodeError:
        return redact(text)
    redacted = _redact_value(decision)
    return text if redacted == decision else json.dumps(redacted)


def _redact_value(value: Any, field: str = "") -> Any:
    """Remove credentials from a JSON value and everything nested in it. field: name under which the value is stored."""
    if isinstance(value, str):
        return redact(value) if field == "reasoning" else redact_name(value)
    if isinstance(value, Mapping):
        return {name: _redact_value(part, name) for name, part in value.items()}
    if isinstance(value, Sequence):
        return [_redact_value(part, field) for part in value]
    return value


def neutralise_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Put an apostrophe before texts that a spreadsheet would execute as a formula, and replace control characters by visible symbols.

    An escape becomes `␛`; tabs, line ends, numbers and times are unchanged.
    """
    frame = frame.with_columns(pl.col(pl.String).str.replace(FORMULA, "'${1}"))
    odd = [name for name, dtype in frame.schema.items() if dtype == pl.String and frame[name].str.contains(_CONTROLS).any()]
    return frame.with_columns(pl.col(odd).str.replace_many(list(_SIGNS), list(_SIGNS.values())))


def flatten_lists(frame: pl.DataFrame) -> pl.DataFrame:
    """Convert lists to texts in brackets, because CSV has no lists."""
    lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    texts = [pl.format("[{}]", pl.col(name).cast(pl.List(pl.String)).list.join("; ", ignore_nulls=True)).alias(name) for name in lists]
    return frame.with_columns(texts)
