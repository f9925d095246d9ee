"""Things taken together as far as their sizes allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def together_up_to(most: int, things: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Neighbours in lists whose sizes add up to at most `most`; a larger thing is alone."""
    held: list[T] = []
    for one in things:
        if held and sum(map(size, held)) + size(one) > most:
            yield held
            held = []
        held.append(one)
    if held:
        yield held
