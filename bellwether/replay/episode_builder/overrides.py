"""Fee terms given by the user for the markets of an episode: terms, a series, or the venue's own ticker. They override listed ones."""

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
    """Overrides of fees. fee: terms of every market. series: whose terms apply to every market. tickers: local ticker -> the venue's."""

    fee: Mapping[str, Any] | None = None
    series: str | None = None
    tickers: Mapping[str, str] = field(default_factory=dict)


def parse_overrides(fee: str | None, series: str | None, tickers: Iterable[str]) -> Overrides:
    """Parse the options `--fee TYPE[:MULTIPLIER]`, `--series SERIES` and `--ticker HERE=VENUES`. Raises `ConfigError` for invalid values."""
    if fee is not None and series is not None:
        raise ConfigError("reading --fee and --series: both set the fees of the markets; give one of them")
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
    """Raise `ConfigError` for a fee type that is in no rule set."""
    if overrides.fee is None:
        return
    known = sorted({kind for rules in rule_sets().values() for kind in rules.fees if kind != "*"})
    if overrides.fee["type"] not in known:
        raise ConfigError(f"reading --fee: unknown fee type {overrides.fee['type']!r:.60}; give one of {', '.join(known)}")


def load_listings_with_overrides(lake: Lake, tickers: Iterable[str], overrides: Overrides) -> Listings:
    """Load the listings of markets with the given fees, by local ticker.

    A market that is not listed has the fees of the series in its ticker, if the lake has it. Raises `ConfigError` for an unknown ticker or
    series, and `LakeError`.
    """
    tickers = list(tickers)
    if unknown := sorted(set(overrides.tickers) - set(tickers)):
        raise ConfigError(f"reading --ticker: unknown market {', '.join(unknown)}; give one of {', '.join(tickers)}")
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
    """Return the metadata of an imported episode with fees: given ones override, missing ones are filled in from listings, else with the
    general fees.
    """
    stated = overrides.fee is not None or overrides.series is not None
    markets = tuple(
        replace(market, fee=fee_at(known.market(market.ticker), metadata.start))
        if stated or market.ticker in overrides.tickers or market.has_default_fee
        else market
        for market in metadata.markets
    )
    return replace(metadata, markets=markets)
