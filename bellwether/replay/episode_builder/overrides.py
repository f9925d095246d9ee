"""Fees that the user states for the markets of an episode, in place of the listed fees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from bellwether.errors import ConfigError
from bellwether.replay.episode_builder.listings import (
    DEFAULT_FEE,
    ListedMarket,
    Listings,
    fee_at,
    is_index,
    load_listings,
    load_series_terms,
)
from bellwether.replay.rules import rule_sets

if TYPE_CHECKING:
    from bellwether.lake import Lake
    from bellwether.replay.episode.model import Metadata


@dataclass(frozen=True, slots=True)
class Overrides:
    """Fees stated by the user: the terms, a series that has them, or tickers under which markets are listed.

    fee: terms of every market. series: ticker of the series whose terms apply to every market. tickers: the venue's ticker by the market's
    ticker in the episode.
    """

    fee: Mapping[str, Any] | None = None
    series: str | None = None
    tickers: Mapping[str, str] = field(default_factory=dict)


def parse_overrides(fee: str | None, series: str | None, tickers: Iterable[str]) -> Overrides:
    """Parse the options `--fee TYPE[:MULTIPLIER]`, `--series SERIES` and `--ticker HERE=VENUES`. Raises `ConfigError` for invalid values."""
    if fee is not None and series is not None:
        raise ConfigError("reading --fee and --series: both set the fees of the markets; give one of them")
    named: dict[str, str] = {}
    for text in tickers:
        local, _, listed = text.partition("=")
        if not local or not listed or local in named:
            raise ConfigError(f"reading --ticker: {text!r:.80} is not HERE=VENUES, the market's ticker here and the venue's own, each once")
        named[local] = listed
    return Overrides(None if fee is None else _parse_fee(fee), series, named)


def _parse_fee(text: str) -> dict[str, Any]:
    kind, _, factor = text.partition(":")
    try:
        multiplier = Decimal(factor or "1")
    except InvalidOperation:
        multiplier = Decimal(-1)
    if not kind or not multiplier.is_finite() or multiplier < 0:
        raise ConfigError(f"reading --fee: {text!r:.80} is not TYPE or TYPE:MULTIPLIER, such as quadratic_with_maker_fees or quadratic:0.5")
    types = sorted({name for rules in rule_sets().values() for name in rules.fees})
    if kind not in types:
        raise ConfigError(f"reading --fee: unknown fee type {kind!r:.60}; give one of {', '.join(types)}")
    return {"type": kind, "multiplier": f"{multiplier.normalize():f}", "waiver_until": None, "source": "stated"}


def load_listings_with_overrides(lake: Lake, tickers: Iterable[str], overrides: Overrides) -> Listings:
    """Load the listings of markets, by their tickers in the episode, with the fees that the user stated in place of the listed ones.

    A market that is not listed has the fees of the series in its ticker, if the lake has it. Raises `ConfigError` for an unknown ticker or
    series, and `LakeError`.
    """
    tickers = list(tickers)
    if unknown := sorted(set(overrides.tickers) - set(tickers)):
        raise ConfigError(f"reading --ticker: unknown market {', '.join(unknown)}; give one of {', '.join(tickers)}")
    venue_tickers = {ticker: overrides.tickers.get(ticker, ticker) for ticker in tickers}
    listings = load_listings(lake, list(venue_tickers.values()))
    series = load_series_terms(lake)
    markets = {ticker: _override_market(ticker, listings.market(listed), overrides, series) for ticker, listed in venue_tickers.items()}
    return Listings(markets, listings.events)


def _override_market(ticker: str, listing: ListedMarket, overrides: Overrides, series: Mapping[str, Mapping[str, Any]]) -> ListedMarket:
    """Return a listing with the fees that apply, its outcome renamed to `ticker`, the market's ticker in the episode."""
    if overrides.fee is not None:
        listing = replace(listing, fee=overrides.fee)
    elif overrides.series is not None:
        listing = replace(listing, ticker=f"{overrides.series}-", fee=_find_series_fee(overrides.series, series))
    elif listing.fee["source"] == "default":
        listing = replace(listing, fee=series.get(listing.ticker.partition("-")[0], listing.fee))
    return listing if listing.outcome is None else replace(listing, outcome=replace(listing.outcome, ticker=ticker))


def _find_series_fee(name: str, series: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the fee terms of the series `name`. Raises `ConfigError` if the lake does not have the series."""
    if name in series:
        return series[name]
    if is_index(name):
        return DEFAULT_FEE
    raise ConfigError(f"reading --series: the lake has no series {name}; pull the venue's series first, or state the terms with --fee")


def with_fees(metadata: Metadata, listings: Listings, overrides: Overrides) -> Metadata:
    """Return the metadata of an imported episode with the fees of its markets filled in or replaced.

    Fees stated by the user override the episode's. Missing ones are taken from listings, or are the general fees.
    """
    stated = overrides.fee is not None or overrides.series is not None
    markets = tuple(
        replace(market, fee=fee_at(listings.market(market.ticker), metadata.start))
        if stated or market.ticker in overrides.tickers or market.has_default_fee
        else market
        for market in metadata.markets
    )
    return replace(metadata, markets=markets)
