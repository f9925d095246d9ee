"""What identifies the questions of a release."""

from __future__ import annotations

import hashlib
import json

import polars as pl


def digest(questions: pl.DataFrame) -> str:
    """SHA-256 of a release's questions: of everything in their rows but the release's own name, in their order."""
    rows = questions.sort("ordinal").drop("release", "version").rows(named=True)
    text = json.dumps(rows, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
