"""Lifecycle of a market in a recording: its terms, trading phases and settlement."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from bellwether.replay.episode.metadata import Phase, Settlement
from bellwether.replay.episode.price_grid import Ranges
from bellwether.replay.episode.settlements import PAID
from bellwether.replay.episode_builder.listings import ListedMarket, outcome_of, parse_listed_ranges, set_settlement_time
from bellwether.replay.episode_builder.messages import moment, seconds
from bellwether.replay.units import CENT, DOLLAR
from bellwether.units import CentiCents

#: Source of a close or a settlement.
LIFECYCLE, LISTING, WATCHED, WIPED, ENDED = "lifecycle", "listing", "recorder", "book wiped", "end of recording"


@dataclass(slots=True)
class Lifecycle:
    """Lifecycle of a market from messages and recorders. Times in ns UTC; those in `phases`, `grids` and `determined` are places of frames.

    grids: price ranges that messages stated, in order. announced: the close at the market's creation or the start of the recording; later ones may reflect the event's course.
    """

    ticker: str
    title: str | None = None
    open_time: int | None = None
    close_time: int | None = None
    watched_close: int | None = None
    announced: int | None = None
    grids: list[tuple[int, Ranges]] = field(default_factory=list)
    phases: list[tuple[int, str]] = field(default_factory=list)
    determined: int | None = None
    outcome: Settlement | None = None
    settled_at: int | None = None

    def take(self, body: dict[str, Any], time: int) -> None:
        """Process the body of a lifecycle message; `time` is its place."""
        kind = body.get("event_type")
        self.close_time = seconds(body.get("close_ts")) or self.close_time
        if kind == "created":
            self.announced = self.announced or self.close_time
        if (ranges := parse_listed_ranges(body.get("price_ranges"), self.ticker)) is not None:
            self.grids.append((time, ranges))
        about = body.get("additional_metadata")
        if isinstance(about, dict):
            self.title = next((text for name in ("title", "name") if type(text := about.get(name)) is str and text), self.title)
            self.open_time = seconds(body.get("open_ts")) or self.open_time
        if kind == "activated":
            self.phases.append((time, "open"))
        elif kind == "deactivated":
            self.phases.append((time, "halt"))
        elif kind == "determined":
            self.determined = time
            self.settled_at = seconds(body.get("determination_ts")) or self.settled_at
            self.outcome = self._outcome(body) or self.outcome
        elif kind == "settled":
            self.determined = time if self.determined is None else self.determined
            self.settled_at = seconds(body.get("settled_ts")) or self.settled_at
            self.outcome = self._outcome(body) or self.outcome

    def _outcome(self, body: dict[str, Any]) -> Settlement | None:
        word, paid = (text if type(text := body.get(name)) is str else None for name in ("result", "settlement_value"))
        return outcome_of(self.ticker, word, paid, None, LIFECYCLE)

    def watched(self, body: dict[str, Any]) -> None:
        """Process what another recorder noted when it selected the market."""
        self.watched_close = moment(body.get("close_time")) or self.watched_close
        self.announced = self.announced or self.watched_close


@dataclass(frozen=True, slots=True)
class RecordedTrading:
    """Trading period of a market in a recording. Times in ns UTC.

    end: of the recording. wiped: when its book was emptied finally. last_trade, last_price: time and YES price of its last trade.
    """

    end: int
    wiped: int | None = None
    last_trade: int | None = None
    last_price: CentiCents | None = None


def close_of(lifecycle: Lifecycle, known: ListedMarket, seen: RecordedTrading, determined: int | None) -> tuple[int, str]:
    """Return the end of trading that the recording shows, and its source.

    Candidates are a stated close, the emptying of the book and a determination, each unless a trade came later or the recording ended
    before. The earliest is the close; without any, it is the end of the recording.
    """
    stated = next(((at, who) for at, who in _stated(lifecycle, known) if at is not None), None)
    signs = [] if stated is None else [stated]
    signs += [(at, who) for at, who in ((seen.wiped, WIPED), (determined, LIFECYCLE)) if at is not None]
    believed = [(at, who) for at, who in signs if at <= seen.end and (seen.last_trade is None or seen.last_trade <= at)]
    return min(believed, default=(seen.end, ENDED), key=lambda sign: sign[0])


def _stated(lifecycle: Lifecycle, known: ListedMarket) -> list[tuple[int | None, str]]:
    return [(lifecycle.close_time, LIFECYCLE), (known.close_time, LISTING), (lifecycle.watched_close, WATCHED)]


def close_time_of(lifecycle: Lifecycle, known: ListedMarket) -> int | None:
    """Return the close shown to agents: the one announced first during the recording, else that of a market which cannot close early."""
    return lifecycle.announced or (None if known.can_close_early else known.close_time)


def phases_of(lifecycle: Lifecycle, times: Any, close: tuple[int, str]) -> tuple[Phase, ...]:
    """Return openings and halts before the close, then the close, in order."""
    at, who = close
    found = sorted((max(0, int(times[place])), event) for place, event in lifecycle.phases)
    before = [Phase(when, event, LIFECYCLE) for when, event in found if when < at]
    return (*before, Phase(at, "close", who))


def settlement_of(
    lifecycle: Lifecycle, known: ListedMarket, seen: RecordedTrading, close: int, *, stated: Settlement | None = None, infer: bool = False
) -> Settlement:
    """Return the settlement of the market: given by the user, from lifecycle messages, from the listing, or inferred from the last trade;
    else unsettled.

    infer: a last trade at 0.99 or above is YES, at 0.01 or below NO.
    """
    if stated is not None:
        known_at = lifecycle.settled_at or (known.outcome.at if known.outcome else None)
        return set_settlement_time(replace(stated, at=known_at), close)
    if lifecycle.outcome is not None:
        return set_settlement_time(replace(lifecycle.outcome, at=lifecycle.settled_at), close)
    if known.outcome is not None:
        return set_settlement_time(known.outcome, close)
    if infer and seen.last_price is not None and not CENT < seen.last_price < DOLLAR - CENT:
        result = "YES" if seen.last_price > CENT else "NO"
        source = "inferred: last trade at " + f"{seen.last_price / DOLLAR:.4f}".removesuffix("0")
        return Settlement(lifecycle.ticker, result, PAID[result], close, source)
    return Settlement(lifecycle.ticker)
