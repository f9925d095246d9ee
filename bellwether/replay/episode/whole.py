"""Files and folders that appear whole or not at all: made under another name beside their place, then renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A path beside `target` to write to; it takes the place of `target` when the block ends, and is gone when the block fails."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        yield draft
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder beside `target` that takes its place when the block ends; nothing is left of it when the block fails."""
    token = secrets.token_hex(4)
    draft, old = (target.with_name(f".{target.name}.{kind}-{token}") for kind in ("tmp", "old"))
    try:
        draft.mkdir(parents=True)
        yield draft
        if target.exists():
            os.rename(target, old)
        os.rename(draft, target)
    finally:
        if old.exists() and not target.exists():
            os.rename(old, target)
        for rest in (draft, old):
            shutil.rmtree(rest, ignore_errors=True)
