"""Prices of held outcomes: present ones at every tick, and past ones for the days of reconstructed cohorts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import polars as pl

from bellwether.arena.frames import prices_frame, prices_from_rows
from bellwether.arena.history import Points
from bellwether.arena.ledger import Book
from bellwether.arena.market import Market, tokens_to_quote
from bellwether.arena.marks import HeldPrice, PriceKey, PriceObservation, PriceSource, interval_start, merge_prices, price_key, tick_prices
from bellwether.arena.methodology import Venue, load_methodology
from bellwether.arena.units import price_micros
from bellwether.arena.weekly.context import WeekContext, drop_damaged
from bellwether.arena.weekly.ledgers import fold_books
from bellwether.errors import VenueError
from bellwether.lake import Slice
from bellwether.tables.arena import AGENTS, EVIDENCE, PRICES, TRADES, UNIVERSE
from bellwether.units import SharePrice

_DAY = timedelta(days=1)


def tick_rows(context: WeekContext) -> tuple[date, pl.DataFrame, int]:
    """Return a tick: its UTC day, the rows of arena/prices of that day including the tick, and the number of added rows.

    The first tick of a day stores every held price and ignores reconstructed prices, so that a day can be read without the day before.
    """
    now = context.now()
    rules = load_methodology(folder=context.registry)
    stamp = interval_start(now, rules.mark_minutes)
    yesterday, today = (_load_day(context, day).read() for day in (stamp.date() - _DAY, stamp.date()))
    # A live price is stored even if it equals a reconstructed one, because live cohorts do not use the latter.
    live = today.filter(~pl.col("reconstructed"))
    last = {row[:2]: row for row in prices_from_rows(_newest_rows(pl.concat([yesterday.filter(~pl.col("reconstructed")), live])))}
    seen: dict[PriceKey, PriceObservation] = {}
    keys, of_venue = _current_holdings(context)
    for venue, tokens in of_venue.items():
        quoted = context.data(venue).fetch_midpoints(tokens.values()) if tokens else {}
        listed: dict[PriceKey, SharePrice] = {}
        with suppress(VenueError):  # the second source is only a check; its outage does not prevent a mark
            listed = context.data(venue).fetch_listed_prices(sorted(tokens), now) if tokens else {}
        seen |= {key: replace(quoted[token], other=listed.get(key)) for key, token in tokens.items() if token in quoted}
    rows = tick_prices(last, keys, seen, now, rules)
    if live.is_empty():
        changed = {row[:2] for row in rows}
        rows += [last[key]._replace(at=stamp) for key in keys if key in last and key not in changed]
    known_at = context.now()
    new = prices_frame([row._replace(known_at=known_at) for row in rows])
    before = today.join(new, on=PRICES.key, how="anti")
    return stamp.date(), PRICES.validate(pl.concat([before, new]).sort(PRICES.order)), len(rows)


def _newest_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the latest row of each outcome."""
    return rows.sort("at", maintain_order=True).unique(["market_id", "outcome"], keep="last", maintain_order=True)


Tokens = dict[PriceKey, str]

#: Cache by lake: marks of the tables, held prices, and their tokens by venue. A tick folds nothing while the marks are unchanged.
_held: dict[str, tuple[tuple[str | None, ...], list[PriceKey], dict[Venue, Tokens]]] = {}


def _current_holdings(context: WeekContext) -> tuple[list[PriceKey], dict[Venue, Tokens]]:
    """Return the held prices, and the token that quotes each price, by venue."""
    marks = tuple(context.lake.marks((AGENTS, TRADES, EVIDENCE, UNIVERSE)).values())
    found = _held.get(context.lake.uri)
    if found is None or found[0] != marks or None in marks:
        open_keys = {
            venue: sorted(key for key, spans in held_spans(book).items() if spans[-1][1] is None)
            for venue, book in _fold_books(context, reconstructed=None).items()
        }
        keys = sorted({key for found_keys in open_keys.values() for key in found_keys})
        found = _held[context.lake.uri] = marks, keys, {venue: _quoted_tokens(context, own) for venue, own in open_keys.items()}
    return found[1:]


def store_tick(context: WeekContext) -> tuple[date, int]:
    """Store the rows of a tick, and return the day and the number of added rows."""
    day, rows, changed = tick_rows(context)
    if changed:
        # Without inputs, so that the day remains out of date for reconstructed prices.
        context.lake.write(PRICES, (day.isoformat(),), rows, run_id=context.run, inputs={})
    return day, changed


def reconstruct_rows(context: WeekContext, days: Sequence[date]) -> dict[date, pl.DataFrame]:
    """Reconstruct rows of arena/prices by day from hourly past prices, for holdings of reconstructed cohorts. Live rows are kept.

    The first price of an outcome on a day is always stored, later ones if they change. Damaged rows of a day are dropped if all cohorts are
    reconstructed.
    """
    first, last = _day_start(min(days)), _day_start(max(days)) + _DAY
    now, minutes = context.now(), load_methodology(folder=context.registry).mark_minutes
    made: dict[date, list[HeldPrice]] = {day: [] for day in days}
    for venue, book in _fold_books(context, reconstructed=True).items():
        spans = dict(_clip_spans(held_spans(book), first, last, now))
        tokens = _quoted_tokens(context, sorted(spans))
        asked = {token: (spans[key][0][0], spans[key][-1][1]) for key, token in tokens.items()}
        prices = context.data(venue).fetch_past_prices(asked) if asked else {}
        for key, token in tokens.items():
            for row in _price_changes(key, prices[token], spans[key], minutes):
                if row.at.date() in made:
                    made[row.at.date()].append(row)
    return {
        day: prices_frame(
            merge_prices(
                rows, [row for row in prices_from_rows(drop_damaged(context, _load_day(context, day)).read()) if not row.reconstructed]
            )
        )
        for day, rows in made.items()
    }


def reconstructed_days(context: WeekContext) -> list[date]:
    """Return the days before today on which reconstructed cohorts held positions, in order."""
    today, days = context.now().date(), set[date]()
    held = (spans for book in _fold_books(context, reconstructed=True).values() for spans in held_spans(book).values())
    for begin, end in (span for spans in held for span in spans):
        last = today if end is None else end.date()
        days |= {begin.date() + number * _DAY for number in range((last - begin.date()).days + 1)}
    return sorted(day for day in days if day < today)


def _price_changes(key: PriceKey, points: Points, spans: Sequence[tuple[datetime, datetime]], minutes: int) -> list[HeldPrice]:
    rows: list[HeldPrice] = []
    for at, said in points:
        price = price_micros(said)
        if price is None or not any(begin <= at < end for begin, end in spans):
            continue
        stamp = interval_start(at, minutes)
        if rows and rows[-1].price == price and rows[-1].at.date() == stamp.date():
            continue
        rows.append(HeldPrice(*key, stamp, price, PriceSource.LIVE, at, reconstructed=True))
    return rows


def held_spans(book: Book) -> dict[PriceKey, list[tuple[datetime, datetime | None]]]:
    """Return the spans in which outcomes were held, by price key; an end of None means still held."""
    positions = {name: position for account in book.accounts.values() for name, position in account.positions.items()}
    held: dict[PriceKey, set[str]] = {}
    spans: dict[PriceKey, list[tuple[datetime, datetime | None]]] = {}
    for entry in sorted(book.entries, key=lambda entry: entry.known_at):
        key = price_key(positions[entry.position_id])
        before = bool(held.setdefault(key, set()))
        (held[key].add if entry.shares else held[key].discard)(entry.position_id)
        if held[key] and not before:
            spans.setdefault(key, []).append((entry.known_at, None))
        elif before and not held[key]:
            spans[key][-1] = spans[key][-1][0], entry.known_at
    return spans


def _clip_spans(
    held: Mapping[PriceKey, Sequence[tuple[datetime, datetime | None]]], first: datetime, last: datetime, now: datetime
) -> Iterator[tuple[PriceKey, list[tuple[datetime, datetime]]]]:
    """Clip spans to two instants and drop empty ones."""
    for key, found in held.items():
        clipped = [(max(begin, first), min(end or now, last)) for begin, end in found]
        if spans := [span for span in clipped if span[0] < span[1]]:
            yield key, spans


def _fold_books(context: WeekContext, *, reconstructed: bool | None) -> dict[Venue, Book]:
    """Fold the books of live or reconstructed cohorts, by venue. reconstructed: None selects all cohorts that are not archived."""
    agents, trades, evidence = (context.lake.slice(table, missing="skip").read() for table in (AGENTS, TRADES, EVIDENCE))
    wanted = pl.col("archived_at").is_null() if reconstructed is None else pl.col("reconstructed") == reconstructed
    return fold_books(context, agents.filter(wanted), trades, evidence)


def _quoted_tokens(context: WeekContext, keys: Iterable[PriceKey]) -> dict[PriceKey, str]:
    """Return the token or contract that quotes each price, from the universes of the markets."""
    wanted = list(keys)
    ids = sorted({market_id for market_id, _ in wanted})
    rows = context.lake.slice(UNIVERSE, missing="skip").query(
        lambda stored: stored.filter(pl.col("market_id").is_in(ids)).select("market_id", "outcomes", "token_ids")
    )
    markets = {
        market_id: Market(market_id, "", tuple(outcomes), token_ids=tuple(tokens)) for market_id, outcomes, tokens in rows.iter_rows()
    }
    found = {place: token for token, place in tokens_to_quote(markets, list(markets)).items()}
    tokens: dict[PriceKey, str] = {}
    for market_id, outcome in wanted:
        market = markets.get(market_id)
        place = None if market is None else market.place(outcome)
        if place is not None and (market_id, place) in found:
            tokens[market_id, outcome] = found[market_id, place]
    return tokens


def _load_day(context: WeekContext, day: date) -> Slice:
    return context.lake.slice(PRICES, [(day.isoformat(),)], missing="skip")


def _day_start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
