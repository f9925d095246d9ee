"""Preparation of an episode, or of several episodes as one portfolio, for a replay under a rule set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bellwether.errors import ConfigError
from bellwether.replay.agents.records import EpisodeInfo, MarketInfo
from bellwether.replay.portfolio import combine
from bellwether.replay.prepared import Prepared
from bellwether.replay.rules import PMB, RuleSet, rule_set, rules_for, with_fees
from bellwether.replay.tape import Tape, load_tape
from bellwether.replay.units import SECOND
from bellwether.units import MicroDollars

if TYPE_CHECKING:
    from bellwether.replay.episode import Episode
    from bellwether.replay.episode.content import Content, Trades

#: The bankroll of a tape without an episode, micro-dollars: the 1,000 dollars of the original's episodes.
BANKROLL = MicroDollars(1_000_000_000)


def prepare(
    source: Episode | Tape | Sequence[Episode | Prepared],
    rules: str | RuleSet | None = None,
    *,
    cache: Path | None = None,
    bankroll: int | None = None,
    execution: str | None = None,
    fees: str | None = None,
) -> Prepared:
    """Prepare an episode, a tape, or several episodes as one portfolio for a replay.

    Args:
        source: Episode, tape, or a sequence of episodes, which may be prepared already.
        rules: Rule set or its name. Default: that of the episode, else that of its venue on its first day. Required for a tape.
        cache: Folder of tapes; a missing tape is written there.
        bankroll: Starting cash of a portfolio, micro-dollars. Required if its episodes differ in it.
        execution: Execution mode of a portfolio. Required if its episodes differ in it.
        fees: Name of a rule set of the venue whose fees replace those of the rules; `none` for no fees. A tape keeps its own fees.

    Raises:
        ConfigError: The rules are unknown or missing, or the episodes cannot form a portfolio.
    """
    if isinstance(source, str | Path):
        raise ConfigError(f"replaying {str(source)!r:.80}: it is the name of a folder; load the episode first, with bellwether.replay.load")
    if isinstance(source, Sequence):
        parts = [part if isinstance(part, Prepared) else prepare(part, rules, cache=cache, fees=fees) for part in source]
        return parts[0] if len(parts) == 1 else combine(parts, bankroll=bankroll, execution=execution)
    if isinstance(source, Tape):
        return _prepare_tape(source, rules, fees)
    return _prepare_episode(source, rules, cache, fees)


def _prepare_tape(tape: Tape, rules: str | RuleSet | None, fees: str | None) -> Prepared:
    if fees is not None:
        raise ConfigError(f"replaying a tape: it keeps its own fees and cannot have those of {fees}; change Tape.fees")
    if rules is None:
        raise ConfigError("replaying a tape: a tape has no rules of its own; name them (BacktestSettings.rules)")
    chosen = rule_set(rules) if isinstance(rules, str) else rules
    markets = tuple(MarketInfo(ticker) for ticker in tape.tickers)
    info = EpisodeInfo("tape", "", chosen.venue, markets, tape.start, tape.end, BANKROLL, chosen.name)
    return Prepared(info, tape.digest, chosen, tape)


def _prepare_episode(episode: Episode, rules: str | RuleSet | None, cache: Path | None, fees: str | None) -> Prepared:
    about = episode.metadata
    day = datetime.fromtimestamp(about.start // SECOND, UTC).date()
    wanted = rules or about.rules or rules_for(about.venue, day)
    chosen = with_fees(rule_set(wanted) if isinstance(wanted, str) else wanted, fees)
    is_original = chosen.name == PMB
    # Under these rules only the results use the tape.
    tape = load_tape(episode, rules_for(about.venue, day) if is_original else chosen, cache)
    exogenous = {} if is_original else episode.exogenous
    # PredictionMarketBench tells agents the time to the end of the recording.
    close = about.end if is_original else None
    markets = tuple(
        MarketInfo(market.ticker, market.title or "", market.open_time, market.close_time or close, episode.id, about.venue)
        for market in about.markets
    )
    ends = [market.close_ns for market in markets]
    info = EpisodeInfo(
        id=episode.id,
        title=about.title or "",
        venue=about.venue,
        markets=markets,
        start_ns=about.start,
        end_ns=None if None in ends else max(end for end in ends if end is not None),
        bankroll=about.bankroll,
        rules=chosen.name,
        exogenous=tuple(exogenous),
        observation_depth=about.observation_depth,
    )
    default_fees = chosen.uses_fee_terms and any(market.has_default_fee for market in about.markets)
    return Prepared(
        info,
        episode.digest,
        chosen,
        tape,
        about.execution_mode,
        exogenous,
        default_fees,
        _trade_reader(episode),
        _find_world(episode),
        content=episode.content if is_original else None,
    )


def _find_world(episode: Episode) -> str:
    """Return the world (sandbox or live) whose home contains the episode, or sandbox for an episode generated there; empty if unknown."""
    from bellwether.settings import World

    below = episode.folder.absolute().parent
    if below.name == "episodes" and below.parent.name in [world.value for world in World]:
        return below.parent.name
    return "sandbox" if episode.metadata.source.get("recorded") == "import: sandbox" else ""


def _trade_reader(episode: Episode) -> Callable[[], Trades]:
    """Return a function that reads the episode's trades without keeping its books in memory."""
    content: Content | None = episode.__dict__.get("content")
    if content is None:
        return lambda: replace(episode).content.trades
    trades = content.trades
    return lambda: trades
