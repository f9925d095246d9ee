"""Marks: prices of what is held, seen now in a tick, or reconstructed from past prices for the days of reconstructed cohorts."""

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
from bellwether.arena.marks import Price, PriceKey, PriceObservation, PriceSource, interval_start, merge_prices, price_key, tick_prices
from bellwether.arena.methodology import Venue, load_methodology
from bellwether.arena.units import price_micros
from bellwether.arena.weekly.context import WeekContext, drop_damaged
from bellwether.arena.weekly.ledgers import fold_books
from bellwether.errors import VenueError
from bellwether.lake import Slice
from bellwether.tables.arena import AGENTS, EVIDENCE, PRICES, TRADES, UNIVERSE
from bellwether.units import SharePrice

_DAY = timedelta(days=1)


def tick_rows(world: WeekContext) -> tuple[date, pl.DataFrame, int]:
    """A tick: its UTC day, the rows of arena/prices of that day with those of the tick, and how many rows it added.

    The first tick of a day has every price that is held, and reconstructed prices are not what it compares with, so that a day's rows can be read without those of the day before.
    """
    now = world.now()
    rules = load_methodology(folder=world.registry)
    stamp = interval_start(now, rules.mark_minutes)
    yesterday, today = (_load_day(world, day).read() for day in (stamp.date() - _DAY, stamp.date()))
    # A live price that equals a reconstructed one is stored all the same: live cohorts are not marked with the other.
    live = today.filter(~pl.col("reconstructed"))
    last = {row[:2]: row for row in prices_from_rows(_newest_rows(pl.concat([yesterday.filter(~pl.col("reconstructed")), live])))}
    seen: dict[PriceKey, PriceObservation] = {}
    keys, of_venue = _current_holdings(world)
    for venue, tokens in of_venue.items():
        quoted = world.data(venue).midpoints(tokens.values()) if tokens else {}
        listed: dict[PriceKey, SharePrice] = {}
        with suppress(VenueError):  # the second source is a check; its outage costs no mark
            listed = world.data(venue).listed(sorted(tokens), now) if tokens else {}
        seen |= {key: replace(quoted[token], other=listed.get(key)) for key, token in tokens.items() if token in quoted}
    rows = tick_prices(last, keys, seen, now, rules)
    if live.is_empty():
        changed = {row[:2] for row in rows}
        rows += [last[key]._replace(at=stamp) for key in keys if key in last and key not in changed]
    known_at = world.now()
    new = prices_frame([row._replace(known_at=known_at) for row in rows])
    before = today.join(new, on=PRICES.key, how="anti")
    return stamp.date(), PRICES.validate(pl.concat([before, new]).sort(PRICES.order)), len(rows)


def _newest_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """The newest row of each outcome."""
    return rows.sort("at", maintain_order=True).unique(["market_id", "outcome"], keep="last", maintain_order=True)


Tokens = dict[PriceKey, str]

#: What is held by all cohorts, with what quotes each price on its venue, by the lake and the marks of the tables that say so: a tick folds nothing while
#: these stay.
_held: dict[str, tuple[tuple[str | None, ...], list[PriceKey], dict[Venue, Tokens]]] = {}


def _current_holdings(world: WeekContext) -> tuple[list[PriceKey], dict[Venue, Tokens]]:
    """The prices that are held, and what quotes each, by venue."""
    marks = tuple(world.lake.marks((AGENTS, TRADES, EVIDENCE, UNIVERSE)).values())
    found = _held.get(world.lake.uri)
    if found is None or found[0] != marks or None in marks:
        open_keys = {
            venue: sorted(key for key, spans in held_spans(book).items() if spans[-1][1] is None)
            for venue, book in _fold_books(world, reconstructed=None).items()
        }
        keys = sorted({key for found_keys in open_keys.values() for key in found_keys})
        found = _held[world.lake.uri] = marks, keys, {venue: _quoted_tokens(world, own) for venue, own in open_keys.items()}
    return found[1:]


def store_tick(world: WeekContext) -> tuple[date, int]:
    """Make a tick and store its rows; returns the day and how many rows it added."""
    day, rows, changed = tick_rows(world)
    if changed:
        # No inputs: reconstructed marks of the day are still to be made.
        world.lake.write(PRICES, (day.isoformat(),), rows, run_id=world.run, inputs={})
    return day, changed


def reconstruct_rows(world: WeekContext, days: Sequence[date]) -> dict[date, pl.DataFrame]:
    """Rows of arena/prices by day, reconstructed from hourly past prices for what reconstructed cohorts held; what was seen live stays as it is.

    The first row of an outcome on a day is always there, later ones where the price changed. Damaged rows of a day are left out where all cohorts are
    reconstructed, for nothing of them was seen live.
    """
    first, last = _day_start(min(days)), _day_start(max(days)) + _DAY
    now, minutes = world.now(), load_methodology(folder=world.registry).mark_minutes
    made: dict[date, list[Price]] = {day: [] for day in days}
    for venue, book in _fold_books(world, reconstructed=True).items():
        spans = dict(_clip_spans(held_spans(book), first, last, now))
        tokens = _quoted_tokens(world, sorted(spans))
        asked = {token: (spans[key][0][0], spans[key][-1][1]) for key, token in tokens.items()}
        prices = world.data(venue).past_prices(asked) if asked else {}
        for key, token in tokens.items():
            for row in _price_changes(key, prices[token], spans[key], minutes):
                if row.at.date() in made:
                    made[row.at.date()].append(row)
    return {
        day: prices_frame(
            merge_prices(
                rows, [row for row in prices_from_rows(drop_damaged(world, _load_day(world, day)).read()) if not row.reconstructed]
            )
        )
        for day, rows in made.items()
    }


def reconstructed_days(world: WeekContext) -> list[date]:
    """The days before today on which reconstructed cohorts held something, in order: those that `reconstruct_rows` has marks for."""
    today, days = world.now().date(), set[date]()
    held = (spans for book in _fold_books(world, reconstructed=True).values() for spans in held_spans(book).values())
    for begin, end in (span for spans in held for span in spans):
        last = today if end is None else end.date()
        days |= {begin.date() + number * _DAY for number in range((last - begin.date()).days + 1)}
    return sorted(day for day in days if day < today)


def _price_changes(key: PriceKey, points: Points, spans: Sequence[tuple[datetime, datetime]], minutes: int) -> list[Price]:
    rows: list[Price] = []
    for at, said in points:
        price = price_micros(said)
        if price is None or not any(begin <= at < end for begin, end in spans):
            continue
        stamp = interval_start(at, minutes)
        if rows and rows[-1].price == price and rows[-1].at.date() == stamp.date():
            continue
        rows.append(Price(*key, stamp, price, PriceSource.LIVE, at, reconstructed=True))
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


def _clip_spans(
    held: Mapping[PriceKey, Sequence[tuple[datetime, datetime | None]]], first: datetime, last: datetime, now: datetime
) -> Iterator[tuple[PriceKey, list[tuple[datetime, datetime]]]]:
    """The parts of spans between two instants, without what has none."""
    for key, found in held.items():
        clipped = [(max(begin, first), min(end or now, last)) for begin, end in found]
        if spans := [span for span in clipped if span[0] < span[1]]:
            yield key, spans


def _fold_books(world: WeekContext, *, reconstructed: bool | None) -> dict[Venue, Book]:
    """The books of live or reconstructed cohorts, by venue; None: of all that are not archived."""
    agents, trades, evidence = (world.lake.slice(table, missing="skip").read() for table in (AGENTS, TRADES, EVIDENCE))
    wanted = pl.col("archived_at").is_null() if reconstructed is None else pl.col("reconstructed") == reconstructed
    return fold_books(world, agents.filter(wanted), trades, evidence)


def _quoted_tokens(world: WeekContext, keys: Iterable[PriceKey]) -> dict[PriceKey, str]:
    """The token or contract that quotes each price, from the universes of the markets."""
    wanted = list(keys)
    ids = sorted({market_id for market_id, _ in wanted})
    rows = world.lake.slice(UNIVERSE, missing="skip").query(
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


def _load_day(world: WeekContext, day: date) -> Slice:
    return world.lake.slice(PRICES, [(day.isoformat(),)], missing="skip")


def _day_start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
