"""Files and folders that appear whole or not at all: made under another name beside their place, then renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bellwether.errors import BellwetherError


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A path beside `target` to write to; it takes the place of `target` when the block ends, and is gone when the block fails.

    Raises `BellwetherError` when it cannot be written.
    """
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    with _writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield draft
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder beside `target` that takes its place when the block ends; nothing is left of it when the block fails.

    Raises `BellwetherError` when it cannot be written.
    """
    token = secrets.token_hex(4)
    draft, old = (target.with_name(f".{target.name}.{kind}-{token}") for kind in ("tmp", "old"))
    with _writing(target):
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


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BellwetherError(
            f"writing {target}: it cannot be written ({error.strerror or error}); free space or name another place"
        ) from None
