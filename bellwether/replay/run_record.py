"""Record of a finished backtest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bellwether.replay.agents.limits import Failure
from bellwether.replay.engine import ReplayOutcome
from bellwether.replay.rules import RuleSet
from bellwether.replay.settings import BacktestSettings
from bellwether.replay.tape.layout import Tape
from bellwether.units import MicroDollars


@dataclass(frozen=True, slots=True)
class QueueSpread:
    """P&L over sampled queue histories, micro-dollars. It is no bound: other histories are possible.

    Attributes:
        count: Number of histories.
        low: P&L that at most 5 % of the histories are below.
        median: Median, rounded down.
        high: P&L that at most 5 % of the histories are above.
        profitable: Share of histories with a P&L above 0.
    """

    count: int
    low: MicroDollars
    median: MicroDollars
    high: MicroDollars
    profitable: float

    @classmethod
    def of(cls, profits: Sequence[MicroDollars]) -> QueueSpread | None:
        """Summarize the P&L of each history; None without a history."""
        count, ordered = len(profits), sorted(profits)
        if not count:
            return None
        beyond = count // 20
        median = MicroDollars((ordered[(count - 1) // 2] + ordered[count // 2]) // 2)
        return cls(count, ordered[beyond], median, ordered[-1 - beyond], sum(profit > 0 for profit in profits) / count)


@dataclass(frozen=True, eq=False, repr=False)
class RunRecord:
    """Inputs and outcome of a finished run.

    Attributes:
        episode: Name of the episode; names of several are joined with `+`.
        episode_digest: Digest of the episode's content; of several episodes, of their digests.
        venue: Venue; several are joined with `+`.
        agent: Name of the agent.
        params: Arguments of the agent.
        rules: Rule set.
        settings: Settings, with rules, execution, queue and bankroll filled in.
        tape: Input of the engine.
        outcome: Output of the engine: orders, fills and samples as integers, with the engine's column numbers.
        failure: Error that ended the agent's trading; None without one.
        default_fees: The fee terms of a market are unknown.
        episodes: Names of the episodes.
        tags: Labels of orders by number.
        own_metrics: Metrics, by name, that the rules define differently from `results.metrics`.
        queues: P&L in each sampled queue history.
    """

    episode: str
    episode_digest: str
    venue: str
    agent: str
    params: Mapping[str, Any]
    rules: RuleSet
    settings: BacktestSettings
    tape: Tape
    outcome: ReplayOutcome
    failure: Failure | None = None
    default_fees: bool = False
    episodes: tuple[str, ...] = ()
    tags: Mapping[int, str] = field(default_factory=dict)
    own_metrics: Mapping[str, Any] = field(default_factory=dict)
    queues: tuple[MicroDollars, ...] = ()

    @property
    def queue_spread(self) -> QueueSpread | None:
        """Summary of the P&L over the sampled queue histories; None without them."""
        return QueueSpread.of(self.queues)

    @property
    def steps(self) -> int:
        """Number of decisions."""
        return self.outcome.steps

    @property
    def seed(self) -> int:
        """Seed of the agent's random numbers."""
        return self.settings.seed

    @property
    def bankroll(self) -> MicroDollars:
        """Starting cash, micro-dollars."""
        assert self.settings.bankroll is not None
        return MicroDollars(self.settings.bankroll)

    @property
    def parameters(self) -> str:
        """Parameters of the agent as canonical JSON."""
        return json.dumps(dict(self.params), sort_keys=True, default=str, ensure_ascii=False)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the outcome and the failure. Equal runs have equal digests on every machine."""
        failed = None if self.failure is None else {name: getattr(self.failure, name) for name in ("type", "message", "step", "at")}
        text = json.dumps([self.outcome.digest(), failed])
        return hashlib.sha256(text.encode()).hexdigest()
