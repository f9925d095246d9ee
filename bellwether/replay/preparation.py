"""Preparation of the episodes of a run, one or several that are traded together, for a replay under a rule set."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay.agents.records import EpisodeInfo, MarketInfo
from bellwether.replay.rules import PMB, PMB_RULES, RuleSet, combine_rules, rule_set, rules_for
from bellwether.replay.settings import BANKROLL, Execution
from bellwether.replay.tape.build import load_tape
from bellwether.replay.tape.layout import GRID, HALT, KIND_MASK, MAX_TICKERS, PRINT, TICKER_SHIFT, VALUE_SHIFT, Tape, freeze, unpack
from bellwether.replay.units import DOLLAR, YES
from bellwether.units import MicroDollars

if TYPE_CHECKING:
    from bellwether.replay.episode.content import Content, Trades
    from bellwether.replay.episode.folder import Episode

Value = TypeVar("Value", bound=int | str)

#: Joins the names of several episodes; their own names do not contain it.
SEPARATOR = "+"
#: Maximum length of the name of several episodes, which names files.
LONGEST_NAME = 100


@dataclass(frozen=True, eq=False)
class Prepared:
    """Episodes of a run that are ready for a replay.

    Attributes:
        info: Description for agents.
        digest: SHA-256 of the content.
        rules: Rule set.
        tape: Tape, with the fees of the rules.
        execution: Execution mode of the episodes.
        exogenous: Times (ns UTC) and values of each exogenous series, by name.
        default_fees: The rules use fee terms, and those of at least one market are not stated.
        recorded: The episode's trades; a tape alone uses its prints.
        content: Books, trades and settlements, which a replay under PredictionMarketBench's rules reads; None under other rules.
        parts: The single episodes, if there are several.
    """

    info: EpisodeInfo
    digest: str
    rules: RuleSet
    tape: Tape
    execution: Execution = "maker_taker"
    exogenous: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    default_fees: bool = False
    recorded: Trades | None = None
    content: Content | None = None
    parts: tuple[Prepared, ...] = ()

    @property
    def episodes(self) -> tuple[str, ...]:
        """Names of the episodes."""
        return tuple(part.info.id for part in self.parts or (self,))

    @cached_property
    def trades(self) -> np.ndarray:
        """Recorded trades by time, int64[n, 5]: ns UTC, ticker code, price of YES ($0.0001), lots, side that the taker bought. Trades of
        one instant are in the order of the episodes.

        Prints of the tape may be earlier than the feed reported them, so agents see the episode's own trades.
        """
        if self.parts:
            codes = accumulate((len(part.tape.tickers) for part in self.parts), initial=0)
            rows = np.concatenate([part.trades + np.array([0, code, 0, 0, 0]) for part, code in zip(self.parts, codes, strict=False)])
            rows = rows[np.argsort(rows[:, 0], kind="stable")]
        elif self.recorded is None:
            tape = self.tape
            prints = np.flatnonzero(tape.event & KIND_MASK == PRINT)
            _, ticker, side, level, lots = unpack(tape.event[prints])
            price = tape.prices[tape.starts[ticker] + level]
            rows = np.column_stack([tape.ts[prints], ticker, np.where(side == YES, price, DOLLAR - price), lots, 1 - side])
        else:
            trades = self.recorded
            rows = np.column_stack([trades.ts, trades.ticker, trades.price, trades.lots, trades.taker]).astype(np.int64, copy=False)
        return freeze(rows)


def prepare(
    source: Episode | Tape | Prepared | Sequence[Episode | Prepared],
    rules: str | RuleSet | None = None,
    *,
    bankroll: int | None = None,
) -> Prepared:
    """Prepare an episode, a tape, or several episodes that are traded together for a replay.

    Args:
        source: Episode or tape, which may be prepared already, or a sequence of episodes; they are sorted by start and name.
        rules: Rule set or its name. Default: that of the episode, else that of its venue on its first day. Required for a tape.
        bankroll: Starting cash of several episodes, micro-dollars. Required if they differ in it.

    Raises:
        ConfigError: The rules are unknown or missing, or the episodes cannot be traded together: an episode or a market appears twice, the
            rules do not match, or the episodes differ in a setting of which a run has only one value.
    """
    if isinstance(source, str | Path):
        raise ConfigError(f"replaying {str(source)!r:.80}: it is the name of a folder; load the episode first, with bellwether.replay.load")
    if isinstance(source, Prepared):
        return _check_rules(source, rules.name if isinstance(rules, RuleSet) else rules)
    if isinstance(source, Sequence):
        parts = [prepare(part, rules) for part in source]
        return parts[0] if len(parts) == 1 else _combine(parts, bankroll)
    return _prepare_tape(source, rules) if isinstance(source, Tape) else _prepare_episode(source, rules)


def _check_rules(prepared: Prepared, rules: str | None) -> Prepared:
    """Return prepared episodes. Raises `ConfigError` if `rules` names other rules than those for which they were prepared."""
    for part in prepared.parts or (prepared,):
        if rules not in (None, part.rules.name, prepared.rules.name):
            raise ConfigError(f"replaying {part.info.id}: it was prepared for {part.rules.name}, not for {rules}; prepare it again")
    return prepared


def _prepare_tape(tape: Tape, rules: str | RuleSet | None) -> Prepared:
    if rules is None:
        raise ConfigError("replaying a tape: a tape has no rules of its own; name them (BacktestSettings.rules)")
    chosen = rule_set(rules) if isinstance(rules, str) else rules
    markets = tuple(MarketInfo(ticker) for ticker in tape.tickers)
    info = EpisodeInfo("tape", "", chosen.venue, markets, tape.start, tape.end, BANKROLL, chosen.name)
    return Prepared(info, tape.digest, chosen, tape)


def _prepare_episode(episode: Episode, rules: str | RuleSet | None) -> Prepared:
    about = episode.metadata
    wanted = rules or about.rules or rules_for(about.venue, about.day)
    is_original = wanted in (PMB, PMB_RULES)
    chosen = PMB_RULES if is_original else rule_set(wanted) if isinstance(wanted, str) else wanted
    # Under these rules only the results use the tape.
    tape = load_tape(episode, rules_for(about.venue, about.day) if is_original else chosen)
    exogenous = {} if is_original else episode.content.exogenous
    # PredictionMarketBench tells agents the time to the end of the recording.
    close = about.end if is_original else None
    markets = tuple(
        MarketInfo(market.ticker, market.title or "", market.open_time, market.close_time or close, episode.id, about.venue)
        for market in about.markets
    )
    info = EpisodeInfo(
        id=episode.id,
        title=about.title or "",
        venue=about.venue,
        markets=markets,
        start_ns=about.start,
        end_ns=_latest([market.close_ns for market in markets]),
        bankroll=about.bankroll,
        rules=chosen.name,
        exogenous=tuple(exogenous),
        observation_depth=about.observation_depth,
    )
    default_fees = not is_original and chosen.uses_fee_terms and any(market.has_default_fee for market in about.markets)
    return Prepared(
        info,
        episode.digest,
        chosen,
        tape,
        about.execution_mode,
        exogenous,
        default_fees,
        episode.content.trades,
        content=episode.content if is_original else None,
    )


def _latest(ends: Sequence[int | None]) -> int | None:
    return None if None in ends else max(end for end in ends if end is not None)


def _combine(episodes: Sequence[Prepared], bankroll: int | None) -> Prepared:
    if not episodes:
        raise ConfigError("preparing a run: the list of episodes is empty; name at least one")
    parts = sorted(episodes, key=lambda part: (part.info.start_ns, part.info.id))
    _check_markets(parts)
    if original := next((part.info.id for part in parts if part.content is not None), None):
        raise ConfigError(
            f"preparing a run: {original} has the rules {PMB}, which replay one episode; replay the episodes separately, or name other rules "
            "with --rules"
        )
    rules = combine_rules([part.rules for part in parts])
    exogenous: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for part in parts:
        for name, points in part.exogenous.items():
            exogenous[name] = _join_series(name, exogenous[name], points) if name in exogenous else points
    infos = [part.info for part in parts]
    cash = (
        MicroDollars(bankroll)
        if bankroll is not None
        else _common(parts, "bankroll (--bankroll sets one)", [one.bankroll for one in infos])
    )
    info = EpisodeInfo(
        id=_join_names([one.id for one in infos]),
        title="; ".join(one.title for one in infos if one.title),
        venue="+".join(dict.fromkeys(one.venue for one in infos)),
        markets=tuple(market for one in infos for market in one.markets),
        start_ns=infos[0].start_ns,
        end_ns=_latest([one.end_ns for one in infos]),
        bankroll=cash,
        rules=rules.name,
        exogenous=tuple(exogenous),
        observation_depth=_common(parts, "observation_depth", [one.observation_depth for one in infos]),
    )
    return Prepared(
        info=info,
        digest=hashlib.sha256("\n".join(part.digest for part in parts).encode()).hexdigest(),
        rules=rules,
        tape=merge_tapes([replace_units(part.tape, part.rules.units) for part in parts]),
        execution=_common(parts, "execution_mode", [part.execution for part in parts]),
        exogenous=exogenous,
        default_fees=any(part.default_fees for part in parts),
        parts=tuple(parts),
    )


def _join_names(episodes: Sequence[str]) -> str:
    """Join the names of episodes with `+`. If that is longer than `LONGEST_NAME`: the first name, the number of further ones and a digest."""
    name = SEPARATOR.join(episodes)
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256("\n".join(episodes).encode()).hexdigest()
    return f"{episodes[0]}{SEPARATOR}{len(episodes) - 1}-more-{digest[:12]}"


def _check_markets(parts: Sequence[Prepared]) -> None:
    """Raise `ConfigError` for an episode or a market that appears twice, and for an episode named like several."""
    episode_of: dict[str, str] = {}
    names = [part.info.id for part in parts]
    for part, name in zip(parts, names, strict=True):
        if names.count(name) > 1:
            raise ConfigError(f"preparing a run: the episode {name} appears twice; name it once")
        if SEPARATOR in name:
            raise ConfigError(f"preparing a run: the name of the episode {name} contains {SEPARATOR}, which joins names; rename it")
        for ticker in part.info.tickers:
            if ticker in episode_of:
                raise ConfigError(f"preparing a run: the market {ticker} is in {episode_of[ticker]} and in {name}; leave out one of them")
            episode_of[ticker] = name


def _common(parts: Sequence[Prepared], name: str, values: Sequence[Value]) -> Value:
    """Return the value of a setting that all episodes share. Raises `ConfigError` if two differ. name: of the setting, for the error."""
    for part, value in zip(parts, values, strict=True):
        if value != values[0]:
            raise ConfigError(f"preparing a run: {parts[0].info.id} and {part.info.id} differ in {name}: {values[0]} and {value}")
    return values[0]


def _join_series(name: str, first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Join two recordings of one exogenous series (data from outside the markets). Raises `ConfigError` if they differ at a time."""
    ts, values = (np.concatenate(columns) for columns in zip(first, second, strict=True))
    order = np.argsort(ts, kind="stable")
    ts, values = ts[order], values[order]
    repeats = np.append(False, ts[1:] == ts[:-1])
    if not np.array_equal(values[repeats], values[np.roll(repeats, -1)], equal_nan=True):
        raise ConfigError(
            f"preparing a run: two episodes have different values of the series {name} at the same times; replay them separately"
        )
    return ts[~repeats], values[~repeats]


def merge_tapes(tapes: Sequence[Tape]) -> Tape:
    """Merge tapes into one by time, and number their markets consecutively.

    An instant contains the books and prints of each tape in the order of `tapes`, then the halts, closes and settlements of each. Each tape
    must have units. Raises `ConfigError` if there are more markets than codes.
    """
    first_codes = list(accumulate((len(tape.tickers) for tape in tapes), initial=0))
    if first_codes[-1] > MAX_TICKERS:
        raise ConfigError(f"merging tapes: they have {first_codes[-1]:,} markets; a replay has at most {MAX_TICKERS:,}")
    lifecycle = [tape.event & KIND_MASK >= HALT for tape in tapes]
    chosen = [(tape, code, ends == last) for last in (False, True) for tape, code, ends in zip(tapes, first_codes, lifecycle, strict=False)]
    ts = np.concatenate([tape.ts[rows] for tape, _, rows in chosen])
    event = np.concatenate([_renumber_events(tape, code, tapes)[rows] for tape, code, rows in chosen])
    # Stable sort: in an instant all books precede all ends, and each tape keeps its order.
    order = np.argsort(ts, kind="stable")
    return Tape(
        ts=ts[order],
        event=event[order],
        tickers=tuple(ticker for tape in tapes for ticker in tape.tickers),
        start=min(tape.start for tape in tapes),
        end=max(tape.end for tape in tapes),
        levels=tuple(levels for tape in tapes for levels in tape.levels),
        grids=_stack_grids(tapes),
        fees=np.concatenate([tape.fees for tape in tapes]),
        digest=hashlib.sha256("\n".join(tape.digest for tape in tapes).encode()).hexdigest(),
        units=np.concatenate([tape.units for tape in tapes]),
        begins=np.concatenate([tape.begins for tape in tapes]),
    )


def _stack_grids(tapes: Sequence[Tape]) -> np.ndarray:
    """Stack the grids of all tapes: the first grid of every market, then tape by tape the grids that apply later."""
    longest = max((tape.grids.shape[1] for tape in tapes), default=0)
    padded = [np.pad(tape.grids, ((0, 0), (0, longest - tape.grids.shape[1]))) for tape in tapes]
    first = [grids[: len(tape.tickers)] for grids, tape in zip(padded, tapes, strict=True)]
    later = [grids[len(tape.tickers) :] for grids, tape in zip(padded, tapes, strict=True)]
    return np.concatenate([*first, *later])


def _renumber_events(tape: Tape, code: int, tapes: Sequence[Tape]) -> np.ndarray:
    """Return a tape's events with the market codes and grid rows of the merged tape. code: of the tape's first market there."""
    event = tape.event + (code << TICKER_SHIFT)
    count = sum(len(other.tickers) for other in tapes)
    # Later grids of the tapes before this one.
    earlier = sum(len(other.grids) - len(other.tickers) for other in tapes[: list(map(id, tapes)).index(id(tape))])
    changes = event & KIND_MASK == GRID
    event[changes] += (count - len(tape.tickers) + earlier) << VALUE_SHIFT
    return event


def replace_units(tape: Tape, units: Sequence[int]) -> Tape:
    """Return a tape whose markets all have these size limits and rounding units. units: a row of `Tape.units`."""
    return replace(tape, units=np.tile(np.array(units, np.int64), (len(tape.tickers), 1)))
