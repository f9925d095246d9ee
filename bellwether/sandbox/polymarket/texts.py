"""Numbers and times as the venue writes them."""

from __future__ import annotations

from bellwether.sandbox.instants import SECOND, moment
from bellwether.sandbox.polymarket.quotes import MONEY


def decimal(value: int, digits: int) -> str:
    """An integer of so many decimal digits, without trailing zeros: (4700, 4) is 0.47."""
    whole, rest = divmod(value, 10**digits)
    return f"{whole}.{rest:0{digits}d}".rstrip("0").rstrip(".")


def money(amount: int) -> float:
    """Dollars from 1/100000 dollars."""
    return amount / MONEY


def date_of(at: int) -> str:
    """The UTC date of an instant."""
    return moment(at).date().isoformat()


def whole_seconds(at: int) -> str:
    """An instant to the second, with Z."""
    return f"{moment(at // SECOND * SECOND).isoformat()[:19]}Z"


def milliseconds(at: int) -> str:
    """An instant to the millisecond, with Z."""
    return f"{moment(at).isoformat(timespec='milliseconds')[:23]}Z"


def spaced(at: int) -> str:
    """An instant to the second in the venue's other form, such as 2026-07-24 00:00:16+00."""
    return f"{moment(at // SECOND * SECOND).isoformat(sep=' ')[:19]}+00"
