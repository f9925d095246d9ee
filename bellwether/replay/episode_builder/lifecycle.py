"""Lifecycle of a market in a recording: its terms, trading phases and settlement."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from bellwether.recordings.exchange_times import parse_time
from bellwether.replay.episode.model import PAID, Event, Phase, Ranges, Result, Settlement
from bellwether.replay.episode_builder.listings import ListedMarket, parse_listed_ranges, parse_outcome, set_settlement_time
from bellwether.replay.units import CENT, DOLLAR, SECOND
from bellwether.units import CentiCents
from bellwether.venues.wire.times import END_SECOND

#: Source of a close or a settlement.
LIFECYCLE, LISTING, WATCHED, WIPED, ENDED = "lifecycle", "listing", "recorder", "book wiped", "end of recording"


@dataclass(slots=True)
class Lifecycle:
    """Terms and trading phases of a market, collected from lifecycle messages and the recorder's frames.

    Times in ns UTC; those in `phases`, `grids` and `determined` are places of frames. grids: price ranges stated by messages, in order.
    announced: the close as announced at the market's creation or the start of the recording; a later one may reflect the event's course.
    watched_close: the close stated by the recorder's frame.
    """

    ticker: str
    title: str | None = None
    open_time: int | None = None
    close_time: int | None = None
    watched_close: int | None = None
    announced: int | None = None
    grids: list[tuple[int, Ranges]] = field(default_factory=list)
    phases: list[tuple[int, Event]] = field(default_factory=list)
    determined: int | None = None
    outcome: Settlement | None = None
    settled_at: int | None = None

    def take(self, body: dict[str, Any], time: int) -> None:
        """Process the body of a lifecycle message. time: place of the frame (its number in the order of arrival)."""
        kind = body.get("event_type")
        self.close_time = _to_nanoseconds(body.get("close_ts")) or self.close_time
        if kind == "created":
            self.announced = self.announced or self.close_time
        if (ranges := parse_listed_ranges(body.get("price_ranges"), self.ticker)) is not None:
            self.grids.append((time, ranges))
        about = body.get("additional_metadata")
        if isinstance(about, dict):
            self.title = next((text for name in ("title", "name") if type(text := about.get(name)) is str and text), self.title)
            self.open_time = _to_nanoseconds(body.get("open_ts")) or self.open_time
        if kind == "activated":
            self.phases.append((time, "open"))
        elif kind == "deactivated":
            self.phases.append((time, "halt"))
        elif kind == "determined":
            self.determined = time
            self.settled_at = _to_nanoseconds(body.get("determination_ts")) or self.settled_at
            self.outcome = self._outcome(body) or self.outcome
        elif kind == "settled":
            self.determined = time if self.determined is None else self.determined
            self.settled_at = _to_nanoseconds(body.get("settled_ts")) or self.settled_at
            self.outcome = self._outcome(body) or self.outcome

    def _outcome(self, body: dict[str, Any]) -> Settlement | None:
        result, payout = (text if type(text := body.get(name)) is str else None for name in ("result", "settlement_value"))
        return parse_outcome(self.ticker, result, payout, None, LIFECYCLE)

    def take_watched(self, body: dict[str, Any]) -> None:
        """Process the body of a frame that the recorder added, which states the close announced then."""
        self.watched_close = parse_time(str(body.get("close_time"))) or self.watched_close
        self.announced = self.announced or self.watched_close


def _to_nanoseconds(value: Any) -> int | None:
    """Convert whole seconds since 1970 to nanoseconds. None if invalid."""
    return value * SECOND if type(value) is int and 0 < value < END_SECOND else None


@dataclass(frozen=True, slots=True)
class RecordedTrading:
    """Evidence in a recording of the end of a market's trading. Times in ns UTC.

    end: end of the recording. wiped: time of the snapshot that finally emptied the book. last_trade, last_price: time and YES price of the
    last trade.
    """

    end: int
    wiped: int | None = None
    last_trade: int | None = None
    last_price: CentiCents | None = None


def find_close(lifecycle: Lifecycle, listing: ListedMarket, trading: RecordedTrading, determined: int | None) -> tuple[int, str]:
    """Return the end of a market's trading as the recording shows it, in ns UTC, and the source of this time.

    Candidates are a stated close, the time when the book was emptied, and the determination, except those before the last trade or after the
    end of the recording. The earliest is the close; without any, it is the end of the recording.
    """
    stated = ((lifecycle.close_time, LIFECYCLE), (listing.close_time, LISTING), (lifecycle.watched_close, WATCHED))
    candidates = [next((close for close in stated if close[0] is not None), (None, "")), (trading.wiped, WIPED), (determined, LIFECYCLE)]
    first = trading.last_trade or 0
    closes = [(at, source) for at, source in candidates if at is not None and first <= at <= trading.end]
    return min(closes, default=(trading.end, ENDED), key=lambda close: close[0])


def find_announced_close(lifecycle: Lifecycle, listing: ListedMarket) -> int | None:
    """Return the close to show to agents: the first one announced, or, if the market cannot close early, the listed one; else None."""
    return lifecycle.announced or (None if listing.can_close_early else listing.close_time)


def build_phases(lifecycle: Lifecycle, times: Any, close: tuple[int, str]) -> tuple[Phase, ...]:
    """Return a market's openings and halts before the close, then the close, in order. times: of each frame. close: time and source."""
    end, source = close
    phases = sorted((max(0, int(times[place])), event) for place, event in lifecycle.phases)
    return (*(Phase(at, event, LIFECYCLE) for at, event in phases if at < end), Phase(end, "close", source))


def find_settlement(
    lifecycle: Lifecycle,
    listing: ListedMarket,
    trading: RecordedTrading,
    close: int,
    *,
    stated: Settlement | None = None,
    infer: bool = False,
) -> Settlement:
    """Return a market's settlement from the first source that states one; if none does, an unsettled one.

    Sources are the user (`stated`), lifecycle messages, the listing, and with `infer` the last trade: at 0.99 or above YES, at 0.01 or below NO.
    """
    if stated is not None:
        at = lifecycle.settled_at or (listing.outcome.at if listing.outcome else None)
        return set_settlement_time(replace(stated, at=at), close)
    if lifecycle.outcome is not None:
        return set_settlement_time(replace(lifecycle.outcome, at=lifecycle.settled_at), close)
    if listing.outcome is not None:
        return set_settlement_time(listing.outcome, close)
    if infer and trading.last_price is not None and not CENT < trading.last_price < DOLLAR - CENT:
        result: Result = "YES" if trading.last_price > CENT else "NO"
        source = "inferred: last trade at " + f"{trading.last_price / DOLLAR:.4f}".removesuffix("0")
        return Settlement(lifecycle.ticker, result, PAID[result], close, source)
    return Settlement(lifecycle.ticker)
