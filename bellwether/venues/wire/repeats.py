"""Objects of one page that stand for the same thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from bellwether.venues.wire.columns import Problems


def repeats_of(keys: pl.DataFrame, objects: Sequence[Any], problems: Problems, *, field: str, what: str) -> frozenset[int]:
    """Positions of objects that say again what one with the same key before them said.

    An object that says something else is noted as a problem of `field`: "another `what` says otherwise". Objects with a problem count for nothing.
    """
    repeats: set[int] = set()
    first: dict[tuple[Any, ...], int] = {}
    for index in keys.is_duplicated().arg_true():
        if index in problems:
            continue
        earlier = first.setdefault(keys.row(index), index)
        if earlier != index and objects[earlier] == objects[index]:
            repeats.add(index)
        elif earlier != index:
            problems.note(index, field, objects[index].get(field), f"another {what} says otherwise")
    return frozenset(repeats)
