"""Names in tables that are narrower than they are: shortened in the middle, and still distinct."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_LEAST = 5


def shortened(names: Sequence[str], width: int) -> Mapping[str, str]:
    """Each of `names`, distinct, with at most `width` characters where that leaves them distinct: `GPT-5.2-XHigh` in 9 is `GPT-…High`.

    Names keep their beginning and their end; where several come out alike, their ends get more room, and at last each gets its number.
    """
    distinct = list(dict.fromkeys(names))
    room = max(width, _LEAST)
    for tail in range((room - 1) // 2, room):
        short = [name if len(name) <= room else f"{name[: room - 1 - tail]}…{name[len(name) - tail :]}" for name in distinct]
        if len(set(short)) == len(distinct):
            return dict(zip(distinct, short, strict=True))
    return {name: name if len(name) <= room and not _numbers(name) else f"#{index}" for index, name in enumerate(distinct, 1)}


def _numbers(name: str) -> bool:
    """Whether a name could be taken for a number of this table."""
    return name.startswith("#")
