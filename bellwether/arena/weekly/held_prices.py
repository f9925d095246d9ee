"""Prices of outcomes that agents hold: current ones at every tick (a scheduled mark), and past ones for reconstructed cohorts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import polars as pl

from bellwether.arena.frames import prices_frame, prices_from_rows
from bellwether.arena.history import Points
from bellwether.arena.ledger import Ledger
from bellwether.arena.market import Market, find_quoted_tokens
from bellwether.arena.marks import (
    HeldPrice,
    PriceKey,
    PriceObservation,
    PriceSource,
    interval_start,
    merge_prices,
    opening_price,
    price_key,
    select_tick_prices,
)
from bellwether.arena.methodology import Methodology, Venue, load_methodology
from bellwether.arena.units import price_micros
from bellwether.arena.weekly.context import WeekContext, drop_damaged
from bellwether.arena.weekly.ledgers import fold_ledgers
from bellwether.errors import VenueError
from bellwether.lake import Slice
from bellwether.tables.arena import AGENTS, EVIDENCE, PRICES, TRADES, UNIVERSE
from bellwether.units import SharePrice

_DAY = timedelta(days=1)


def store_tick(context: WeekContext) -> tuple[date, int]:
    """Fetch current prices of held outcomes, and store those that changed. Return the UTC day and the number of new rows.

    Ticks on a lake in a folder wait for each other. The stored day is read after the requests, which may take minutes, and is not replaced if another
    run writes it in between. An outcome that was never quoted since it was bought gets the midpoint at which it was bought. The first tick of a day
    stores every held price and ignores reconstructed prices, so that a day can be read without the day before.
    """
    with context.lake.lock("marks"):
        opened, observations = _observe_prices(context)
        now, rules = context.now(), load_methodology(folder=context.registry)
        day, base = interval_start(now, rules.mark_minutes).date(), context.lake.catalog.head()
        rows, changed = _merge_tick(context, opened, observations, now, rules)
        if changed:
            # Without inputs, so that the day remains out of date for reconstructed prices.
            context.lake.write(PRICES, (day.isoformat(),), rows, run_id=context.run, inputs={}, base=base)
    return day, changed


def has_open_positions(context: WeekContext) -> bool:
    """Return True if an agent holds a position that current prices value."""
    return bool(_current_holdings(context)[0])


def _observe_prices(context: WeekContext) -> tuple[Opened, dict[PriceKey, PriceObservation]]:
    """Return the held outcomes with their opening prices, and the current prices of those that are quoted."""
    observations: dict[PriceKey, PriceObservation] = {}
    opened, of_venue = _current_holdings(context)
    for venue, tokens in of_venue.items():
        observations |= _observe_venue(context, venue, tokens) if tokens else {}
    return opened, observations


def _observe_venue(context: WeekContext, venue: Venue, tokens: Tokens) -> dict[PriceKey, PriceObservation]:
    """Return the current prices of a venue's outcomes that are quoted."""
    quoted = context.query(venue, lambda data: data.fetch_midpoints(tokens.values()))
    listed: dict[PriceKey, SharePrice] = {}
    with suppress(VenueError):  # the second source is only a check; its outage does not prevent a mark
        listed = context.query(venue, lambda data: data.fetch_listed_prices(sorted(tokens), context.now()))
    return {key: replace(quoted[token], other=listed.get(key)) for key, token in tokens.items() if token in quoted}


def _merge_tick(
    context: WeekContext,
    opened: Opened,
    observations: Mapping[PriceKey, PriceObservation],
    now: datetime,
    rules: Methodology,
) -> tuple[pl.DataFrame, int]:
    """Return all rows of arena/prices of the current day, and how many of them are new."""
    stamp = interval_start(now, rules.mark_minutes)
    yesterday, today = (_load_day(context, day).read() for day in (stamp.date() - _DAY, stamp.date()))
    # A live price is stored even if it equals a reconstructed one, because live cohorts do not use the latter.
    live = today.filter(~pl.col("reconstructed"))
    newest = pl.concat([yesterday.filter(~pl.col("reconstructed")), live]).sort("at", maintain_order=True)
    newest = newest.unique(["market_id", "outcome"], keep="last", maintain_order=True)
    last = {row[:2]: row for row in prices_from_rows(newest)}
    rows = select_tick_prices(last, opened, observations, now, rules)
    changed = {row[:2] for row in rows}
    known = opened | last if live.is_empty() else {key: price for key, price in opened.items() if key not in last}
    rows += [known[key]._replace(at=stamp) for key in opened if key in known and key not in changed]
    new = prices_frame([row._replace(known_at=now) for row in rows])
    unchanged = today.join(new, on=PRICES.key, how="anti")
    return PRICES.validate(pl.concat([unchanged, new]).sort(PRICES.order)), len(rows)


Tokens = dict[PriceKey, str]

#: Opening prices of held outcomes, sorted by (market, outcome).
Opened = dict[PriceKey, HeldPrice]
#: Cache by lake: latest commits of the tables, held outcomes, and their tokens by venue. A tick folds nothing while these are unchanged.
_held: dict[str, tuple[tuple[int, ...], Opened, dict[Venue, Tokens]]] = {}


def _current_holdings(context: WeekContext) -> tuple[Opened, dict[Venue, Tokens]]:
    """Return the held outcomes with the prices at which they were last opened, and, by venue, the token that quotes each of them."""
    heads = context.lake.catalog.heads()
    numbers = tuple(heads.get(table.name, 0) for table in (AGENTS, TRADES, EVIDENCE, UNIVERSE))
    cached = _held.get(context.lake.uri)
    if cached is None or cached[0] != numbers:
        opened = {venue: _opening_prices(ledger) for venue, ledger in _fold_ledgers(context, reconstructed=None).items()}
        cached = _held[context.lake.uri] = (
            numbers,
            dict(sorted((key, price) for prices in opened.values() for key, price in prices.items())),
            {venue: _quoted_tokens(context, prices) for venue, prices in opened.items()},
        )
    return cached[1:]


def _opening_prices(ledger: Ledger) -> Opened:
    """Return the price at which each held outcome was last opened, by (market, outcome)."""
    held = [position for account in ledger.accounts.values() for position in account.open.values()]
    return {price_key(position): opening_price(position) for position in sorted(held, key=lambda position: position.opened_at)}


def reconstruct_prices(context: WeekContext, days: Sequence[date]) -> dict[date, pl.DataFrame]:
    """Reconstruct rows of arena/prices by day from hourly past prices, for holdings of reconstructed cohorts. Live rows are kept.

    The first price of an outcome on a day is always stored, later ones if they change. Damaged rows of a day are dropped if all cohorts are
    reconstructed.
    """
    first, last = (datetime.combine(day, time(), UTC) for day in (min(days), max(days) + _DAY))
    now, minutes = context.now(), load_methodology(folder=context.registry).mark_minutes
    prices_by_day: dict[date, list[HeldPrice]] = {day: [] for day in days}
    for venue, ledger in _fold_ledgers(context, reconstructed=True).items():
        spans = dict(_clip_spans(find_held_spans(ledger), first, last, now))
        tokens = _quoted_tokens(context, sorted(spans))
        wanted = {token: (spans[key][0][0], spans[key][-1][1]) for key, token in tokens.items()}
        prices = _fetch_past_prices(context, venue, wanted) if wanted else {}
        for key, token in tokens.items():
            for row in _price_changes(key, prices[token], spans[key], minutes):
                if row.at.date() in prices_by_day:
                    prices_by_day[row.at.date()].append(row)
    return {
        day: prices_frame(
            merge_prices(
                rows, [row for row in prices_from_rows(drop_damaged(context, _load_day(context, day)).read()) if not row.reconstructed]
            )
        )
        for day, rows in prices_by_day.items()
    }


def _fetch_past_prices(context: WeekContext, venue: Venue, spans: Mapping[str, tuple[datetime, datetime]]) -> Mapping[str, Points]:
    return context.query(venue, lambda data: data.fetch_past_prices(spans))


def list_reconstructed_days(context: WeekContext) -> list[date]:
    """Return the past days on which reconstructed cohorts held positions, in order."""
    today, days = context.now().date(), set[date]()
    all_spans = (spans for ledger in _fold_ledgers(context, reconstructed=True).values() for spans in find_held_spans(ledger).values())
    for begin, end in (span for spans in all_spans for span in spans):
        last = today if end is None else end.date()
        days |= {begin.date() + number * _DAY for number in range((last - begin.date()).days + 1)}
    return sorted(day for day in days if day < today)


def _price_changes(key: PriceKey, points: Points, spans: Sequence[tuple[datetime, datetime]], minutes: int) -> list[HeldPrice]:
    rows: list[HeldPrice] = []
    for at, value in points:
        price = price_micros(value)
        if price is None or not any(begin <= at < end for begin, end in spans):
            continue
        stamp = interval_start(at, minutes)
        if rows and rows[-1].price == price and rows[-1].at.date() == stamp.date():
            continue
        rows.append(HeldPrice(*key, stamp, price, PriceSource.LIVE, at, reconstructed=True))
    return rows


def find_held_spans(ledger: Ledger) -> dict[PriceKey, list[tuple[datetime, datetime | None]]]:
    """Return the time spans (start, end) in which any agent held an outcome, by (market, outcome). The end is None while the outcome is held."""
    positions = {name: position for account in ledger.accounts.values() for name, position in account.positions.items()}
    holders: dict[PriceKey, set[str]] = {}
    spans: dict[PriceKey, list[tuple[datetime, datetime | None]]] = {}
    for entry in sorted(ledger.entries, key=lambda entry: entry.known_at):
        key = price_key(positions[entry.position_id])
        was_held = bool(holders.setdefault(key, set()))
        (holders[key].add if entry.shares else holders[key].discard)(entry.position_id)
        if holders[key] and not was_held:
            spans.setdefault(key, []).append((entry.known_at, None))
        elif was_held and not holders[key]:
            spans[key][-1] = spans[key][-1][0], entry.known_at
    return spans


def _clip_spans(
    spans_by_key: Mapping[PriceKey, Sequence[tuple[datetime, datetime | None]]], first: datetime, last: datetime, now: datetime
) -> Iterator[tuple[PriceKey, list[tuple[datetime, datetime]]]]:
    """Yield (market, outcome) and its spans, clipped to [first, last]. Empty spans are dropped; spans without an end last until `now`."""
    for key, unclipped in spans_by_key.items():
        clipped = [(max(begin, first), min(end or now, last)) for begin, end in unclipped]
        if spans := [span for span in clipped if span[0] < span[1]]:
            yield key, spans


def _fold_ledgers(context: WeekContext, *, reconstructed: bool | None) -> dict[Venue, Ledger]:
    """Build ledgers by venue. reconstructed: True for reconstructed cohorts, False for live ones, None for all cohorts that are not archived."""
    agents, trades, evidence = (context.lake.slice(table, missing="skip").read() for table in (AGENTS, TRADES, EVIDENCE))
    wanted = pl.col("archived_at").is_null() if reconstructed is None else pl.col("reconstructed") == reconstructed
    return fold_ledgers(context, agents.filter(wanted), trades, evidence)


def _quoted_tokens(context: WeekContext, keys: Iterable[PriceKey]) -> dict[PriceKey, str]:
    """Return the Polymarket token or Kalshi contract that quotes each (market, outcome), according to the stored universes."""
    wanted = list(keys)
    ids = sorted({market_id for market_id, _ in wanted})
    rows = context.lake.slice(UNIVERSE, missing="skip").query(
        lambda stored: stored.filter(pl.col("market_id").is_in(ids)).select("market_id", "outcomes", "token_ids")
    )
    markets = {
        market_id: Market(market_id, "", tuple(outcomes), token_ids=tuple(tokens)) for market_id, outcomes, tokens in rows.iter_rows()
    }
    token_at = {place: token for token, place in find_quoted_tokens(markets, list(markets)).items()}
    tokens: dict[PriceKey, str] = {}
    for market_id, outcome in wanted:
        market = markets.get(market_id)
        place = None if market is None else market.place(outcome)
        if place is not None and (market_id, place) in token_at:
            tokens[market_id, outcome] = token_at[market_id, place]
    return tokens


def _load_day(context: WeekContext, day: date) -> Slice:
    return context.lake.slice(PRICES, [(day.isoformat(),)], missing="skip")
