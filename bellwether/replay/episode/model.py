"""Metadata of an episode: window, markets with price grids, terms and lifecycle, gaps, and settlements; with their JSON files."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from pydantic import BeforeValidator, PlainSerializer, TypeAdapter, ValidationError

from bellwether.errors import SchemaError
from bellwether.files import folders
from bellwether.recordings.exchange_times import format_time, parse_time
from bellwether.replay import units
from bellwether.replay.units import DOLLAR, centicents
from bellwether.units import CentiCents, MicroDollars

if TYPE_CHECKING:
    import numpy as np

#: Start, end and step of prices allowed for orders, in $0.0001.
PriceRange = tuple[CentiCents, CentiCents, CentiCents]
Ranges = tuple[PriceRange, ...]


def parse_ranges(spans: Iterable[Any]) -> Ranges:
    """Parse price ranges and sort them by start. spans: [start, end, step] or objects with these fields, dollars as text.

    Raises `SchemaError` for a price outside 0 to a dollar or finer than $0.0001, for a step of 0, and for ranges without a price between 0
    and a dollar.
    """
    spans, ranges = list(spans), list[PriceRange]()
    for span in spans:
        try:
            values = [span[name] for name in ("start", "end", "step")] if isinstance(span, dict) else span
            start, end, step = (centicents(Decimal(str(value))) for value in values)
        except (TypeError, ValueError, KeyError, ArithmeticError, SchemaError):
            raise SchemaError(f"the price range {span!r:.80} is no start, end and step in dollars, whole hundredths of a cent") from None
        ranges.append((start, end, step))
    return check_ranges(tuple(sorted(ranges)))


def check_ranges(ranges: Ranges) -> Ranges:
    """Return valid price ranges. Raises `SchemaError` for others, as `parse_ranges` does."""
    for span in ranges:
        is_range = isinstance(span, tuple) and len(span) == 3 and all(type(price) is int for price in span)
        if not is_range or not 0 <= span[0] <= span[1] <= DOLLAR or span[2] <= 0:
            raise SchemaError(
                f"the price range {span!r:.80} is no start, end and step in whole units of $0.0001, from 0 to {DOLLAR}, such as {CENTS[0]}"
            )
    if not any(0 < price < DOLLAR for start, end, step in ranges for price in (start, start + step) if price <= end):
        raise SchemaError(f"the price ranges {ranges!r:.80} have no price between 0 and a dollar")
    return ranges


#: Cents from 0 to a dollar: the default grid.
CENTS: Ranges = ((CentiCents(0), CentiCents(DOLLAR), CentiCents(100)),)
#: Usual grids of the venues, coarsest first. If a recording states no grid, the first with all of its prices applies. Half cents follow
#: tenths, because a few prices on half cents fit both, and tenths allow more orders.
USUAL = (
    CENTS,
    parse_ranges([("0", "0.1", "0.001"), ("0.1", "0.9", "0.01"), ("0.9", "1", "0.001")]),
    parse_ranges([("0", "1", "0.001")]),
    parse_ranges([("0", "1", "0.0025")]),
    parse_ranges([("0", "0.01", "0.0001"), ("0.01", "0.99", "0.001"), ("0.99", "1", "0.0001")]),
    parse_ranges([("0", "1", "0.0001")]),
)


def grid_prices(ranges: Ranges) -> np.ndarray:
    """Return the prices in these ranges that are above 0 and below a dollar, int64, ascending."""
    import numpy as np  # a list of episodes needs no arrays

    on_grid = np.zeros(DOLLAR + 1, np.bool_)
    for start, end, step in ranges:
        on_grid[start : end + 1 : step] = True
    return np.flatnonzero(on_grid[:DOLLAR])[int(on_grid[0]) :]


#: Number of the stored form of episodes. Episodes of another form are rebuilt from their recordings.
FORMAT = 3
METADATA, SETTLEMENT = "metadata.json", "settlement.json"

Event = Literal["open", "halt", "close"]
Result = Literal["YES", "NO", "SCALAR", "VOID"]
#: Payout of a YES contract in micro-dollars by result, for results that determine it.
PAID: Mapping[str | None, MicroDollars] = {"YES": MicroDollars(units.MICROS), "NO": MicroDollars(0)}
_BANKROLL = MicroDollars(1_000 * units.MICROS)
#: Maximum bankroll: ten billion dollars.
_MAX_BANKROLL = 10**10 * units.MICROS


def _parse_instant(text: Any) -> int:
    """Parse an ISO 8601 time with zone to nanoseconds UTC. Raises `ValueError` for others."""
    at = parse_time(text.strip()) if isinstance(text, str) else None
    if at is None:
        raise ValueError("it must be an ISO 8601 time with its zone, such as 2026-01-20T22:00:00Z")
    return at


#: Time in ns UTC; ISO 8601 text in JSON.
Instant = Annotated[int, BeforeValidator(_parse_instant), PlainSerializer(format_time)]


@dataclass(frozen=True, slots=True)
class Phase:
    """Change of a market's trading phase at time `at` (ns UTC). source: origin of the information."""

    at: Instant
    event: Event
    source: str | None = None


@dataclass(frozen=True, slots=True)
class GridChange:
    """Change of a market's price grid at time `at` (ns UTC) to `price_ranges`. source: origin of the information."""

    at: Instant
    price_ranges: Ranges
    source: str | None = None

    def __post_init__(self) -> None:
        check_ranges(self.price_ranges)


#: Fields that determine the fees of a market.
_FEE_STATED = ("type", "schedule", "category", "enabled")


@dataclass(frozen=True, slots=True)
class Market:
    """One market of an episode. Times in ns UTC, None if unknown.

    price_ranges: (start, end, step) in $0.0001 of the prices allowed for orders. fee: the venue's terms, as for
    `bellwether.replay.rules.fee_terms`. lifecycle, grid_changes: in chronological order. Raises `SchemaError` for others.
    """

    ticker: str
    title: str | None = None
    open_time: Instant | None = None
    close_time: Instant | None = None
    price_ranges: Ranges = CENTS
    fee: Mapping[str, Any] = field(default_factory=dict)
    lifecycle: tuple[Phase, ...] = ()
    grid_changes: tuple[GridChange, ...] = ()

    def __post_init__(self) -> None:
        check_ranges(self.price_ranges)
        for phase, following in itertools.pairwise(self.lifecycle):
            if following.at < phase.at or phase.event == "close":
                raise SchemaError(f"the lifecycle of {self.ticker} has {following}; it must be in order, with nothing after a close")
        if any(following.at <= change.at for change, following in itertools.pairwise(self.grid_changes)):
            raise SchemaError(f"grid_changes of {self.ticker} must be in chronological order, at different times")

    @property
    def has_default_fee(self) -> bool:
        """True if the episode states no fee terms for the market, so that the venue's general fees apply."""
        return self.fee.get("source") == "default" or not any(self.fee.get(name) is not None for name in _FEE_STATED)

    def price_grids(self) -> list[tuple[int, np.ndarray]]:
        """Return the price grids as (ns UTC from which the grid is valid, its prices), in order; the first is valid from 0 on.

        The prices are int64, ascending, above 0 and below a dollar.
        """
        changes = [(change.at, change.price_ranges) for change in self.grid_changes]
        return [(at, grid_prices(ranges)) for at, ranges in ((0, self.price_ranges), *changes)]

    @property
    def close(self) -> int | None:
        """End of trading, ns UTC: the close in `lifecycle` if there is one, otherwise `close_time`."""
        return next((phase.at for phase in self.lifecycle if phase.event == "close"), self.close_time)


@dataclass(frozen=True, slots=True)
class Gap:
    """Period from `start` to `end` (ns UTC; None: to the end of the episode) in which the book of `ticker` is invalid."""

    ticker: str
    start: Instant
    end: Instant | None
    cause: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """Settlement of a market.

    result: YES, NO, SCALAR, VOID or None. value: payout of a YES contract in micro-dollars, None for VOID and unknown. at: ns UTC; a market
    without result or time never settles. source: origin of the information. Raises `SchemaError` for a value that contradicts the result.
    """

    ticker: str
    result: Result | None = None
    value: MicroDollars | None = None
    at: Instant | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        value, paid = self.value, PAID.get(self.result)
        is_payout = value is not None and 0 <= value <= units.MICROS
        if not is_payout if self.result == "SCALAR" else value != paid:
            wanted = "from 0 to 1,000,000 micro-dollars" if self.result == "SCALAR" else paid
            raise SchemaError(f"the value of {self.ticker} is {value!r:.80}; for the result {self.result} it must be {wanted}")

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
    """Metadata of an episode. Times in ns UTC, money in micro-dollars. Raises `SchemaError` for contradictory values.

    start, end: the recorded window. markets: one per ticker, in the order of their codes. rules: name of a rule set; None: the venue's rules
    on the day of `start`. source: origin of the episode. observation_depth: number of levels shown to agents, -1 for all.
    """

    episode_id: str
    start: Instant
    end: Instant
    markets: tuple[Market, ...]
    event_slug: str = ""
    venue: str = "kalshi"
    title: str | None = None
    mutually_exclusive: bool | None = None
    rules: str | None = None
    bankroll: MicroDollars = _BANKROLL
    execution_mode: Literal["maker_taker", "taker_only"] = "maker_taker"
    observation_depth: int = -1
    description: str = ""
    source: Mapping[str, Any] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    exogenous: tuple[Series, ...] = ()

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise SchemaError(f"end is {format_time(self.end)}; it must be at or after start, {format_time(self.start)}")
        if not self.markets or len(set(self.tickers)) < len(self.markets):
            raise SchemaError(f"markets have the tickers {self.tickers!r:.80}; give at least one market, each once")
        if not 0 < self.bankroll <= _MAX_BANKROLL:
            raise SchemaError(f"bankroll is {self.bankroll}; it must be above 0, up to {_MAX_BANKROLL} micro-dollars")
        for gap in self.gaps:
            if gap.ticker not in self.tickers or (gap.end is not None and gap.end < gap.start):
                raise SchemaError(f"gaps has {gap}; it must name one of the markets and end at or after its start")
        if len({series.name for series in self.exogenous}) < len(self.exogenous):
            raise SchemaError(f"exogenous has {self.exogenous!r:.80}; the names of series must differ")

    @property
    def tickers(self) -> tuple[str, ...]:
        """Tickers in the order of their codes."""
        return tuple(market.ticker for market in self.markets)

    @property
    def day(self) -> date:
        """First day of the recorded window, UTC, whose rules of the venue apply by default."""
        return datetime.fromtimestamp(self.start // units.SECOND, UTC).date()


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def parse_object(kind: type, values: Any, file: str) -> Any:
    """Build a dataclass from a JSON value. Raises `SchemaError` with file, field and value of the first error."""
    try:
        return _adapter(kind).validate_json(orjson.dumps(values), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path, problem = ".".join(map(str, first["loc"])) or "the file", first["msg"].removeprefix("Value error, ")
        value = "missing" if first["type"] == "missing" else repr(first["input"])
        raise SchemaError(f"reading {file}: {path} is {value:.80}: {problem}") from None
    except (SchemaError, TypeError) as error:
        raise SchemaError(f"reading {file}: {error}") from None


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Read a JSON file of an episode. Raises `SchemaError` if it is missing or no JSON object."""
    try:
        values = orjson.loads((folder / name).read_bytes())
    except FileNotFoundError:
        raise SchemaError(f"reading {folder.name}: {name} is missing; an episode has one") from None
    except (OSError, orjson.JSONDecodeError) as error:
        raise SchemaError(f"reading {name}: not a readable JSON file ({error}); restore it") from None
    if not isinstance(values, dict):
        raise SchemaError(f"reading {name}: the file is {values!r:.80}; it must be an object")
    return values


def parse_metadata(values: Mapping[str, Any]) -> Metadata:
    """Parse the content of `metadata.json`. Raises `SchemaError` with field and value, and for episodes of another format."""
    if values.get("format") != FORMAT:
        raise SchemaError(
            f"reading {METADATA}: format is {values.get('format')!r:.40}, this version reads {FORMAT}; rebuild the episode from its recording "
            "with `bellwether episode build`"
        )
    metadata: Metadata = parse_object(Metadata, values, METADATA)
    return metadata


def dump_metadata(metadata: Metadata, digest: str) -> dict[str, Any]:
    """Build the content of `metadata.json`, which `parse_metadata` reads. digest: of the content."""
    return {"format": FORMAT, "digest": digest, **_adapter(Metadata).dump_python(metadata, mode="json")}


def parse_settlements(values: Mapping[str, Any], tickers: Iterable[str]) -> tuple[Settlement, ...]:
    """Parse `settlement.json`, an object keyed by ticker. Returns the settlement of each of `tickers`.

    Raises `SchemaError` for an unknown ticker, and as `Settlement` does.
    """
    known = list(tickers)
    if unknown := next((ticker for ticker in values if ticker not in known), None):
        raise SchemaError(f"reading {SETTLEMENT}: the episode has no market {unknown!r:.80}; it has {', '.join(known)}")
    stated = {ticker: values.get(ticker, {}) for ticker in known}
    for ticker, value in stated.items():
        if not isinstance(value, dict):
            raise SchemaError(f"reading {SETTLEMENT}: {ticker} is {value!r:.80}; it must be an object")
    return tuple(parse_object(Settlement, {**value, "ticker": ticker}, f"{SETTLEMENT}: {ticker}") for ticker, value in stated.items())


def dump_settlements(settlements: Iterable[Settlement]) -> dict[str, Any]:
    """Build the content of `settlement.json`, which `parse_settlements` reads."""
    rows = [_adapter(Settlement).dump_python(settlement, mode="json") for settlement in settlements]
    return {row.pop("ticker"): row for row in rows}


# --- list of episodes, for which only these files are read ---------------------------------------------------------------

COLUMNS = ("episode", "event", "markets", "start", "hours", "settled", "exogenous", "digest", "problem")


def list_episodes(root: Path) -> list[dict[str, Any]]:
    """Return a row for each episode in the folder `root`, sorted by name. The row of an invalid episode contains the error."""
    return [_row(folder) for folder in folders(root, METADATA)]


def _row(folder: Path) -> dict[str, Any]:
    try:
        values = read_json(folder, METADATA)
        about = parse_metadata(values)
        settlements = parse_settlements(read_json(folder, SETTLEMENT), about.tickers)
        return build_row(folder.name, about, settlements, str(values.get("digest") or ""))
    except SchemaError as error:
        return {**dict.fromkeys(COLUMNS), "episode": folder.name, "problem": str(error)}


def build_row(name: str, about: Metadata, settlements: Sequence[Settlement], digest: str) -> dict[str, Any]:
    """Build the row of an episode from its metadata and settlements."""
    return {
        "episode": name,
        "event": about.event_slug,
        "markets": len(about.tickers),
        "start": format_time(about.start)[:19],
        "hours": round((about.end - about.start) / 3.6e12, 2),
        "settled": sum(settlement.is_known for settlement in settlements),
        "exogenous": ", ".join(series.name for series in about.exogenous),
        "digest": digest[:12] or None,
        "problem": None,
    }
