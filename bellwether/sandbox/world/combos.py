"""Multivariate markets (combos): they pay if several markets of other events, the legs, have given outcomes."""

from __future__ import annotations

import hashlib
from typing import Any

from bellwether.sandbox.timestamps import DAY, HOUR, SECOND, format_time, to_datetime
from bellwether.sandbox.world.codes import TickerCodes
from bellwether.sandbox.world.latent_paths import SLOT, Combo, PathClaim
from bellwether.sandbox.world.model import Determination, Life, Market, WorldEvent, to_day_number
from bellwether.sandbox.world.random_draws import Purpose, RandomDraws
from bellwether.sandbox.world.tape import TradingProfile, list_price_ranges

_COLLECTIONS = ("KXMVECROSSCATEGORY", "KXMVESPORTSMULTIGAMEEXTENDED")
_SOON = DAY


def _determination(legs: list[tuple[Market, bool]]) -> Determination:
    """Return how a combo ends: it pays the product of the legs' values, rounded down to 1/10000 dollar, and is void if a leg is void. legs:
    market, and True if YES is required.
    """
    value = 10_000
    for market, side in legs:
        worth = market.determination.value
        if worth is None:
            return Determination("void", None, "")
        value = value * (worth if side else 10_000 - worth) // 10_000
    return Determination("yes" if value == 10_000 else "no" if value == 0 else "scalar", value, "")


def _life(legs: list[tuple[Market, bool]], draw: RandomDraws) -> Life | None:
    """Draw when a combo opens, at most a day before the first leg closes; it ends with the last leg. None if the legs never trade at the
    same time.

    None if the legs never trade at the same time.
    """
    lives = [market.life for market, _ in legs]
    first_close = min(life.closes for life in lives)
    earliest = max(*(life.opens for life in lives), first_close - _SOON)
    if earliest + HOUR >= first_close:
        return None
    opens = draw.integer(earliest, first_close - HOUR) // SLOT * SLOT
    closes = max(life.closes for life in lives)
    determined = max(life.determined for life in lives)
    settled = max(life.settled for life in lives) + 5 * SECOND
    return Life(opens - draw.integer(0, 2 * SECOND), opens, closes, max(life.scheduled for life in lives), determined, None, settled)


def _terms(event_ticker: str, collection: str, legs: list[tuple[Market, bool]], life: Life, provisional: bool) -> dict[str, Any]:
    """Build the fields of a combo's market object that never change."""
    sides = ["yes" if side else "no" for _, side in legs]
    title = ",".join(f"{side} {market.terms['yes_sub_title']}" for side, (market, _) in zip(sides, legs, strict=True))
    suffix = hashlib.sha256(event_ticker.encode()).hexdigest()[:11].upper()
    terms: dict[str, Any] = {
        "can_close_early": True,
        "created_time": format_time(life.created),
        "custom_strike": {
            "Associated Events": ",".join(market.event_ticker for market, _ in legs),
            "Associated Market Sides": ",".join(sides),
            "Associated Markets": ",".join(market.ticker for market, _ in legs),
            "Multivariate Event Ticker": event_ticker,
        },
        "event_ticker": event_ticker,
        "exchange_index": 0,
        "expected_expiration_time": format_time(life.scheduled),
        "expiration_time": format_time(life.scheduled),
        "latest_expiration_time": format_time(life.scheduled),
        "market_type": "binary",
        "mve_collection_ticker": f"{collection}-R",
        "mve_selected_legs": [
            {"event_ticker": market.event_ticker, "market_ticker": market.ticker, "side": side}
            for side, (market, _) in zip(sides, legs, strict=True)
        ],
        "no_sub_title": title,
        "notional_value_dollars": "1.0000",
        "open_time": format_time(life.opens),
        "price_level_structure": "deci_cent",
        "price_ranges": list_price_ranges("deci_cent"),
        "rules_primary": "",
        "rules_secondary": "",
        "settlement_bounds_type": "default",
        "settlement_timer_seconds": 5,
        "strike_type": "custom",
        "ticker": f"{event_ticker}-{suffix}",
        "title": title,
        "yes_sub_title": title,
    }
    return {**terms, "is_provisional": True} if provisional else terms


def _latent(legs: list[tuple[Market, bool]], life: Life) -> Combo:
    """Build the claim that determines a combo's probability."""
    claims = [(market.latent, side) for market, side in legs]
    return Combo(tuple((claim, side) for claim, side in claims if isinstance(claim, PathClaim)), life.opens, life.closes)


def _event_body(event_ticker: str, collection: str, life: Life) -> dict[str, Any]:
    return {
        "category": "Sports" if "SPORTS" in collection else "Exotics",
        "collateral_return_type": "",
        "event_ticker": event_ticker,
        "exchange_index": 0,
        "last_updated_ts": format_time(life.created),
        "mutually_exclusive": False,
        "series_ticker": collection,
        "settlement_sources": None,
        "strike_period": "",
        "sub_title": "MVE",
        "title": "Combo",
    }


def draw_combos(seed: int, codes: TickerCodes, home: int, events: tuple[WorldEvent, ...], first: int) -> list[WorldEvent]:
    """Draw the combos of a day, whose legs are markets of the day's events. home: number of the day. first: index that the first combo gets
    in the day.
    """
    draw = RandomDraws(seed, Purpose.COMBO, home)
    combos: list[WorldEvent] = []
    for index in range(draw.integer(5, 12)):
        chosen = draw.sample(events, draw.integer(2, 4))
        legs = [(draw.choose(event.markets), draw.chance(0.6)) for event in chosen]
        collection = draw.choose(_COLLECTIONS)
        life = _life(legs, draw) if len(legs) > 1 else None
        if life is None:
            continue
        ticker = f"{collection}-{codes.combo(home, index, to_datetime(life.created).year)}"
        provisional = draw.chance(0.8)
        trading = TradingProfile(
            (seed, Purpose.TRADING, home, first + index, 0), "deci_cent", 0.03, 0.1, 0.25, 0.0 if provisional else 0.02, 4, False, 10
        )
        terms = _terms(ticker, collection, legs, life, provisional)
        key = (-to_day_number(life.created), codes.place(home, first + index))
        market = Market(
            (*key, 0), terms["ticker"], ticker, collection, _latent(legs, life), trading, life, _determination(legs), terms, is_combo=True
        )
        body = _event_body(ticker, collection, life)
        combos.append(WorldEvent(home, first + index, key, ticker, collection, life.created, body, (market,), is_combo=True))
    return combos
