"""Marks: prices of what is held, seen now in a tick, or reconstructed from past prices for the days of reconstructed cohorts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import polars as pl

from bellwether.arena.frames import prices_frame, prices_of
from bellwether.arena.history import Points
from bellwether.arena.ledger import Book
from bellwether.arena.market import Market, wanted_tokens
from bellwether.arena.marks import Observed, Price, PriceKey, Source, bucket, merged, price_key, tick
from bellwether.arena.methodology import Venue, methodology
from bellwether.arena.units import price_micros
from bellwether.arena.weekly.context import World, without_lost
from bellwether.arena.weekly.state import books
from bellwether.errors import VenueError
from bellwether.lake import Slice
from bellwether.tables.arena import AGENTS, EVIDENCE, PRICES, TRADES, UNIVERSE
from bellwether.units import SharePrice

_DAY = timedelta(days=1)


def tick_rows(world: World) -> tuple[date, pl.DataFrame, int]:
    """A tick: its UTC day, the rows of arena/prices of that day with those of the tick, and how many rows it added.

    The first tick of a day has every price that is held, and reconstructed prices are not what it compares with, so that a day's rows can be read without those of the day before.
    """
    now = world.now()
    rules = methodology(folder=world.registry)
    stamp = bucket(now, rules.mark_minutes)
    yesterday, today = (_stored(world, day).read() for day in (stamp.date() - _DAY, stamp.date()))
    # A live price that equals a reconstructed one is stored all the same: live cohorts are not marked with the other.
    live = today.filter(~pl.col("reconstructed"))
    last = {row[:2]: row for row in prices_of(_newest(pl.concat([yesterday.filter(~pl.col("reconstructed")), live])))}
    seen: dict[PriceKey, Observed] = {}
    keys, of_venue = _held_now(world)
    for venue, tokens in of_venue.items():
        quoted = world.data(venue).midpoints(tokens.values()) if tokens else {}
        listed: dict[PriceKey, SharePrice] = {}
        with suppress(VenueError):  # the second source is a check; its outage costs no mark
            listed = world.data(venue).listed(sorted(tokens), now) if tokens else {}
        seen |= {key: replace(quoted[token], other=listed.get(key)) for key, token in tokens.items() if token in quoted}
    rows = tick(last, keys, seen, now, rules)
    if live.is_empty():
        changed = {row[:2] for row in rows}
        rows += [last[key]._replace(at=stamp) for key in keys if key in last and key not in changed]
    known_at = world.now()
    new = prices_frame([row._replace(known_at=known_at) for row in rows])
    before = today.join(new, on=PRICES.key, how="anti")
    return stamp.date(), PRICES.validate(pl.concat([before, new]).sort(PRICES.order)), len(rows)


def _newest(rows: pl.DataFrame) -> pl.DataFrame:
    """The newest row of each outcome."""
    return rows.sort("at", maintain_order=True).unique(["market_id", "outcome"], keep="last", maintain_order=True)


Tokens = dict[PriceKey, str]

#: What is held by all cohorts, with what quotes each price on its venue, by the lake and the marks of the tables that say so: a tick folds nothing while
#: these stay.
_held: dict[str, tuple[tuple[str | None, ...], list[PriceKey], dict[Venue, Tokens]]] = {}


def _held_now(world: World) -> tuple[list[PriceKey], dict[Venue, Tokens]]:
    """The prices that are held, and what quotes each, by venue."""
    marks = tuple(world.lake.marks((AGENTS, TRADES, EVIDENCE, UNIVERSE)).values())
    found = _held.get(world.lake.uri)
    if found is None or found[0] != marks or None in marks:
        open_keys = {
            venue: sorted(key for key, spans in held_spans(book).items() if spans[-1][1] is None)
            for venue, book in _books(world, reconstructed=None).items()
        }
        keys = sorted({key for found_keys in open_keys.values() for key in found_keys})
        found = _held[world.lake.uri] = marks, keys, {venue: _tokens(world, own) for venue, own in open_keys.items()}
    return found[1:]


def mark(world: World) -> tuple[date, int]:
    """Make a tick and store its rows; returns the day and how many rows it added."""
    day, rows, changed = tick_rows(world)
    if changed:
        # No inputs: reconstructed marks of the day are still to be made.
        world.lake.write(PRICES, (day.isoformat(),), rows, run_id=world.run, inputs={})
    return day, changed


def past_rows(world: World, days: Sequence[date]) -> dict[date, pl.DataFrame]:
    """Rows of arena/prices by day, reconstructed from hourly past prices for what reconstructed cohorts held; what was seen live stays as it is.

    The first row of an outcome on a day is always there, later ones where the price changed. Damaged rows of a day are left out where all cohorts are
    reconstructed, for nothing of them was seen live.
    """
    first, last = _start(min(days)), _start(max(days)) + _DAY
    now, minutes = world.now(), methodology(folder=world.registry).mark_minutes
    made: dict[date, list[Price]] = {day: [] for day in days}
    for venue, book in _books(world, reconstructed=True).items():
        spans = dict(_within(held_spans(book), first, last, now))
        tokens = _tokens(world, sorted(spans))
        asked = {token: (spans[key][0][0], spans[key][-1][1]) for key, token in tokens.items()}
        prices = world.data(venue).past_prices(asked) if asked else {}
        for key, token in tokens.items():
            for row in _changes(key, prices[token], spans[key], minutes):
                if row.at.date() in made:
                    made[row.at.date()].append(row)
    return {
        day: prices_frame(
            merged(rows, [row for row in prices_of(without_lost(world, _stored(world, day)).read()) if not row.reconstructed])
        )
        for day, rows in made.items()
    }


def past_days(world: World) -> list[date]:
    """The days before today on which reconstructed cohorts held something, in order: those that `past_rows` has marks for."""
    today, days = world.now().date(), set[date]()
    held = (spans for book in _books(world, reconstructed=True).values() for spans in held_spans(book).values())
    for begin, end in (span for spans in held for span in spans):
        last = today if end is None else end.date()
        days |= {begin.date() + number * _DAY for number in range((last - begin.date()).days + 1)}
    return sorted(day for day in days if day < today)


def _changes(key: PriceKey, points: Points, spans: Sequence[tuple[datetime, datetime]], minutes: int) -> list[Price]:
    rows: list[Price] = []
    for at, said in points:
        price = price_micros(said)
        if price is None or not any(begin <= at < end for begin, end in spans):
            continue
        stamp = bucket(at, minutes)
        if rows and rows[-1].price == price and rows[-1].at.date() == stamp.date():
            continue
        rows.append(Price(*key, stamp, price, Source.LIVE, at, reconstructed=True))
    return rows


def held_spans(book: Book) -> dict[PriceKey, list[tuple[datetime, datetime | None]]]:
    """Spans in which outcomes were held, by the price that values them; an end of None is still held."""
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


def _within(
    held: Mapping[PriceKey, Sequence[tuple[datetime, datetime | None]]], first: datetime, last: datetime, now: datetime
) -> Iterator[tuple[PriceKey, list[tuple[datetime, datetime]]]]:
    """The parts of spans between two instants, without what has none."""
    for key, found in held.items():
        clipped = [(max(begin, first), min(end or now, last)) for begin, end in found]
        if spans := [span for span in clipped if span[0] < span[1]]:
            yield key, spans


def _books(world: World, *, reconstructed: bool | None) -> dict[Venue, Book]:
    """The books of live or reconstructed cohorts, by venue; None: of all that are not archived."""
    agents, trades, evidence = (world.lake.slice(table, missing="skip").read() for table in (AGENTS, TRADES, EVIDENCE))
    wanted = pl.col("archived_at").is_null() if reconstructed is None else pl.col("reconstructed") == reconstructed
    return books(world, agents.filter(wanted), trades, evidence)


def _tokens(world: World, keys: Iterable[PriceKey]) -> dict[PriceKey, str]:
    """The token or contract that quotes each price, from the universes of the markets."""
    wanted = list(keys)
    ids = sorted({market_id for market_id, _ in wanted})
    rows = world.lake.slice(UNIVERSE, missing="skip").query(
        lambda stored: stored.filter(pl.col("market_id").is_in(ids)).select("market_id", "outcomes", "token_ids")
    )
    markets = {
        market_id: Market(market_id, "", tuple(outcomes), token_ids=tuple(tokens)) for market_id, outcomes, tokens in rows.iter_rows()
    }
    found = {place: token for token, place in wanted_tokens(markets, list(markets)).items()}
    tokens: dict[PriceKey, str] = {}
    for market_id, outcome in wanted:
        market = markets.get(market_id)
        place = None if market is None else market.place(outcome)
        if place is not None and (market_id, place) in found:
            tokens[market_id, outcome] = found[market_id, place]
    return tokens


def _stored(world: World, day: date) -> Slice:
    return world.lake.slice(PRICES, [(day.isoformat(),)], missing="skip")


def _start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
