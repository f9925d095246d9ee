"""Restricted proxy of `Gateway` exposed to agents, and its subset for `start`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

from bellwether.replay.agents.gateway import Gateway

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Opening(Gateway):
    """Read-only calls available in `start`."""

    def _refused(self, *arguments: Any) -> None:
        return None

    place = place_many = cancel = cancel_many = cancel_all = amend = quote = quote_many = _refused  # type: ignore[assignment]


#: Names of the calls, those that cost nothing first.
FREE_CALLS = (
    "now",
    "bids",
    "bid_rows",
    "positions",
    "position_rows",
    "statuses",
    "status_list",
    "sizes",
    "cash",
    "available",
    "equity",
    "sent",
    "order",
    "conditions",
)
PRICED_CALLS = (
    "book",
    "resting",
    "are_resting",
    "points",
    "trades",
    "fills",
    "ledger",
    "place",
    "place_many",
    "cancel",
    "cancel_many",
    "cancel_all",
    "amend",
    "quote",
    "quote_many",
)


def hidden(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The same function as an object of C of which no attribute leads to it, and so to nothing that it can reach.

    `lru_cache` that keeps nothing is such an object once `__wrapped__` is gone; what a closure of Python holds can be read off it.
    """
    wrapper: Any = lru_cache(maxsize=0)(function)
    vars(wrapper).clear()
    return wrapper


class Door:
    """The calls of a `Gateway`, hidden, under the same names."""

    __slots__ = (*FREE_CALLS, *PRICED_CALLS)

    def __init__(self, gateway: Gateway) -> None:
        for name in self.__slots__:
            setattr(self, name, hidden(getattr(gateway, name)))
