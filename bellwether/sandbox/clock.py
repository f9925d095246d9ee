"""The sandbox's clock: the real one, or one that stands still."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime

from bellwether.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Clock:
    """What time it is in the sandbox: `fixed`, or the real time when left out.

    Raises `ConfigError` when `fixed` has no time zone.
    """

    fixed: datetime | None = None

    def __post_init__(self) -> None:
        if self.fixed is not None and self.fixed.tzinfo is None:
            raise ConfigError(f"set the sandbox's clock: {self.fixed.isoformat()} has no time zone; write it with Z or an offset")

    def now(self) -> datetime:
        """The present moment, aware, in UTC."""
        return datetime.now(UTC) if self.fixed is None else self.fixed.astimezone(UTC)

    def date_header(self) -> str:
        """The present moment as an HTTP date."""
        return format_datetime(self.now(), usegmt=True)
