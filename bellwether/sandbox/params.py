"""Query parameters as the venue checks them, and its error bodies."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from starlette.datastructures import QueryParams

from bellwether.sandbox.instants import SECOND
from bellwether.sandbox.source import Key

#: Filter word -> the response words it returns; words of 2024 that were the same on both sides are accepted as synonyms.
STATUSES: dict[str, frozenset[str]] = {
    "unopened": frozenset({"initialized", "unopened"}),
    "open": frozenset({"active", "open"}),
    "paused": frozenset({"inactive", "paused"}),
    "closed": frozenset({"closed", "determined", "disputed", "amended"}),
    "settled": frozenset({"finalized", "settled"}),
}
EVENT_STATUSES = ("unopened", "open", "closed", "settled")
PERIODS = (1, 60, 1440)

_CURSOR = b"k1:"
_INTEGER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Refusal(Exception):
    """A request that the venue answers with an error."""

    status: int
    code: str
    message: str
    details: str

    @property
    def body(self) -> dict[str, dict[str, str]]:
        """The error's JSON body."""
        return {"error": {"code": self.code, "message": self.message, "details": self.details}}


def bad_request(details: str) -> Refusal:
    """HTTP 400."""
    return Refusal(400, "bad_request", "bad request", details)


def not_found(details: str) -> Refusal:
    """HTTP 404."""
    return Refusal(404, "not_found", "not found", details)


class Params:
    """The query of one request. An empty value counts as absent; unknown parameters are ignored, as the venue does."""

    def __init__(self, query: QueryParams) -> None:
        self._query = query

    def text(self, name: str) -> str | None:
        """The value, None when absent."""
        return self._query.get(name) or None

    def integer(self, name: str) -> int | None:
        """A whole number. Raises `Refusal` for anything else."""
        value = self.text(name)
        if value is None:
            return None
        if not _INTEGER.fullmatch(value):
            raise bad_request(f"invalid {name}: not an integer")
        return int(value)

    def flag(self, name: str) -> bool:
        """True or false; false when absent."""
        value = (self.text(name) or "false").lower()
        if value not in ("true", "false"):
            raise bad_request(f"invalid {name}: not a boolean")
        return value == "true"

    def instant(self, name: str) -> int | None:
        """A Unix timestamp in seconds, as an instant."""
        seconds = self.integer(name)
        return None if seconds is None else seconds * SECOND

    def needed_instant(self, name: str) -> int:
        """A Unix timestamp that must be there."""
        value = self.instant(name)
        if value is None:
            raise bad_request(f"missing {name}")
        return value

    def limit(self, least: int, most: int, default: int) -> int:
        """The page size; 0, where allowed, stands for the default."""
        value = self.integer("limit")
        if value is None:
            return default
        if not least <= value <= most:
            raise bad_request(f"invalid limit: must be between {least} and {most}")
        return value or default

    def tickers(self, name: str = "tickers") -> tuple[str, ...] | None:
        """A comma-separated list."""
        value = self.text(name)
        return None if value is None else tuple(ticker for ticker in value.split(",") if ticker)

    def repeated(self, name: str) -> tuple[str, ...]:
        """All values of a parameter that may be there several times."""
        return tuple(filter(None, self._query.getlist(name)))

    def word(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """One of the allowed words."""
        value = self.text(name)
        if value is not None and value not in allowed:
            raise bad_request(f"invalid {name} filter")
        return value

    def period(self) -> int:
        """The candles' length in minutes."""
        value = self.integer("period_interval")
        if value not in PERIODS:
            raise bad_request("invalid period_interval: must be 1, 60 or 1440")
        return value

    def cursor(self) -> Key | None:
        """The position after which the page begins."""
        value = self.text("cursor")
        if value is None:
            return None
        try:
            plain = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
            if not plain.startswith(_CURSOR):
                raise ValueError(value)
            return tuple(int(part) for part in plain[len(_CURSOR) :].split(b","))
        except (ValueError, binascii.Error):
            raise bad_request("invalid cursor") from None


def cursor_after(key: Key) -> str:
    """The cursor of a page whose last row has this key."""
    return base64.urlsafe_b64encode(_CURSOR + ",".join(map(str, key)).encode()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Window:
    """A pair of timestamp filters on one time of a market: strictly after `low` and strictly before `high`."""

    low: int | None
    high: int | None
    closed_above: bool = False

    def holds(self, value: int | None) -> bool:
        """Whether a time lies within; a market without that time does not, unless nothing is asked."""
        if self.low is None and self.high is None:
            return True
        if value is None:
            return False
        above = self.high is None or value < self.high or (self.closed_above and value == self.high)
        return (self.low is None or value > self.low) and above

    @property
    def asked(self) -> bool:
        """Whether either filter was given."""
        return self.low is not None or self.high is not None


@dataclass(frozen=True, slots=True)
class MarketFilter:
    """The filters of GET /markets."""

    event_ticker: str | None
    series_ticker: str | None
    tickers: tuple[str, ...] | None
    status: str | None
    combos: str | None
    created: Window
    updated: Window
    closes: Window
    settled: Window

    @classmethod
    def of(cls, params: Params) -> MarketFilter:
        """Read them. Raises `Refusal` for unknown words; combinations that the venue forbids are answered."""
        return cls(
            event_ticker=params.text("event_ticker"),
            series_ticker=params.text("series_ticker"),
            tickers=params.tickers(),
            status=params.word("status", tuple(STATUSES)),
            combos=params.word("mve_filter", ("only", "exclude")),
            created=Window(params.instant("min_created_ts"), params.instant("max_created_ts")),
            updated=Window(params.instant("min_updated_ts"), params.instant("max_updated_ts"), closed_above=True),
            closes=Window(params.instant("min_close_ts"), params.instant("max_close_ts")),
            settled=Window(params.instant("min_settled_ts"), params.instant("max_settled_ts")),
        )
