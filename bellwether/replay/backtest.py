"""Backtest of an agent in one episode, or in several as one portfolio, under a rule set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent, CompiledAgent, derive_seed, find_callbacks
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.failures import Failure, build_failure, describe_error
from bellwether.replay.agents.gateway import Gateway
from bellwether.replay.agents.interface import SimulatorProxy
from bellwether.replay.agents.limits import RunStopped, StepLimit
from bellwether.replay.agents.loader import AgentReference, check_complete, load_agent_class
from bellwether.replay.agents.mills import price_unit, scale_prices
from bellwether.replay.agents.records import CALLBACKS, EpisodeInfo
from bellwether.replay.agents.runner import LocalRunner, call_guarded, finish_session, run_phases
from bellwether.replay.engine import ReplayOutcome, Session, rerun_band
from bellwether.replay.engine.codes import O_TAKEN
from bellwether.replay.isolation import AgentSource, Confinement, Isolation
from bellwether.replay.isolation.host import IsolatedAgent
from bellwether.replay.preparation import prepare
from bellwether.replay.prepared import Prepared
from bellwether.replay.run_record import BacktestSettings, RunRecord
from bellwether.replay.tape import Tape

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

    from bellwether.replay.episode import Episode


class Backtest(RunRecord):
    """Result of one agent in one episode or portfolio.

    episode, episode_digest: of a portfolio its name, and a digest of those of its `episodes`. agent, params: the agent and its arguments.
    settings: with rules, execution, queue and bankroll filled in. tape, outcome: input and output of the engine (integers; orders, fills
    and samples with its column numbers). steps: decisions made. failure: error that ended the agent's trading; None without one.
    confinement: restrictions of an isolated agent; None for one that ran in this process. default_fees: the fee terms of a market are
    unknown.

    `summary`, `orders`, `fills`, `equity` and `market_pnl` are Polars frames with the columns of the tables in the data dictionary: exact
    decimals of dollars and contracts, times in UTC.
    """

    @cached_property
    def summary(self) -> pl.DataFrame:
        """Row of replay/backtests: every metric."""
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

    def plot(self) -> alt.LayerChart:
        """Draw equity in dollars over time (UTC) with its band, as an Altair chart; add charts of several agents with `+`."""
        from bellwether.figures.equity import equity_with_band

        return equity_with_band(self.equity, self.agent)

    def write_html(self, path: Path | str) -> None:
        """Write the tear sheet: one self-contained HTML page."""
        from bellwether.replay.results.tear_sheet import write_tear_sheet

        write_tear_sheet(self, Path(path))

    def __str__(self) -> str:
        """Return the line of results that `bellwether backtest` prints."""
        from bellwether.replay.results.text_tables import band, signed

        row = self.summary.row(0, named=True)
        failed = "" if self.failure is None else f"; failed at decision {self.failure.step}: {self.failure}"
        return f"{self.agent} in {self.episode}: P&L {signed(row['pnl'])} dollars ({band(row)}), {row['fills']} fills of {row['orders']} orders{failed}"

    __repr__ = __str__


def run(
    source: Episode | Tape | Prepared | Sequence[Episode | Prepared],
    agent: Agent | type[Agent] | AgentReference,
    settings: BacktestSettings | None = None,
    *,
    isolated: bool | Isolation = False,
    cache: Path | None = None,
) -> Backtest:
    """Run an agent in an episode (or a tape, or a `Prepared` of either) from its start to its end, or in several episodes as one portfolio.

    An error of the agent, also in `__init__`, ends its trading: its orders are cancelled, the rest of the episode is replayed and settled,
    and `Backtest.failure` contains the error. The band is that of `BacktestSettings.band`; each rerun makes a new agent. isolated: run the
    agent in its own process, which loads it from its class and parameters and receives only observations; `Isolation` sets its limits.
    cache: folder of tapes. Raises `ConfigError` for incompatible settings, for an agent that cannot be loaded or isolated or refuses its
    parameters, and for episodes that cannot form a portfolio, `SchemaError` for a refused episode, and `RunStopped` if the agent can
    neither continue nor has failed.
    """
    settings = settings or BacktestSettings()
    prepared = _ready(source, settings, cache)
    settings = settings.of(prepared)
    trade = partial(_trade, prepared, agent, isolated=isolated)
    has_bounds = prepared.rules.netting == "net"
    session, ran = trade(settings, bounds=has_bounds and settings.band in ("auto", "fills"))
    outcome, failed = session.result(), ran.failure
    band = settings.band if has_bounds or settings.band == "rerun" else "none"
    if band == "auto":
        band = "rerun" if ran.reacts and _depends_on_queue(outcome) else "fills"
    if band == "rerun":
        outcome, failed = _run_again(partial(trade, bounds=False), settings, outcome, failed)
    return Backtest(
        episode=prepared.info.id,
        episode_digest=prepared.digest,
        venue=prepared.info.venue,
        agent=ran.name,
        params=ran.params,
        rules=prepared.rules,
        settings=settings,
        tape=prepared.tape,
        outcome=outcome,
        steps=session.steps,
        failure=failed,
        confinement=ran.confinement,
        default_fees=prepared.default_fees,
        episodes=tuple(one.info.id for one in prepared.parts or (prepared,)),
        band=band,
        tags=ran.tags,
    )


@dataclass(frozen=True, slots=True)
class _Ran:
    """Agent after its run. reacts: it can react to its fills. tags: texts of its orders by number."""

    name: str
    params: Mapping[str, Any]
    failure: Failure | None
    reacts: bool = False
    tags: Mapping[int, str] = field(default_factory=dict)
    confinement: Confinement | None = None


@dataclass(frozen=True, slots=True)
class _Run:
    """Environment of an agent's run."""

    session: Session
    gateway: Gateway
    info: EpisodeInfo
    prepared: Prepared
    settings: BacktestSettings

    def context(self, name: str, api: int) -> dict[str, Any] | Failure:
        """Return the arguments of an agent's `AgentContext`; where its interface cannot state the prices of a market, return the failure."""
        try:
            unit = price_unit(name, api, self.prepared.tape.levels)
        except ConfigError as error:
            failed = Failure(*describe_error(error), -1, self.session.now)
            finish_session(self.session, failed)
            return failed
        return {
            "seed": derive_seed(self.prepared.digest, name, self.settings.seed),
            "calls_per_step": self.settings.calls_per_step,
            "max_orders": self.settings.max_orders,
            "series": tuple(self.prepared.exogenous),
            "unit": unit,
        }


def _trade(
    prepared: Prepared,
    agent: Agent | type[Agent] | AgentReference,
    settings: BacktestSettings,
    *,
    isolated: bool | Isolation,
    bounds: bool,
) -> tuple[Session, _Ran]:
    """Return the session at its end, and the agent that traded in it."""
    session = Session(prepared.tape, prepared.rules, settings.engine(), bounds=bounds)
    gateway = Gateway(
        session,
        frozen=prepared.rules.observations == "frozen",
        calls_per_step=settings.calls_per_step,
        data_latency=settings.data_latency,
        observation_depth=prepared.info.observation_depth,
        series=prepared.exogenous,
        trades=lambda: prepared.trades,
    )
    # A copy for this agent, so that its changes do not affect other runs.
    markets = tuple(replace(market) for market in prepared.info.markets)
    info = replace(prepared.info, bankroll=session.settings.bankroll, markets=markets)
    one = _Run(session, gateway, info, prepared, settings)
    if isolated:
        return session, _run_isolated(agent, one, isolated if isinstance(isolated, Isolation) else Isolation())
    return session, _run_here(agent, one)


def _depends_on_queue(outcome: ReplayOutcome) -> bool:
    """Return whether any order could be filled from the queue, after its arrival, in some queue history."""
    return bool((outcome.filled[:, 1] > outcome.orders[:, O_TAKEN]).any())


def _run_again(
    trade: Callable[[BacktestSettings], tuple[Session, _Ran]], settings: BacktestSettings, chosen: ReplayOutcome, failed: Failure | None
) -> tuple[ReplayOutcome, Failure | None]:
    """Rerun the agent under the slowest and the fastest queue model, and return the outcome with the resulting bounds.

    The failure of a rerun alone names its queue model.
    """
    others = []
    for queue in ("reconciled", "optimistic"):
        if settings.queue == queue:
            continue
        session, ran = trade(replace(settings, queue=queue))
        others.append(session.result())
        if failed is None and ran.failure is not None:
            failed = replace(ran.failure, message=f"under the queue model {queue}: {ran.failure.message}")
    return rerun_band(chosen, tuple(others)), failed


def _ready(source: Episode | Tape | Prepared | Sequence[Episode | Prepared], settings: BacktestSettings, cache: Path | None) -> Prepared:
    for one in source if isinstance(source, Sequence) else (source,):
        if isinstance(one, Prepared):
            _check_rules(one, settings)
    if isinstance(source, Prepared):
        return source
    return prepare(source, settings.rules, cache=cache, bankroll=settings.bankroll, execution=settings.execution, fees=settings.fees)


def _check_rules(prepared: Prepared, settings: BacktestSettings) -> None:
    """Raise `ConfigError` if the settings name other rules or fees than the episode was prepared for."""
    for one in prepared.parts or (prepared,):
        name = one.rules.name
        wanted = name if settings.rules is None else settings.rules
        if settings.fees is not None:
            wanted = f"{wanted.partition('[')[0]}[fees={settings.fees}]"
        if wanted not in (name, prepared.rules.name):
            raise ConfigError(f"replaying {one.info.id}: it was prepared for {name}, not for {wanted}; prepare it again")


def _run_isolated(agent: Agent | type[Agent] | AgentReference, one: _Run, limits: Isolation) -> _Ran:
    source = AgentSource(agent.reference, agent.params, agent.name) if isinstance(agent, AgentReference) else AgentSource.of(agent)
    with IsolatedAgent(source, limits, one.settings.seconds_per_step) as there:
        loaded, context = there.loaded, one.context(there.loaded.name, there.loaded.api)
        if isinstance(context, Failure):
            return _Ran(loaded.name, loaded.params, context, confinement=there.confinement)
        failed = there.run(one.session, one.gateway, one.info, **context)
        reacts = there.reacts or loaded.callbacks.depend_on_fills
        return _Ran(loaded.name, loaded.params, failed, reacts, one.gateway.tags, there.confinement)


def _run_here(agent: Agent | type[Agent] | AgentReference, one: _Run) -> _Ran:
    kind, name, make = _unmade(agent)
    check_complete(kind)
    with StepLimit(one.settings.seconds_per_step if kind.timed else float("inf")) as limit:
        made = call_guarded(limit, make, -1, one.session.now)
        if isinstance(made, Failure):
            finish_session(one.session, made)
            return _Ran(name, {} if isinstance(agent, type) else dict(agent.params), made)
        made.has_run = True
        context = one.context(made.name, kind.api)
        if isinstance(context, Failure):
            return _Ran(made.name, made.params, context)
        if isinstance(made, CompiledAgent):
            return _run_compiled(one, made, context["seed"])
        ctx = AgentContext(scale_prices(SimulatorProxy(one.gateway), context["unit"]), one.info, **context)
        callbacks = find_callbacks(kind)
        failed = run_phases(one.session, one.gateway, LocalRunner(made, ctx, one.session, limit), callbacks)
    # Runs of a language model cost money, so its band is that of the same calls.
    return _Ran(made.name, made.params, failed, kind.timed and (ctx._reacts or callbacks.depend_on_fills), one.gateway.tags)


def _unmade(agent: Agent | type[Agent] | AgentReference) -> tuple[type[Agent], str, Callable[[], Agent]]:
    """Return the class of an agent, its name, and a function that returns an instance that has not run."""
    if isinstance(agent, AgentReference):
        kind = load_agent_class(agent.reference)
        return kind, agent.name or kind.name, agent.make
    if isinstance(agent, type) and issubclass(agent, Agent):
        return agent, agent.name, agent
    if not isinstance(agent, Agent):
        raise ConfigError(f"running a backtest: {agent!r:.80} is not an agent; give an instance or a subclass of bellwether.replay.Agent")
    return type(agent), agent.name, agent.recreate if agent.has_run else lambda: agent


def _run_compiled(one: _Run, agent: CompiledAgent, seed: int) -> _Ran:
    failed, session, kind = None, one.session, type(agent)
    callbacks = find_callbacks(kind)
    if callbacks:
        one.gateway.watch(callbacks)
    functions = callbacks.functions(kind)
    trades = one.prepared.trades if callbacks.on_trade else None
    try:
        session.run_compiled(kind.strategy, agent.numbers(one.info, seed), [functions.get(name) for name in CALLBACKS], trades)
    except RunStopped:
        raise
    except Exception as error:
        failed = build_failure(error, session.step_index, session.now, omitted=(__file__,))
    finish_session(session, failed)
    return _Ran(agent.name, agent.params, failed, callbacks.depend_on_fills or session.reacted)
