"""Objects of one page that stand for the same thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import polars as pl

from bellwether.venues.wire.columns import Problems

#: No objects of other pages.
NOTHING: Mapping[Any, Any] = MappingProxyType({})


def repeats_of(
    keys: pl.DataFrame, objects: Sequence[Any], problems: Problems, *, field: str, what: str, earlier: Mapping[Any, Any] = NOTHING
) -> frozenset[int]:
    """Positions of objects that say again what one with the same key before them said.

    An object that says something else is noted as a problem of `field`: "another `what` says otherwise". Objects with a problem count for
    nothing. earlier: objects of the pages before by their key, which is then a single column.
    """
    repeats: set[int] = set()
    first: dict[tuple[Any, ...], Any] = {(key,): item for key, item in earlier.items()}
    mask = keys.is_duplicated()
    if earlier:
        mask |= keys.to_series().is_in(list(earlier))
    for index in mask.arg_true():
        if index in problems:
            continue
        key = keys.row(index)
        if key not in first:
            first[key] = objects[index]
        elif first[key] == objects[index]:
            repeats.add(index)
        else:
            problems.note(index, field, objects[index].get(field), f"another {what} says otherwise")
    return frozenset(repeats)
