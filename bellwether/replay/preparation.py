"""Makes an episode, or a portfolio of several, ready to be replayed under rules."""

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
from bellwether.replay.rules import RuleSet, rule_set, rules_for, with_fees
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
    """Make an episode, or a tape alone, or several episodes as one portfolio, ready.

    rules: those that are asked for; of an episode by default its own, else its venue's of its first day. A tape alone keeps its own fees and needs
    rules. fees: name of the set of the venue whose fees apply instead, or none. cache: folder of tapes, written when it lacks this one. bankroll, execution: of a portfolio whose episodes differ in them. Raises `ConfigError`
    for rules that are not known or not given, and for episodes that make no portfolio.
    """
    if isinstance(source, str | Path):
        raise ConfigError(f"replaying {str(source)!r:.80}: it is the name of a folder; load the episode first, with bellwether.replay.load")
    if isinstance(source, Sequence):
        parts = [one if isinstance(one, Prepared) else prepare(one, rules, cache=cache, fees=fees) for one in source]
        return parts[0] if len(parts) == 1 else combine(parts, bankroll=bankroll, execution=execution)
    if isinstance(source, Tape):
        return _of_tape(source, rules, fees)
    return _of_episode(source, rules, cache, fees)


def _of_tape(tape: Tape, rules: str | RuleSet | None, fees: str | None) -> Prepared:
    if fees is not None:
        raise ConfigError(f"replaying a tape: it keeps its own fees and cannot have those of {fees}; change Tape.fees")
    if rules is None:
        raise ConfigError("replaying a tape: it does not say by which rules; name them (BacktestSettings.rules)")
    chosen = rule_set(rules) if isinstance(rules, str) else rules
    markets = tuple(MarketInfo(ticker) for ticker in tape.tickers)
    info = EpisodeInfo("tape", "", chosen.venue, markets, tape.start, tape.end, BANKROLL, chosen.name)
    return Prepared(info, tape.digest, chosen, tape)


def _of_episode(episode: Episode, rules: str | RuleSet | None, cache: Path | None, fees: str | None) -> Prepared:
    about = episode.metadata
    wanted = rules or about.rules
    if wanted is None:
        wanted = rules_for(about.venue, datetime.fromtimestamp(about.start // SECOND, UTC).date())
    chosen = with_fees(rule_set(wanted) if isinstance(wanted, str) else wanted, fees)
    tape = load_tape(episode, chosen, cache)
    exogenous = episode.exogenous
    # The original tells agents the time to the end of the recording.
    close = about.end if chosen.observations == "frozen" else None
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
    return Prepared(info, episode.digest, chosen, tape, about.execution_mode, exogenous, default_fees, _reader(episode), _world(episode))


def _world(episode: Episode) -> str:
    """The world whose home holds the episode, else the sandbox where it was generated there."""
    from bellwether.settings import World

    below = episode.folder.absolute().parent
    if below.name == "episodes" and below.parent.name in [world.value for world in World]:
        return below.parent.name
    return "sandbox" if episode.metadata.source.get("recorded") == "import: sandbox" else ""


def _reader(episode: Episode) -> Callable[[], Trades]:
    """Gives the episode's trades, without keeping its books in memory."""
    content: Content | None = episode.__dict__.get("content")
    if content is None:
        return lambda: replace(episode).content.trades
    trades = content.trades
    return lambda: trades
