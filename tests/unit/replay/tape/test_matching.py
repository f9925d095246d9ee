"""Matching of prints with the cuts that they made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bellwether.replay.tape import kernels
from bellwether.replay.tape.layout import INVALID, LEVEL, VALID, freeze, pack
from bellwether.replay.units import SECOND

Step = tuple[Any, ...]
SOON: Step = ("pause", 1)


def matched(*steps: Step) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Return (change, print, lots) of each match, and the unmatched lots of each print.

    The first change shows 100 lots at a level. Steps are ("row", kind, lots) of that level or market, ("print", lots), ("quiet", messages) and
    ("pause", ns).
    """
    rows, prints, now = [(0, [pack(LEVEL, 0, 0, 1, 100)])], [], 0
    for kind, *rest in steps:
        if kind == "row":
            rows.append((now, [pack(rest[0], 0, 0, 1 if rest[0] == LEVEL else 0, rest[1])]))
        elif kind == "print":
            prints.append((now, rest[0]))
        elif kind == "pause":
            now += rest[0]
        else:
            rows += [(now, [])] * rest[0]
    zeros, ones = np.zeros(len(prints), np.int64), np.ones(len(prints), np.int64)
    word, number, lots, left = kernels.match_prints(
        freeze([ts for ts, _ in rows]),
        freeze([0] * len(rows), np.int32),
        freeze(np.cumsum([len(words) for _, words in rows])),
        freeze([word for _, words in rows for word in words]),
        freeze([ts for ts, _ in prints]),
        freeze(zeros, np.int32),
        freeze(zeros),
        freeze(ones),
        freeze([size for _, size in prints]),
        2,
        102,
    )
    return list(zip(word.tolist(), number.tolist(), lots.tolist(), strict=True)), left.tolist()


def row(size: int, kind: int = LEVEL) -> Step:
    return "row", kind, size


def printed(lots: int) -> Step:
    return "print", lots


@pytest.mark.parametrize(
    ("steps", "matches", "left"),
    [
        ([row(60), SOON, printed(40)], [(1, 0, 40)], [0]),
        ([printed(40), SOON, row(60)], [(1, 0, 40)], [0]),
        ([row(60), SOON, row(30), SOON, printed(50)], [(2, 0, 30), (1, 0, 20)], [0]),
        ([row(60), SOON, row(30), SOON, printed(40)], [(1, 0, 40)], [0]),
        ([printed(30), printed(30), SOON, row(60)], [(1, 0, 30), (1, 1, 10)], [0, 20]),
        ([row(60), ("pause", 2 * SECOND), printed(40)], [(1, 0, 40)], [0]),
        ([row(60), ("pause", 2 * SECOND + 1), printed(40)], [], [40]),
        ([row(60), ("quiet", 39), SOON, printed(40)], [(1, 0, 40)], [0]),
        ([row(60), ("quiet", 40), SOON, printed(40)], [], [40]),
        ([row(0, INVALID), row(60), row(0, VALID), printed(40)], [], [40]),
    ],
    ids=[
        "the cut before it",
        "the cut behind it",
        "the nearest cut first",
        "a cut of just its size first",
        "the print that waits longest first",
        "late",
        "too late",
        "many messages between",
        "too many messages between",
        "no snapshot after a gap",
    ],
)
def test_a_print_belongs_to(steps: list[Step], matches: list[tuple[int, int, int]], left: list[int]) -> None:
    assert matched(*steps) == (matches, left)
