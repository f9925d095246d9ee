"""Metadata of an episode: window, markets with terms and lifecycle, gaps, and settlements."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from bellwether.errors import SchemaError
from bellwether.replay import units
from bellwether.replay.episode.price_grid import CENTS, Ranges, dump_ranges, parse_ranges
from bellwether.units import MicroDollars

if TYPE_CHECKING:
    import numpy as np

#: Formats of episodes in whole tenths of a cent, and with finer prices or changing grids.
FORMAT, FINE_FORMAT = "bellwether-episode/1", "bellwether-episode/2"
METADATA, SETTLEMENT, EXOGENOUS = "metadata.json", "settlement.json", "exogenous.parquet"

EVENTS = ("open", "halt", "close")
EXECUTIONS = ("maker_taker", "taker_only")
RESULTS = ("YES", "NO", "SCALAR", "VOID")
#: Maximum time, in 2262.
LATEST = 2**63 - 1
_BANKROLL = MicroDollars(1_000_000_000)
#: Maximum bankroll, in cents: ten billion dollars.
_MOST_CENTS = 10**12


def _is_range(span: Any) -> bool:
    """Return True if a value is a (start, end, step) of prices."""
    if not isinstance(span, tuple) or len(span) != 3 or not all(type(price) is int for price in span):
        return False
    start, end, step = span
    return 0 <= start <= end <= units.DOLLAR and step > 0


_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Phase:
    """Change of a market's trading phase: opening, halt or close.

    at: ns UTC. event: open, halt or close. source: origin of the information.
    """

    at: int
    event: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class GridChange:
    """Change of a market's price grid at time `at` (ns UTC) to `price_ranges`. source: origin of the information."""

    at: int
    price_ranges: Ranges
    source: str | None = None


#: Fields that determine the fees of a market.
_FEE_STATED = ("type", "schedule", "category", "enabled")


@dataclass(frozen=True, slots=True)
class Market:
    """One market of an episode. Times in ns UTC, None if unknown.

    price_ranges: (start, end, step) in $0.0001 of the prices allowed for orders. fee: the venue's terms, as for
    `bellwether.replay.rules.fee_terms`. lifecycle, grid_changes: in chronological order.
    """

    ticker: str
    title: str | None = None
    open_time: int | None = None
    close_time: int | None = None
    price_ranges: Ranges = CENTS
    fee: Mapping[str, Any] = field(default_factory=dict)
    lifecycle: tuple[Phase, ...] = ()
    grid_changes: tuple[GridChange, ...] = ()

    def __post_init__(self) -> None:
        for span in self.price_ranges:
            if not _is_range(span):
                raise SchemaError(
                    f"making the market {self.ticker}: price_ranges has {span!r:.80}; give (start, end, step) in whole units of "
                    f"bellwether.replay.units, from 0 to {units.DOLLAR}, such as {CENTS[0]}"
                )

    @property
    def has_default_fee(self) -> bool:
        """True if the episode states no fee terms for the market, so that the venue's general fees apply."""
        return self.fee.get("source") == "default" or not any(self.fee.get(name) is not None for name in _FEE_STATED)

    @property
    def grids(self) -> tuple[tuple[int, Ranges], ...]:
        """Price grids as (ns UTC from which the grid is valid, price ranges), in order; the first is valid from 0 on."""
        return ((0, self.price_ranges), *((change.at, change.price_ranges) for change in self.grid_changes))

    def price_grids(self) -> list[tuple[int, np.ndarray]]:
        """Return the price grids as (ns UTC from which the grid is valid, its prices: int64, ascending, above 0 and below a dollar)."""
        from bellwether.replay.episode.price_levels import grid_prices  # a list of episodes needs no arrays

        return [(at, grid_prices(ranges)) for at, ranges in self.grids]

    @property
    def close(self) -> int | None:
        """End of trading, ns UTC: the close in `lifecycle` if there is one, otherwise `close_time`."""
        return next((phase.at for phase in self.lifecycle if phase.event == "close"), self.close_time)


@dataclass(frozen=True, slots=True)
class Gap:
    """Period from `start` to `end` (ns UTC; None: to the end of the episode) in which the book of `ticker` is invalid."""

    ticker: str
    start: int
    end: int | None
    cause: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """Settlement of a market.

    result: YES, NO, SCALAR, VOID or None. value: payout of a YES contract in micro-dollars, None for VOID and unknown. at: ns UTC; a market
    without result or time never settles. source: origin of the information.
    """

    ticker: str
    result: str | None = None
    value: MicroDollars | None = None
    at: int | None = None
    source: str | None = None

    @property
    def is_known(self) -> bool:
        """True if result and time of the settlement are known, so that the market settles in the replay."""
        return self.result is not None and self.at is not None


@dataclass(frozen=True, slots=True)
class Series:
    """Name and unit of an exogenous series: values from outside the market, such as a reference price."""

    name: str
    unit: str | None = None


@dataclass(frozen=True)
class Metadata:
    """Metadata of an episode. Times in ns UTC, money in micro-dollars.

    start, end: the recorded window. markets: one per ticker, in the order of `tickers`. rules: name of a rule set; None: the venue's rules
    on the day of `start`. source: origin of the episode. observation_depth: number of levels shown to agents, -1 for all.
    """

    episode_id: str
    start: int
    end: int
    markets: tuple[Market, ...]
    event_slug: str = ""
    venue: str = "kalshi"
    title: str | None = None
    mutually_exclusive: bool | None = None
    rules: str | None = None
    bankroll: MicroDollars = _BANKROLL
    fee_model_version: str | None = None
    execution_mode: str = "maker_taker"
    observation_depth: int = -1
    has_trades: bool = True
    description: str = ""
    source: Mapping[str, Any] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    exogenous: tuple[Series, ...] = ()

    @property
    def tickers(self) -> tuple[str, ...]:
        """Tickers in the order of their codes."""
        return tuple(market.ticker for market in self.markets)


class Fields:
    """Typed access to the fields of a JSON object. Raises `SchemaError` with file, field and value for an invalid field."""

    def __init__(self, values: Any, file: str, where: str = "") -> None:
        self.file, self.where = file, where
        if not isinstance(values, dict):
            raise self.value_error("", values, "an object")
        self.values: dict[str, Any] = values

    def value_error(self, name: str, value: Any, wanted: str) -> SchemaError:
        """Build the error for an invalid value of field `name`. wanted: description of the valid values."""
        path = ".".join(part for part in (self.where, name) if part)
        return SchemaError(f"reading {self.file}: {path or 'the file'} is {value!r:.80}; it must be {wanted}")

    def required(self, name: str, kind: type, wanted: str) -> Any:
        """Read a field of type `kind`. Raises `SchemaError` if it is missing or another type. wanted: description of the valid values."""
        value = self.optional(name, kind, wanted)
        if value is None:
            raise self.value_error(name, None, wanted)
        return value

    def optional(self, name: str, kind: type, wanted: str) -> Any:
        """Read a field of type `kind`; None if it is missing. wanted: description of the valid values, for the error."""
        value = self.values.get(name)
        if value is not None and type(value) is not kind:
            raise self.value_error(name, value, wanted)
        return value

    def text(self, name: str, default: str | None = None) -> Any:
        """Read a text; `default` if it is missing."""
        value = self.optional(name, str, "text")
        return default if value is None else value

    def one_of(self, name: str, choices: Sequence[str], *, required: bool = False) -> Any:
        """Read a text that must be one of `choices`; None if it is missing and not required."""
        value = self.text(name)
        if (value is not None or required) and value not in choices:
            raise self.value_error(name, value, f"one of {', '.join(choices)}")
        return value

    def time(self, name: str, *, required: bool = False) -> Any:
        """Read a time in ns UTC; None if it is missing and not required."""
        value = self.values.get(name)
        if value is None and not required:
            return None
        at = parse_nanoseconds(value) if isinstance(value, str) else None
        if at is None:
            raise self.value_error(name, value, "an ISO 8601 time with its zone, such as 2026-01-20T22:00:00Z")
        return at

    def objects(self, name: str) -> list[Fields]:
        """Read a list of objects; empty if it is missing."""
        items, path = self.optional(name, list, "a list of objects") or [], f"{self.where}.{name}".lstrip(".")
        return [Fields(item, self.file, f"{path}[{index}]") for index, item in enumerate(items)]


def parse_nanoseconds(text: str) -> int | None:
    """Parse an ISO 8601 time with zone to nanoseconds UTC. None if invalid or outside of 1970 to 2262."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    try:
        since = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone == 'Z' else zone}") - datetime(1970, 1, 1, tzinfo=UTC)
    except ValueError:
        return None
    at = (since.days * 86_400 + since.seconds) * units.SECOND + int((fraction or "0").ljust(9, "0"))
    return at if 0 <= at <= LATEST else None


def format_iso(at: int | None) -> str | None:
    """Format a time (ns UTC) as ISO 8601 with microseconds, or with nanoseconds if needed; None for None."""
    if at is None:
        return None
    seconds, rest = divmod(at, units.SECOND)
    fraction = f"{rest:09d}" if rest % 1000 else f"{rest // 1000:06d}"
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction}+00:00"


def read_json(folder: Path, name: str) -> Any:
    """Read a JSON file of an episode. Raises `SchemaError` if it is missing or unreadable."""
    try:
        return orjson.loads((folder / name).read_bytes())
    except FileNotFoundError:
        raise SchemaError(f"reading {folder.name}: {name} is missing; an episode has one") from None
    except (OSError, orjson.JSONDecodeError) as error:
        raise SchemaError(f"reading {name}: not a readable JSON file ({error}); restore it") from None


def parse_metadata(values: Any) -> Metadata:
    """Parse the content of `metadata.json`, native or of PredictionMarketBench. Raises `SchemaError` with field and value."""
    fields = Fields(values, METADATA)
    if fields.values.get("format") not in (None, FORMAT, FINE_FORMAT):
        raise fields.value_error("format", values["format"], f"{FORMAT!r} or {FINE_FORMAT!r}; a newer version of this project may read it")
    tickers = _parse_tickers(fields)
    start, end = fields.time("start_ts", required=True), fields.time("end_ts", required=True)
    if end < start:
        raise fields.value_error("end_ts", values["end_ts"], f"at or after start_ts, {values['start_ts']}")
    has_trades = fields.optional("has_trades_tape", bool, "true or false")
    return Metadata(
        episode_id=fields.required("episode_id", str, "text"),
        start=start,
        end=end,
        markets=_parse_markets(fields, tickers),
        event_slug=fields.text("event_slug", ""),
        venue=fields.text("venue", "kalshi"),
        title=fields.text("title"),
        mutually_exclusive=fields.optional("mutually_exclusive", bool, "true, false or null"),
        rules=fields.text("rules"),
        bankroll=_parse_bankroll(fields),
        fee_model_version=fields.text("fee_model_version"),
        execution_mode=fields.one_of("execution_mode", EXECUTIONS) or "maker_taker",
        observation_depth=_default_if_none(fields.optional("observation_depth", int, "a whole number, -1 for all levels"), -1),
        has_trades="format" in fields.values if has_trades is None else has_trades,
        description=fields.text("description", ""),
        source=fields.optional("source", dict, "an object") or {},
        gaps=tuple(_parse_gap(gap, tickers) for gap in fields.objects("gaps")),
        exogenous=tuple(_parse_series(fields)),
    )


def _default_if_none(value: Any, default: Any) -> Any:
    return default if value is None else value


def _parse_tickers(fields: Fields) -> list[str]:
    tickers = fields.required("tickers", list, "a list of tickers")
    for ticker in tickers:
        if not isinstance(ticker, str) or not ticker:
            raise fields.value_error("tickers", ticker, "text")
    if not tickers or len(set(tickers)) < len(tickers):
        raise fields.value_error("tickers", tickers, "at least one ticker, each named once")
    return tickers


def _parse_bankroll(fields: Fields) -> MicroDollars:
    cents = _default_if_none(fields.optional("initial_bankroll_cents", int, "a whole number of cents"), 100_000)
    if not 0 < cents <= _MOST_CENTS:
        raise fields.value_error("initial_bankroll_cents", cents, f"above 0, up to {_MOST_CENTS}")
    return MicroDollars(cents * units.CENT_MICROS)


def _parse_markets(fields: Fields, tickers: list[str]) -> tuple[Market, ...]:
    markets: dict[str, Market] = {}
    for market in fields.objects("markets"):
        ticker = market.required("ticker", str, "text")
        if ticker not in tickers or ticker in markets:
            raise market.value_error("ticker", ticker, "one of tickers, each once")
        markets[ticker] = _parse_market(market, ticker)
    if markets and len(markets) < len(tickers):
        missing = next(ticker for ticker in tickers if ticker not in markets)
        raise fields.value_error("markets", sorted(markets), f"one object of each ticker; {missing} has none")
    return tuple(markets.get(ticker) or Market(ticker) for ticker in tickers)


def _parse_market(fields: Fields, ticker: str) -> Market:
    lifecycle = tuple(
        Phase(phase.time("at", required=True), phase.one_of("event", EVENTS, required=True), phase.text("source"))
        for phase in fields.objects("lifecycle")
    )
    for phase, following in itertools.pairwise(lifecycle):
        if following.at < phase.at or phase.event == "close":
            raise fields.value_error("lifecycle", format_iso(following.at), "in chronological order, with nothing after a close")
    changes = tuple(
        GridChange(change.time("at", required=True), _parse_price_ranges(change), change.text("source"))
        for change in fields.objects("grid_changes")
    )
    if any(following.at <= change.at for change, following in itertools.pairwise(changes)):
        times = [format_iso(change.at) for change in changes]
        raise fields.value_error("grid_changes", times, "in chronological order, at different times")
    return Market(
        ticker=ticker,
        title=fields.text("title"),
        open_time=fields.time("open_time"),
        close_time=fields.time("close_time"),
        price_ranges=_parse_price_ranges(fields) if fields.values.get("price_ranges") is not None else CENTS,
        fee=fields.optional("fee", dict, "an object") or {},
        lifecycle=lifecycle,
        grid_changes=changes,
    )


def _parse_price_ranges(fields: Fields) -> Ranges:
    try:
        return parse_ranges(fields.required("price_ranges", list, "a list of [start, end, step] in dollars"))
    except SchemaError as error:
        raise SchemaError(f"reading {fields.file}: {fields.where}.price_ranges: {error}") from None


def _parse_gap(fields: Fields, tickers: list[str]) -> Gap:
    ticker = fields.required("ticker", str, "text")
    if ticker not in tickers:
        raise fields.value_error("ticker", ticker, "one of the episode's tickers")
    start, end = fields.time("from", required=True), fields.time("to")
    if end is not None and end < start:
        raise fields.value_error("to", fields.values["to"], "at or after from")
    return Gap(ticker, start, end, fields.text("cause", ""))


def _parse_series(fields: Fields) -> list[Series]:
    all_series = [Series(series.required("name", str, "text"), series.text("unit")) for series in fields.objects("exogenous")]
    if len({series.name for series in all_series}) < len(all_series):
        raise fields.value_error("exogenous", [series.name for series in all_series], "series of different names")
    return all_series


def dump_metadata(metadata: Metadata, digest: str, form: str = FORMAT) -> dict[str, Any]:
    """Build the content of `metadata.json`, which `parse_metadata` reads. digest: of the content. form: FORMAT or FINE_FORMAT."""
    return {
        "format": form,
        "episode_id": metadata.episode_id,
        "event_slug": metadata.event_slug,
        "venue": metadata.venue,
        "title": metadata.title,
        "description": metadata.description,
        "tickers": list(metadata.tickers),
        "start_ts": format_iso(metadata.start),
        "end_ts": format_iso(metadata.end),
        "mutually_exclusive": metadata.mutually_exclusive,
        "rules": metadata.rules,
        "initial_bankroll_cents": metadata.bankroll // units.CENT_MICROS,
        "fee_model_version": metadata.fee_model_version,
        "execution_mode": metadata.execution_mode,
        "observation_depth": metadata.observation_depth,
        "has_trades_tape": metadata.has_trades,
        "digest": digest,
        "source": dict(metadata.source),
        "gaps": [
            {"ticker": gap.ticker, "from": format_iso(gap.start), "to": format_iso(gap.end), "cause": gap.cause} for gap in metadata.gaps
        ],
        "exogenous": [{"name": series.name, "unit": series.unit} for series in metadata.exogenous],
        "markets": [dump_market(market) for market in metadata.markets],
    }


def dump_market(market: Market) -> dict[str, Any]:
    """Build the JSON object of a market."""
    changes = [
        {"at": format_iso(change.at), "price_ranges": dump_ranges(change.price_ranges), "source": change.source}
        for change in market.grid_changes
    ]
    return {
        "ticker": market.ticker,
        "title": market.title,
        "open_time": format_iso(market.open_time),
        "close_time": format_iso(market.close_time),
        "price_ranges": dump_ranges(market.price_ranges),
        "fee": dict(market.fee),
        "lifecycle": [{"at": format_iso(phase.at), "event": phase.event, "source": phase.source} for phase in market.lifecycle],
        **({"grid_changes": changes} if changes else {}),
    }
