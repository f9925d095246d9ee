"""Portfolios: several prepared episodes, also of different venues, that an agent trades at once with one bankroll and one clock."""

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


def build_name(episodes: Sequence[str]) -> str:
    """Build the name of a portfolio: the episodes' names joined with `+`. If that is longer than `LONGEST_NAME`: the first name, the number
    of further episodes and a digest.
    """
    from bellwether.tables.replay import SEPARATOR

    name = SEPARATOR.join(episodes)
    if len(name) <= LONGEST_NAME or len(episodes) == 1:
        return name
    digest = hashlib.sha256("\n".join(episodes).encode()).hexdigest()
    return f"{episodes[0]}{SEPARATOR}{len(episodes) - 1}-more-{digest[:12]}"


def combine(episodes: Sequence[Prepared], *, bankroll: int | None = None, execution: str | None = None) -> Prepared:
    """Combine episodes into one portfolio, in which they are sorted by start and name.

    Args:
        episodes: Prepared episodes.
        bankroll: Starting cash, micro-dollars. Default: that of the episodes.
        execution: Execution mode. Default: that of the episodes.

    Raises:
        ConfigError: An episode or a market appears twice, the worlds or the rules do not match, or the episodes differ in a setting of which a
            portfolio has only one value.
    """
    if not episodes:
        raise ConfigError("making a portfolio: the list of episodes is empty; name at least one")
    parts = sorted(episodes, key=lambda part: (part.info.start_ns, part.info.id))
    _check_markets(parts)
    _check_worlds(parts)
    rules = combine_rules([part.rules for part in parts])
    _check_ends(rules)
    exogenous = _merge_series(parts)
    ends = [part.info.end_ns for part in parts]
    info = EpisodeInfo(
        id=build_name([part.info.id for part in parts]),
        title="; ".join(part.info.title for part in parts if part.info.title),
        venue="+".join(dict.fromkeys(part.info.venue for part in parts)),
        markets=tuple(market for part in parts for market in part.info.markets),
        start_ns=parts[0].info.start_ns,
        end_ns=None if None in ends else max(end for end in ends if end is not None),
        bankroll=MicroDollars(bankroll)
        if bankroll is not None
        else _common_value(parts, "bankroll", {part.info.id: part.info.bankroll for part in parts}),
        rules=rules.name,
        exogenous=tuple(exogenous),
        observation_depth=_common_value(parts, "observation_depth", {part.info.id: part.info.observation_depth for part in parts}),
    )
    tapes = [replace_units(part.tape, part.rules.units) for part in parts]
    return Prepared(
        info=info,
        digest=hashlib.sha256("\n".join(part.digest for part in parts).encode()).hexdigest(),
        rules=rules,
        tape=merge_tapes(tapes),
        execution=execution or _common_value(parts, "execution_mode", {part.info.id: part.execution for part in parts}),
        exogenous=exogenous,
        default_fees=any(part.default_fees for part in parts),
        world=next((part.world for part in parts if part.world), ""),
        parts=tuple(parts),
    )


def _check_markets(parts: Sequence[Prepared]) -> None:
    """Raise `ConfigError` for an episode or a market that appears twice, and for a portfolio among the episodes."""
    from bellwether.tables.replay import SEPARATOR, is_portfolio

    episode_of: dict[str, str] = {}
    names: set[str] = set()
    for part in parts:
        name = part.info.id
        if name in names:
            raise ConfigError(f"making a portfolio: the episode {name} appears twice; name it once")
        if is_portfolio(name):
            raise ConfigError(
                f"making a portfolio: the name of the episode {name} contains {SEPARATOR}, which is reserved for portfolios; rename it"
            )
        names.add(name)
        for ticker in part.info.tickers:
            if ticker in episode_of:
                raise ConfigError(
                    f"making a portfolio: the market {ticker} is in {episode_of[ticker]} and in {name}; leave out one of these episodes"
                )
            episode_of[ticker] = name


def _check_ends(rules: RuleSet) -> None:
    """Raise `ConfigError` for rules that never close markets, under which the last book of a finished episode could still be traded."""
    if rules.trade_after_settlement:
        raise ConfigError(
            f"making a portfolio: under {rules.name} markets are traded after their end; replay the episodes "
            "separately, or name other rules with --rules"
        )


def _check_worlds(parts: Sequence[Prepared]) -> None:
    worlds = {part.world: part.info.id for part in reversed(parts) if part.world}
    if len(worlds) > 1:
        listed = ", ".join(f"{episode} is of {world}" for world, episode in sorted(worlds.items()))
        raise ConfigError(f"making a portfolio: its episodes are of different worlds: {listed}; give episodes of one world")


_OPTIONS = {"bankroll": "name one with --bankroll", "execution_mode": "name one with --execution"}


def _common_value(parts: Sequence[Prepared], name: str, values: Mapping[str, Value]) -> Value:
    """Return the value of a setting that all episodes share. Raises `ConfigError` if two episodes differ. name: the setting, for the error.
    values: value by episode.
    """
    first = parts[0].info.id
    for episode, value in values.items():
        if value != values[first]:
            raise ConfigError(
                f"making a portfolio: {first} has {name} {values[first]}, but {episode} has {value}; "
                f"{_OPTIONS.get(name, 'replay them separately')}"
            )
    return values[first]


def _merge_series(parts: Sequence[Prepared]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Merge the exogenous series (data from outside the markets) of all episodes. Where episodes overlap in time, a series has the points
    of the earlier episode.
    """
    series: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for part in parts:
        for name, (ts, values) in part.exogenous.items():
            series[name] = _join_series(name, series[name], (ts, values)) if name in series else (ts, values)
    return series


def _join_series(name: str, earlier: tuple[np.ndarray, np.ndarray], later: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Join two recordings of one series. Raises `ConfigError` if they differ in the period covered by both recordings."""
    if not len(earlier[0]) or not len(later[0]):
        return earlier if len(earlier[0]) else later
    first, last = max(earlier[0][0], later[0][0]), min(earlier[0][-1], later[0][-1])
    shared = [(ts >= first) & (ts <= last) for ts, _ in (earlier, later)]
    both = [(ts[within], values[within]) for (ts, values), within in zip((earlier, later), shared, strict=True)]
    if not all(np.array_equal(mine, others, equal_nan=True) for mine, others in zip(*both, strict=True)):
        raise ConfigError(
            f"making a portfolio: two episodes have different values of the series {name} at the same times; replay them separately"
        )
    ts, values = (np.concatenate([column, other[~shared[1]]]) for column, other in zip(earlier, later, strict=True))
    order = np.argsort(ts, kind="stable")
    return ts[order], values[order]
