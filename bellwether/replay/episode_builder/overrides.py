"""Fee terms that a user states for the markets of an episode, over known ones: terms, a series, or the venue's own ticker."""

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
    from bellwether.replay.episode.metadata import Metadata


@dataclass(frozen=True, slots=True)
class Overrides:
    """fee: terms of every market. series: whose terms every market has. tickers: the venue's ticker of a market by the one that it has here."""

    fee: Mapping[str, Any] | None = None
    series: str | None = None
    tickers: Mapping[str, str] = field(default_factory=dict)


def parse_overrides(fee: str | None, series: str | None, tickers: Iterable[str]) -> Overrides:
    """Parse the options `--fee TYPE[:MULTIPLIER]`, `--series SERIES` and `--ticker HERE=VENUES`. Raises `ConfigError` for invalid values."""
    if fee is not None and series is not None:
        raise ConfigError("reading --fee and --series: both say which fees the markets have; give one of them")
    named: dict[str, str] = {}
    for text in tickers:
        here, _, theirs = text.partition("=")
        if not here or not theirs or here in named:
            raise ConfigError(f"reading --ticker: {text!r:.80} is not HERE=VENUES, the market's ticker here and the venue's own, each once")
        named[here] = theirs
    return Overrides(None if fee is None else _parse_fee(fee), series, named)


def _parse_fee(text: str) -> dict[str, Any]:
    kind, _, factor = text.partition(":")
    try:
        multiplier = Decimal(factor or "1")
    except InvalidOperation:
        multiplier = Decimal(-1)
    if not kind or not multiplier.is_finite() or multiplier < 0:
        raise ConfigError(f"reading --fee: {text!r:.80} is not TYPE or TYPE:MULTIPLIER, such as quadratic_with_maker_fees or quadratic:0.5")
    return {"type": kind, "multiplier": f"{multiplier.normalize():f}", "waiver_until": None, "source": "stated"}


def check_fee(overrides: Overrides) -> None:
    """Raise `ConfigError` for a fee type that no rule set has."""
    if overrides.fee is None:
        return
    known = sorted({kind for rules in rule_sets().values() for kind in rules.fees if kind != "*"})
    if overrides.fee["type"] not in known:
        raise ConfigError(f"reading --fee: no rules have the fee type {overrides.fee['type']!r:.60}; there are {', '.join(known)}")


def load_listings_with_overrides(lake: Lake, tickers: Iterable[str], overrides: Overrides) -> Listings:
    """Return the lake's facts of markets with their stated fees, by local ticker.

    Of a market that is not listed, the fees are those of the series that its ticker names, where the lake has it. Raises `ConfigError` for a ticker or a
    series that is not there, `LakeError`.
    """
    tickers = list(tickers)
    if unknown := sorted(set(overrides.tickers) - set(tickers)):
        raise ConfigError(f"reading --ticker: there is no market {', '.join(unknown)}; there are {', '.join(tickers)}")
    named = {ticker: overrides.tickers.get(ticker, ticker) for ticker in tickers}
    listed = load_listings(lake, list(named.values()))
    series = load_series_terms(lake)
    markets = {here: _market(here, listed.markets.get(theirs), theirs, overrides, series) for here, theirs in named.items()}
    return Listings(markets, listed.events)


def _market(
    here: str, listed: ListedMarket | None, theirs: str, overrides: Overrides, series: Mapping[str, Mapping[str, Any]]
) -> ListedMarket:
    found = listed or ListedMarket(theirs)
    if overrides.fee is not None:
        found = replace(found, fee=overrides.fee)
    elif overrides.series is not None:
        found = replace(found, ticker=f"{overrides.series}-", fee=_find_series_fee(overrides.series, series))
    elif found.fee["source"] == "default":
        found = replace(found, fee=series.get(theirs.partition("-")[0], found.fee))
    return found if found.outcome is None else replace(found, outcome=replace(found.outcome, ticker=here))


def _find_series_fee(name: str, series: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    if name in series:
        return series[name]
    if is_index(name):
        return DEFAULT_FEE
    raise ConfigError(f"reading --series: the lake has no series {name}; pull the venue's series first, or state the terms with --fee")


def with_fees(metadata: Metadata, known: Listings, overrides: Overrides) -> Metadata:
    """The metadata of an imported episode: fees that are stated win, and what its files leave out is filled in, by default at the worst."""
    stated = overrides.fee is not None or overrides.series is not None
    markets = tuple(
        replace(market, fee=fee_at(known.market(market.ticker), metadata.start))
        if stated or market.ticker in overrides.tickers or market.has_default_fee
        else market
        for market in metadata.markets
    )
    return replace(metadata, markets=markets)
