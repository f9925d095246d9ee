"""One backtest: an agent trades one episode under a rule set, and what came of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent, CompiledAgent, stable_seed
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.limits import RunawayAgent, RunStopped, StepLimit, StepTimeout
from bellwether.replay.agents.load import check_complete
from bellwether.replay.agents.views import Series
from bellwether.replay.engine import Outcome, Session, bound_by, bounded
from bellwether.replay.engine import Settings as EngineSettings
from bellwether.replay.prepared import Prepared, prepare
from bellwether.replay.rules import RuleSet
from bellwether.replay.tape import Tape
from bellwether.replay.units import MINUTE

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

    from bellwether.replay.episode import Episode

#: Where the band comes from: the same calls under the queue models that bound the chosen one, or the agent run again under each of them.
Band = Literal["accounts", "rerun"]

_LONGEST_MESSAGE = 300
_LARGEST_SEED = 2**63
#: Where an object lies in memory, as its `repr` says: another place in each process.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True)
class BacktestSettings:
    """How a backtest is run. Durations in ns, money in micro-dollars. Raises `ConfigError` for values that make no sense.

    rules: name of a rule set; the episode's, else the venue's of the episode's first day. cadence: between decisions. sample_every: between points
    of the equity curve. order_latency, data_latency: until an order arrives, until the agent sees an event. execution: maker_taker or taker_only;
    the episode's when left out. queue: trade_only, reconciled, proportional or optimistic; the rules' when left out. band: accounts (the agent's
    calls once more under trade_only and optimistic) or rerun (the agent runs under each). self_trade: cancel_taker or cancel_maker. bankroll: the episode's when left out. max_orders: of the run. max_resting: per market and side. seed: of whatever the agent draws.
    calls_per_step: tool calls per decision. seconds_per_step: real seconds after which a decision is stopped.
    """

    rules: str | None = None
    cadence: int = 5 * MINUTE
    sample_every: int = MINUTE
    order_latency: int = 0
    data_latency: int = 0
    execution: str | None = None
    queue: str | None = None
    band: str = "accounts"
    self_trade: str = "cancel_taker"
    bankroll: int | None = None
    max_orders: int = 1_000_000
    max_resting: int = 1000
    seed: int = 0
    calls_per_step: int = 100
    seconds_per_step: float = 60.0

    def __post_init__(self) -> None:
        for name in ("calls_per_step", "seconds_per_step"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"setting up a backtest: {name} is {getattr(self, name)}; it is above 0")
        if type(self.seed) is not int or not -_LARGEST_SEED <= self.seed < _LARGEST_SEED:
            raise ConfigError(f"setting up a backtest: seed is {self.seed!r:.60}; it is a whole number of 64 bits")
        if self.band not in get_args(Band):
            raise ConfigError(f"setting up a backtest: band is {self.band!r:.60}; it is one of {', '.join(get_args(Band))}")
        self.engine()

    def engine(self) -> EngineSettings:
        """The part of them that the engine needs."""
        given = {name: getattr(self, name) for name in EngineSettings.__dataclass_fields__}
        left_out = [name for name in ("execution", "queue", "bankroll") if given[name] is None]
        return EngineSettings(**{name: value for name, value in given.items() if name not in left_out})

    def of(self, prepared: Prepared) -> BacktestSettings:
        """With what the episode and its rules decide filled in."""
        return replace(
            self,
            rules=prepared.rules.name,
            execution=self.execution or prepared.execution,
            queue=self.queue or prepared.rules.queue,
            bankroll=prepared.info.bankroll if self.bankroll is None else self.bankroll,
        )

    def digest(self) -> str:
        """SHA-256 of all settings that can change a result; the time limit of a step is none of them."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "seconds_per_step"}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an agent's episode ended early: the type and the first line of its error, the decision (from 0; -1: before the first) and its time, ns."""

    type: str
    message: str
    step: int
    at: int

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(frozen=True, eq=False, repr=False)
class Backtest:
    """What came of one agent in one episode.

    episode, episode_digest: what was replayed. agent, params: who traded. rules, settings: under what; the settings name rules, execution, queue and
    bankroll. tape, outcome: the engine's input and answer (integers; orders, fills and samples as its column numbers say). steps: decisions made.
    failure: why the agent's episode ended early; None when it did not. default_fees: fee terms of a market are stated by nothing.

    `summary`, `orders`, `fills`, `equity` and `market_pnl` are Polars frames with the columns of the tables of the data dictionary: exact decimals
    of dollars and contracts, times in UTC.
    """

    episode: str
    episode_digest: str
    venue: str
    agent: str
    params: Mapping[str, Any]
    rules: RuleSet
    settings: BacktestSettings
    tape: Tape
    outcome: Outcome
    steps: int
    failure: Failure | None = None
    default_fees: bool = False

    @property
    def seed(self) -> int:
        """The seed of the settings."""
        return self.settings.seed

    @property
    def bankroll(self) -> int:
        """Micro-dollars at the start."""
        assert self.settings.bankroll is not None
        return self.settings.bankroll

    @property
    def parameters(self) -> str:
        """The agent's parameters as canonical JSON."""
        return json.dumps(dict(self.params), sort_keys=True, default=str, ensure_ascii=False)

    @cached_property
    def summary(self) -> pl.DataFrame:
        """One row of replay/backtests: every metric."""
        from bellwether.replay.results.frames import backtests

        return backtests([self])

    @cached_property
    def orders(self) -> pl.DataFrame:
        """Rows of replay/orders."""
        from bellwether.replay.results.frames import orders

        return orders(self)

    @cached_property
    def fills(self) -> pl.DataFrame:
        """Rows of replay/fills, with markouts."""
        from bellwether.replay.results.frames import fills

        return fills(self)

    @cached_property
    def equity(self) -> pl.DataFrame:
        """Rows of replay/equity."""
        from bellwether.replay.results.frames import equity

        return equity(self)

    @cached_property
    def market_pnl(self) -> pl.DataFrame:
        """Rows of replay/market_pnl, one per market traded."""
        from bellwether.replay.results.market_pnl import market_pnl

        return market_pnl(self)

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the equity with its band on a matplotlib axis, a new one where none is given; returns the axis."""
        from bellwether.replay.results.plotting import plot_equity

        return plot_equity(self, ax=ax)

    def write_html(self, path: Path | str) -> None:
        """Write the tear sheet: one self-contained HTML page."""
        from bellwether.replay.results.tear_sheet import write_tear_sheet

        write_tear_sheet(self, Path(path))

    def __str__(self) -> str:
        """The line of results as `bellwether backtest` prints it."""
        from bellwether.replay.results.lines import band, signed

        row = self.summary.row(0, named=True)
        failed = "" if self.failure is None else f"; failed at decision {self.failure.step}: {self.failure}"
        return f"{self.agent} in {self.episode}: P&L {signed(row['pnl'])} dollars ({band(row)}), {row['fills']} fills of {row['orders']} orders{failed}"

    __repr__ = __str__

    @cached_property
    def digest(self) -> str:
        """SHA-256 of fills, cash, equity and failure: equal runs have equal ones, on every machine."""
        text = json.dumps([self.outcome.digest(), None if self.failure is None else asdict(self.failure)])
        return hashlib.sha256(text.encode()).hexdigest()


def run(
    source: Episode | Tape | Prepared, agent: Agent | type[Agent], settings: BacktestSettings | None = None, *, cache: Path | None = None
) -> Backtest:
    """Let an agent trade an episode (or a tape, or what `prepare` made of either) from its start to its end.

    With the band `rerun` the agent, made anew, also trades it under the pessimistic and the optimistic queue, which bound the outcome. An error of the agent ends its trading: its orders are cancelled, the rest of the episode is replayed and settled, and `Backtest.failure` says
    what it was. cache: folder of tapes. Raises `ConfigError` for settings that do not fit, `SchemaError` for an episode that is refused, `RunStopped`
    when the agent can neither go on nor has failed.
    """
    settings = settings or BacktestSettings()
    prepared = _ready(source, settings, cache)
    settings = settings.of(prepared)
    agent = _fresh(agent)
    session, failure = _trade(prepared, agent, settings, bounds=settings.band == "accounts")
    outcome = session.result()
    if settings.band == "rerun":
        outcome, failure = _run_again(prepared, agent, settings, outcome, failure)
    return Backtest(
        episode=prepared.info.id,
        episode_digest=prepared.digest,
        venue=prepared.info.venue,
        agent=agent.name,
        params=agent.params,
        rules=prepared.rules,
        settings=settings,
        tape=prepared.tape,
        outcome=outcome,
        steps=session.steps,
        failure=failure,
        default_fees=prepared.default_fees,
    )


def _trade(prepared: Prepared, agent: Agent, settings: BacktestSettings, *, bounds: bool) -> tuple[Session, Failure | None]:
    """The replay at its end, and why the agent's trading ended early."""
    engine = settings.engine()
    session = Session(prepared.tape, prepared.rules, engine, bounds=bounds)
    seed = stable_seed(prepared.digest, agent.name, settings.seed)
    info = replace(prepared.info, bankroll=engine.bankroll)
    if isinstance(agent, CompiledAgent):
        return session, _run_compiled(session, agent, info, seed)
    return session, _run_python(session, agent, _context(session, prepared, settings, info, seed), settings.seconds_per_step)


def _run_again(
    prepared: Prepared, agent: Agent, settings: BacktestSettings, chosen: Outcome, failure: Failure | None
) -> tuple[Outcome, Failure | None]:
    """The outcome with the agent's own runs under the two bounding queue models as its bounds; a failure that only one of them had says under which."""
    pessimistic = optimistic = chosen
    if settings.queue != "trade_only":
        pessimistic, failure = _rerun(prepared, agent, replace(settings, queue="trade_only"), failure)
    if settings.queue != "optimistic":
        optimistic, failure = _rerun(prepared, agent, replace(settings, queue="optimistic"), failure)
    return bounded(chosen, *(bound_by(outcome, len(chosen.orders)) for outcome in (pessimistic, optimistic))), failure


def _rerun(prepared: Prepared, agent: Agent, settings: BacktestSettings, failure: Failure | None) -> tuple[Outcome, Failure | None]:
    """The agent's run under another queue model, and why the first run that failed did."""
    session, other = _trade(prepared, agent.anew(), settings, bounds=False)
    if failure is None and other is not None:
        failure = replace(other, message=f"under the queue model {settings.queue}: {other.message}")
    return session.result(), failure


def _ready(source: Episode | Tape | Prepared, settings: BacktestSettings, cache: Path | None) -> Prepared:
    if not isinstance(source, Prepared):
        return prepare(source, settings.rules, cache=cache)
    if settings.rules not in (None, source.rules.name):
        raise ConfigError(
            f"replaying {source.info.id}: it was prepared for {source.rules.name}, not for {settings.rules}; prepare it again"
        )
    return source


def _fresh(agent: Agent | type[Agent]) -> Agent:
    """An agent that has not run yet."""
    if isinstance(agent, type) and issubclass(agent, Agent):
        agent = agent()
    if not isinstance(agent, Agent):
        raise ConfigError(f"running a backtest: {agent!r:.80} is no agent; make one of a class that derives from bellwether.replay.Agent")
    check_complete(type(agent))
    if agent.has_run:
        agent = agent.anew()
    agent.has_run = True
    return agent


def _context(session: Session, prepared: Prepared, settings: BacktestSettings, info: Any, seed: int) -> AgentContext:
    return AgentContext(
        session,
        info,
        frozen=prepared.rules.observations == "frozen",
        seed=seed,
        calls_per_step=settings.calls_per_step,
        data_latency=settings.data_latency,
        series={name: Series(ts, values) for name, (ts, values) in prepared.exogenous.items()},
    )


def _run_compiled(session: Session, agent: CompiledAgent, info: Any, seed: int) -> Failure | None:
    failure = None
    try:
        session.run_compiled(type(agent).strategy, agent.numbers(info, seed))
    except RunStopped:
        raise
    except Exception as error:
        failure = _failure(error, session.step_index, session.now)
        session.cancel_all()
    while session.step():
        pass
    return failure


def _run_python(session: Session, agent: Agent, ctx: AgentContext, seconds: float) -> Failure | None:
    with StepLimit(seconds if agent.timed else float("inf")) as limit:
        failure = _guarded(limit, lambda: agent.start(ctx, ctx.info), -1, ctx.info.start_ns) or _decide(session, agent, ctx, limit)
        ctx.end_step()
        if failure is not None:
            session.cancel_all()
            while session.step():
                pass
            return failure
        return _guarded(limit, lambda: agent.end(ctx), session.steps, session.now)


def _guarded(limit: StepLimit, call: Any, step: int, at: int) -> Failure | None:
    try:
        limit.begin()
        call()
        limit.finish()
    except RunStopped:
        raise
    except (Exception, StepTimeout, RunawayAgent, SystemExit) as error:
        limit.stop()
        return _failure(error, step, at)
    return None


def _decide(session: Session, agent: Agent, ctx: AgentContext, limit: StepLimit) -> Failure | None:
    """All decisions; the failure that ended them early."""
    step, act, begin_step, begin, finish = session.step, agent.act, ctx.begin_step, limit.begin, limit.finish
    while step():
        begin_step()
        try:
            begin()
            answer = act(ctx)
            finish()
            if answer is not None:
                raise TypeError(f"act returned {answer!r:.60}; it returns nothing: orders are sent through ctx")
        except RunStopped:
            raise
        except (Exception, StepTimeout, RunawayAgent, SystemExit) as error:
            limit.stop()
            return _failure(error, session.step_index, session.now)
    return None


def _failure(error: BaseException, step: int, at: int) -> Failure:
    if isinstance(error, StepTimeout):
        return Failure("StepTimeout", "the step took longer than seconds_per_step", step, at)
    try:
        lines = str(error).splitlines()
    except Exception:
        lines = ["its message could not be read"]
    return Failure(type(error).__name__, _plain(lines[0]) if lines else "", step, at)


def _plain(message: str) -> str:
    """A message without control characters, and equal in every process."""
    printable = "".join(sign if sign.isprintable() else " " for sign in _ADDRESS.sub("", message))
    return printable[:_LONGEST_MESSAGE]
