"""Checks of what callers hand in."""

from __future__ import annotations

from bellwether.errors import ConfigError

_LARGEST = 2**63 - 1


def natural(value: object, what: str, *, largest: int = _LARGEST) -> None:
    """Raise `ConfigError` unless `value` is None or an integer from 0 to `largest`."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest):
        raise ConfigError(f"{what} is {value!r}; give an integer from 0 to {largest}, or None where it is not known")


def short(value: object, what: str) -> str:
    """Raise `ConfigError` unless `value` is a printable text of 1 to 400 bytes: names are indexed."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value.encode()) > 400:
        raise ConfigError(f"{what} is {value!r:.80}; give a printable text of at most 400 bytes that is not empty")
    return value
