"""Settings of a backtest, and the record of a finished backtest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bellwether.errors import ConfigError
from bellwether.replay.agents.limits import Failure, Limits
from bellwether.replay.engine import ReplayOutcome
from bellwether.replay.engine import ReplaySettings as EngineSettings
from bellwether.replay.engine.settings import DEFAULT_QUEUE
from bellwether.replay.rules import RuleSet
from bellwether.replay.tape import Tape
from bellwether.replay.units import MINUTE
from bellwether.units import MicroDollars

if TYPE_CHECKING:
    from bellwether.replay.agents.records import EpisodeInfo
    from bellwether.replay.preparation import Prepared

_LARGEST_SEED = 2**63
#: Sampled queue histories of agents that ship with Bellwether and of compiled agents, and the maximum number.
DEFAULT_QUEUES, _MOST_QUEUES = 20, 10_000


@dataclass(frozen=True, slots=True)
class BacktestSettings:
    """Settings of a backtest. Durations are in ns, money in micro-dollars. Raises `ConfigError` for invalid values.

    Attributes:
        rules: Name of a rule set. Default: that of the episode, else that of the venue on the episode's first day.
        cadence: Time between decisions.
        sample_every: Time between points of the equity curve.
        order_latency: Time until an order arrives.
        data_latency: Time until the agent sees an event.
        execution: maker_taker or taker_only. Default: that of the episode.
        queue: Queue model: trade_only, proportional (with an exponent: proportional:3), optimistic, or sampled:K with the number of a
            history; under PredictionMarketBench's rules one of `pmb.QUEUES`. Default: proportional, or trade_only under these rules.
        queues: Number of sampled queue histories in which the run is repeated. Default: 20 for agents that ship with Bellwether and for
            compiled agents; 0 for isolated agents and other Python agents, which may call paid services.
        self_trade: cancel_taker or cancel_maker.
        bankroll: Starting cash. Default: that of the episode.
        max_orders: Maximum orders of the run.
        max_resting: Maximum resting orders per market and side.
        seed: Seed of the agent's random numbers.
        limits: Limits of the agent.
    """

    rules: str | None = None
    cadence: int = 5 * MINUTE
    sample_every: int = MINUTE
    order_latency: int = 0
    data_latency: int = 0
    execution: str | None = None
    queue: str | None = None
    queues: int | None = None
    self_trade: str = "cancel_taker"
    bankroll: int | None = None
    max_orders: int = 1_000_000
    max_resting: int = 1000
    seed: int = 0
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.queues is not None and (type(self.queues) is not int or not 0 <= self.queues <= _MOST_QUEUES):
            raise ConfigError(f"setting up a backtest: queues is {self.queues!r:.60}; give an integer from 0 to {_MOST_QUEUES:,}")
        if type(self.seed) is not int or not -_LARGEST_SEED <= self.seed < _LARGEST_SEED:
            raise ConfigError(f"setting up a backtest: seed is {self.seed!r:.60}; give an integer of 64 bits")
        self.engine()

    def engine(self) -> EngineSettings:
        """Return the part of the settings that the engine uses."""
        values = {name: getattr(self, name) for name in EngineSettings.__dataclass_fields__}
        defaults = [name for name in ("execution", "queue", "bankroll") if values[name] is None]
        return EngineSettings(**{name: value for name, value in values.items() if name not in defaults})

    def of(self, prepared: Prepared) -> BacktestSettings:
        """Return the settings with the defaults of a prepared episode filled in."""
        return replace(
            self,
            rules=prepared.rules.name,
            execution=self.execution or prepared.execution,
            queue=self.queue or (DEFAULT_QUEUE if prepared.content is None else "trade_only"),
            bankroll=prepared.info.bankroll if self.bankroll is None else self.bankroll,
        )

    def describe(self, prepared: Prepared) -> EpisodeInfo:
        """Return the description of a prepared episode for agents, with the bankroll of the settings."""
        assert self.bankroll is not None
        return replace(prepared.info, bankroll=MicroDollars(self.bankroll))

    def digest(self) -> str:
        """Compute the SHA-256 of the settings that can change a result.

        Excluded are the limits other than that of tool calls, and the number of sampled queue histories.
        """
        excluded = {"limits", "queues"}
        values = {name: value for name, value in asdict(self).items() if name not in excluded} | {"calls": self.limits.calls}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


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
