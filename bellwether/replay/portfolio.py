"""Portfolios of prepared episodes, of one venue or of several, with one bankroll, one clock and all their markets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay.agents.records import EpisodeInfo
from bellwether.replay.prepared import Prepared
from bellwether.replay.rules import RuleSet
from bellwether.replay.rules.combination import combine_rules
from bellwether.replay.tape.merge import merge_tapes, replace_units
from bellwether.units import MicroDollars

Value = TypeVar("Value", bound=int | str)

#: Maximum length of a portfolio's name, which names files and partitions.
LONGEST_NAME = 100


def portfolio_name(episodes: Sequence[str]) -> str:
    """Join the episodes' names with `+`; above `LONGEST_NAME` characters the first name, the number of others, and a digest of all
    names.
    """
    from bellwether.tables.replay import SEPARATOR

    name = SEPARATOR.join(episodes)
    if len(name) <= LONGEST_NAME or len(episodes) == 1:
        return name
    digest = hashlib.sha256("\n".join(episodes).encode()).hexdigest()
    return f"{episodes[0]}{SEPARATOR}{len(episodes) - 1}-more-{digest[:12]}"


def combine(episodes: Sequence[Prepared], *, bankroll: int | None = None, execution: str | None = None) -> Prepared:
    """Combine episodes to one portfolio, sorted by start and name.

    bankroll (micro-dollars), execution: of the portfolio; by default those of the episodes. Raises `ConfigError` for an episode or a market
    that appears twice, episodes of different worlds, incompatible rules, and differing values of settings that a portfolio has only once.
    """
    if not episodes:
        raise ConfigError("making a portfolio: the list of episodes is empty; name at least one")
    parts = sorted(episodes, key=lambda one: (one.info.start_ns, one.info.id))
    _check_markets(parts)
    _check_worlds(parts)
    rules = combine_rules([one.rules for one in parts])
    _check_ends(rules)
    exogenous = _exogenous(parts)
    ends = [one.info.end_ns for one in parts]
    info = EpisodeInfo(
        id=portfolio_name([one.info.id for one in parts]),
        title="; ".join(title for one in parts if (title := one.info.title)),
        venue="+".join(dict.fromkeys(one.info.venue for one in parts)),
        markets=tuple(market for one in parts for market in one.info.markets),
        start_ns=parts[0].info.start_ns,
        end_ns=None if None in ends else max(end for end in ends if end is not None),
        bankroll=MicroDollars(bankroll)
        if bankroll is not None
        else _agreed(parts, "bankroll", {one.info.id: one.info.bankroll for one in parts}),
        rules=rules.name,
        exogenous=tuple(exogenous),
        observation_depth=_agreed(parts, "observation_depth", {one.info.id: one.info.observation_depth for one in parts}),
    )
    tapes = [replace_units(one.tape, one.rules.units) for one in parts]
    return Prepared(
        info=info,
        digest=hashlib.sha256("\n".join(one.digest for one in parts).encode()).hexdigest(),
        rules=rules,
        tape=merge_tapes(tapes),
        execution=execution or _agreed(parts, "execution_mode", {one.info.id: one.execution for one in parts}),
        exogenous=exogenous,
        default_fees=any(one.default_fees for one in parts),
        world=next((one.world for one in parts if one.world), ""),
        parts=tuple(parts),
    )


def _check_markets(parts: Sequence[Prepared]) -> None:
    of_market: dict[str, str] = {}
    from bellwether.tables.replay import SEPARATOR, is_portfolio

    names: set[str] = set()
    for one in parts:
        name = one.info.id
        if name in names:
            raise ConfigError(f"making a portfolio: the episode {name} appears twice; name it once")
        if is_portfolio(name):
            raise ConfigError(
                f"making a portfolio: the name of the episode {name} contains {SEPARATOR}, which is reserved for portfolios; rename it"
            )
        names.add(name)
        for ticker in one.info.tickers:
            if ticker in of_market:
                raise ConfigError(
                    f"making a portfolio: the market {ticker} is in {of_market[ticker]} and in {name}; leave out one of these episodes"
                )
            of_market[ticker] = name


def _check_ends(rules: RuleSet) -> None:
    """Refuse rules that never close markets: the last book of a finished episode could be traded until the end of the others."""
    if rules.trade_after_settlement:
        raise ConfigError(
            f"making a portfolio: under {rules.name} markets are traded after their end; replay the episodes "
            "separately, or name other rules with --rules"
        )


def _check_worlds(parts: Sequence[Prepared]) -> None:
    worlds = {one.world: one.info.id for one in reversed(parts) if one.world}
    if len(worlds) > 1:
        listed = ", ".join(f"{episode} is of {world}" for world, episode in sorted(worlds.items()))
        raise ConfigError(f"making a portfolio: its episodes are of different worlds: {listed}; give episodes of one world")


_OPTIONS = {"bankroll": "name one with --bankroll", "execution_mode": "name one with --execution"}


def _agreed(parts: Sequence[Prepared], name: str, values: Mapping[str, Value]) -> Value:
    """Return the common value of all episodes. Raises `ConfigError` if two differ."""
    first = parts[0].info.id
    for episode, value in values.items():
        if value != values[first]:
            raise ConfigError(
                f"making a portfolio: {first} has {name} {values[first]}, but {episode} has {value}; "
                f"{_OPTIONS.get(name, 'replay them separately')}"
            )
    return values[first]


def _exogenous(parts: Sequence[Prepared]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Merge the series of all parts. A series of several parts gets the points of each part outside the periods of the earlier ones."""
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for one in parts:
        for name, (ts, values) in one.exogenous.items():
            found[name] = _joined(name, found[name], (ts, values)) if name in found else (ts, values)
    return found


def _joined(name: str, known: tuple[np.ndarray, np.ndarray], more: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Join two recordings of a series. Raises `ConfigError` if they differ in the time that both cover."""
    if not len(known[0]) or not len(more[0]):
        return known if len(known[0]) else more
    first, last = max(known[0][0], more[0][0]), min(known[0][-1], more[0][-1])
    shared = [(ts >= first) & (ts <= last) for ts, _ in (known, more)]
    both = [(ts[here], values[here]) for (ts, values), here in zip((known, more), shared, strict=True)]
    if not all(np.array_equal(mine, others, equal_nan=True) for mine, others in zip(*both, strict=True)):
        raise ConfigError(
            f"making a portfolio: two episodes have different values of the series {name} at the same times; replay them separately"
        )
    ts, values = (np.concatenate([column, other[~shared[1]]]) for column, other in zip(known, more, strict=True))
    order = np.argsort(ts, kind="stable")
    return ts[order], values[order]
