"""Short forms of untrusted text: on one line, or shortened in the middle and still distinct."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

from rich.cells import cell_len

_LEAST = 5


def one_line(text: str, most: int | None = None) -> str:
    """`text` on one line of at most `most` characters; what cannot be printed becomes a space."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return line if most is None or len(line) <= most else line[: most - 1] + "…"


def shortened(names: Sequence[str], width: int) -> Mapping[str, str]:
    """Each of `names`, distinct, at most `width` columns wide where that leaves them distinct: `GPT-5.2-XHigh` in 9 is `GPT-…High`.

    Names keep their beginning and their end; where several come out alike, their ends get more room, and at last each gets its number.
    """
    distinct = list(dict.fromkeys(names))
    room = max(width, _LEAST)
    for tail in range((room - 1) // 2, room):
        short = [name if cell_len(name) <= room else f"{_beginning(name, room - 1 - tail)}…{_end(name, tail)}" for name in distinct]
        if len(set(short)) == len(distinct):
            return dict(zip(distinct, short, strict=True))
    return {name: name if cell_len(name) <= room and not _numbers(name) else f"#{index}" for index, name in enumerate(distinct, 1)}


def _beginning(name: str, width: int) -> str:
    """As many characters of the beginning as take at most `width` columns; letters of East Asian scripts take two."""
    taken = list(accumulate(map(cell_len, name)))
    return name[: bisect_right(taken, width)]


def _end(name: str, width: int) -> str:
    taken = list(accumulate(map(cell_len, reversed(name))))
    return name[len(name) - bisect_right(taken, width) :]


def _numbers(name: str) -> bool:
    """Whether a name could be taken for a number of this table."""
    return name.startswith("#")
