"""One backtest: an agent trades one episode, or several as one portfolio, under a rule set, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent, CompiledAgent, callbacks_of, stable_seed, tell
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.door import Door, Opening
from bellwether.replay.agents.failures import Failure, failure, returned
from bellwether.replay.agents.gateway import Gateway
from bellwether.replay.agents.limits import RunawayAgent, RunStopped, StepLimit, StepTimeout
from bellwether.replay.agents.load import check_complete, make_agent
from bellwether.replay.agents.records import CALLBACKS, EpisodeInfo
from bellwether.replay.engine import Outcome, Session, bound_by, bounded
from bellwether.replay.engine.clock import AT_DECISION
from bellwether.replay.isolation import AgentSource, Confinement, Isolation
from bellwether.replay.isolation.host import IsolatedAgent
from bellwether.replay.preparation import prepare
from bellwether.replay.prepared import Prepared
from bellwether.replay.run_record import BacktestSettings, RunRecord
from bellwether.replay.tape import Tape
from bellwether.units import MicroDollars

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

    from bellwether.replay.episode import Episode


class Backtest(RunRecord):
    """Result of one agent in one episode or portfolio.

    episode, episode_digest: what was replayed; of a portfolio its name, and a digest of those of its `episodes`. agent, params: who traded. rules, settings: under what; the settings name rules, execution, queue and
    bankroll. tape, outcome: the engine's input and answer (integers; orders, fills and samples as its column numbers say). steps: decisions made.
    failure: why the agent's episode ended early; None when it did not. confinement: what the system kept from an isolated agent; None for one that
    ran in this process. default_fees: fee terms of a market are stated by nothing.

    `summary`, `orders`, `fills`, `equity` and `market_pnl` are Polars frames with the columns of the tables of the data dictionary: exact decimals
    of dollars and contracts, times in UTC.
    """

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

    def plot(self) -> alt.LayerChart:
        """Equity in dollars over time (UTC) with its band, as an Altair chart; charts of several agents add up with `+`."""
        from bellwether.figures.equity import equity_with_band

        return equity_with_band(self.equity, self.agent)

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


def run(
    source: Episode | Tape | Prepared | Sequence[Episode | Prepared],
    agent: Agent | type[Agent] | AgentSource,
    settings: BacktestSettings | None = None,
    *,
    isolated: bool | Isolation = False,
    cache: Path | None = None,
) -> Backtest:
    """Let an agent trade an episode (or a tape, or what `prepare` made of either) from its start to its end, or several episodes as one portfolio.

    An error of the agent ends its trading: its orders are cancelled, the rest of the episode is replayed and settled, and `Backtest.failure` says
    what it was. With the band `rerun` the agent, made anew, also trades the episode under the pessimistic and the optimistic queue, which bound the
    outcome. isolated: in a process of its own, which gets observations alone; `Isolation` sets its limits. The agent is loaded there anew from
    its class and parameters. cache: folder of tapes. Raises `ConfigError` for settings that do not fit and for an agent that cannot be loaded or
    isolated, and for episodes that make no portfolio, `SchemaError` for an episode that is refused, `RunStopped` when the agent can neither go on nor has failed.
    """
    settings = settings or BacktestSettings()
    prepared = _ready(source, settings, cache)
    settings = settings.of(prepared)
    session, made = _trade(prepared, agent, settings, isolated, bounds=settings.band == "accounts")
    outcome, failed = session.result(), made.failure
    if settings.band == "rerun":
        again = partial(_trade, prepared, agent, isolated=isolated, bounds=False)
        outcome, failed = _run_again(again, settings, outcome, failed)
    return Backtest(
        episode=prepared.info.id,
        episode_digest=prepared.digest,
        venue=prepared.info.venue,
        agent=made.name,
        params=made.params,
        rules=prepared.rules,
        settings=settings,
        tape=prepared.tape,
        outcome=outcome,
        steps=session.steps,
        failure=failed,
        confinement=made.confinement,
        default_fees=prepared.default_fees,
        episodes=tuple(one.info.id for one in prepared.parts or (prepared,)),
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """Environment of an agent's run."""

    session: Session
    gateway: Gateway
    opening: Gateway
    info: EpisodeInfo
    prepared: Prepared
    settings: BacktestSettings
    limits: Isolation

    def seed(self, name: str) -> int:
        """Of an agent of this name."""
        return stable_seed(self.prepared.digest, name, self.settings.seed)


@dataclass(frozen=True, slots=True)
class _Ran:
    """An agent that has run."""

    name: str
    params: Mapping[str, Any]
    failure: Failure | None
    confinement: Confinement | None = None


def _trade(
    prepared: Prepared, agent: Agent | type[Agent] | AgentSource, settings: BacktestSettings, isolated: bool | Isolation, *, bounds: bool
) -> tuple[Session, _Ran]:
    """The replay at its end, and the agent that traded it."""
    session = Session(prepared.tape, prepared.rules, settings.engine(), bounds=bounds)
    gateway, opening = (_gateway(kind, session, prepared, settings) for kind in (Gateway, Opening))
    limits = isolated if isinstance(isolated, Isolation) else Isolation()
    one = _Run(session, gateway, opening, _info(prepared, session.settings.bankroll), prepared, settings, limits)
    return session, _run_isolated(agent, one) if isolated else _run_here(agent, one)


def _run_again(
    trade: Callable[[BacktestSettings], tuple[Session, _Ran]], settings: BacktestSettings, chosen: Outcome, failed: Failure | None
) -> tuple[Outcome, Failure | None]:
    """The outcome with the agent's own runs under the two bounding queue models as its bounds; a failure that only one of them had says under which."""
    bounds = []
    for queue in ("trade_only", "optimistic"):
        outcome = chosen
        if settings.queue != queue:
            session, made = trade(replace(settings, queue=queue))
            outcome = session.result()
            if failed is None and made.failure is not None:
                failed = replace(made.failure, message=f"under the queue model {queue}: {made.failure.message}")
        bounds.append(bound_by(outcome, len(chosen.orders)))
    return bounded(chosen, *bounds), failed


def _ready(source: Episode | Tape | Prepared | Sequence[Episode | Prepared], settings: BacktestSettings, cache: Path | None) -> Prepared:
    for one in source if isinstance(source, Sequence) else (source,):
        if isinstance(one, Prepared):
            _check_rules(one, settings)
    if isinstance(source, Prepared):
        return source
    return prepare(source, settings.rules, cache=cache, bankroll=settings.bankroll, execution=settings.execution, fees=settings.fees)


def _check_rules(prepared: Prepared, settings: BacktestSettings) -> None:
    """Raise `ConfigError` where the settings name other rules or fees than those that it was prepared for."""
    for one in prepared.parts or (prepared,):
        name = one.rules.name
        wanted = name if settings.rules is None else settings.rules
        if settings.fees is not None:
            wanted = f"{wanted.partition('[')[0]}[fees={settings.fees}]"
        if wanted not in (name, prepared.rules.name):
            raise ConfigError(f"replaying {one.info.id}: it was prepared for {name}, not for {wanted}; prepare it again")


def _info(prepared: Prepared, bankroll: MicroDollars) -> EpisodeInfo:
    """A copy for one agent: what it does to its own reaches no other run."""
    return replace(prepared.info, bankroll=bankroll, markets=tuple(replace(market) for market in prepared.info.markets))


def _gateway(kind: type[Gateway], session: Session, prepared: Prepared, settings: BacktestSettings) -> Gateway:
    return kind(
        session,
        frozen=prepared.rules.observations == "frozen",
        calls_per_step=settings.calls_per_step,
        data_latency=settings.data_latency,
        observation_depth=prepared.info.observation_depth,
        series=prepared.exogenous,
        trades=lambda: prepared.trades,
    )


def _run_isolated(agent: Agent | type[Agent] | AgentSource, one: _Run) -> _Ran:
    source = agent if isinstance(agent, AgentSource) else AgentSource.of(agent)
    with IsolatedAgent(source, one.limits, one.settings.seconds_per_step) as there:
        name = there.loaded.name
        failed = there.run(
            one.session,
            one.gateway,
            one.opening,
            one.info,
            series=list(one.prepared.exogenous),
            seed=one.seed(name),
            calls_per_step=one.settings.calls_per_step,
        )
        return _Ran(name, there.loaded.params, failed, there.confinement)


def _run_here(agent: Agent | type[Agent] | AgentSource, one: _Run) -> _Ran:
    made = _fresh(agent)
    seed = one.seed(made.name)
    if isinstance(made, CompiledAgent):
        failed = _run_compiled(one, made, seed)
    else:
        ctx = AgentContext(
            Door(one.opening),  # type: ignore[arg-type]
            one.info,
            seed=seed,
            calls_per_step=one.settings.calls_per_step,
            max_orders=one.settings.max_orders,
            series=tuple(one.prepared.exogenous),
        )
        failed = _run_python(one, made, ctx)
    return _Ran(made.name, made.params, failed)


def _fresh(agent: Agent | type[Agent] | AgentSource) -> Agent:
    """An agent that has not run yet."""
    if isinstance(agent, AgentSource):
        agent = make_agent(agent.reference, agent.params, agent.name)
    elif isinstance(agent, type) and issubclass(agent, Agent):
        agent = agent()
    if not isinstance(agent, Agent):
        raise ConfigError(f"running a backtest: {agent!r:.80} is no agent; make one of a class that derives from bellwether.replay.Agent")
    check_complete(type(agent))
    if agent.has_run:
        agent = agent.anew()
    agent.has_run = True
    return agent


def _run_compiled(one: _Run, agent: CompiledAgent, seed: int) -> Failure | None:
    failed, session = None, one.session
    callbacks = callbacks_of(type(agent))
    if callbacks:
        one.gateway.watch(callbacks)
    functions = callbacks.functions(type(agent))
    trades = one.prepared.trades if callbacks.on_trade else None
    try:
        session.run_compiled(type(agent).strategy, agent.numbers(one.info, seed), [functions.get(name) for name in CALLBACKS], trades)
    except RunStopped:
        raise
    except Exception as error:
        failed = failure(error, session.step_index, session.now, beyond=__file__)
        session.cancel_all()
    while session.step():
        pass
    return failed


def _run_python(one: _Run, agent: Agent, ctx: AgentContext) -> Failure | None:
    session = one.session
    with StepLimit(one.settings.seconds_per_step if agent.timed else float("inf")) as limit:
        callbacks = callbacks_of(type(agent))
        if callbacks:
            one.gateway.watch(callbacks)
        opened = session.open()
        failed = _start(one, agent, ctx, limit) or (_decide_and_hear if callbacks else _decide)(one, agent, ctx, limit, opened)
        one.gateway.end()
        if failed is not None:
            session.cancel_all()
        while session.step():
            pass
        ctx._begin(session.steps, 0)
        return failed or _guarded(limit, lambda: agent.end(ctx), session.steps, session.now)


def _guarded(limit: StepLimit, call: Callable[[], Any], step: int, at: int) -> Failure | None:
    try:
        limit.begin()
        call()
        limit.finish()
    except RunStopped:
        raise
    except (Exception, StepTimeout, RunawayAgent, SystemExit) as error:
        limit.stop()
        return failure(error, step, at, beyond=__file__)
    return None


def _start(one: _Run, agent: Agent, ctx: AgentContext, limit: StepLimit) -> Failure | None:
    """The agent sees the opening books, and can send nothing."""
    one.opening.begin()
    ctx._begin(-1, one.settings.calls_per_step)
    failed = _guarded(limit, lambda: agent.start(ctx, one.info), -1, one.info.start_ns)
    one.opening.end()
    ctx._door = Door(one.gateway)  # type: ignore[assignment]
    return failed


def _decide_and_hear(one: _Run, agent: Agent, ctx: AgentContext, limit: StepLimit, opened: bool) -> Failure | None:
    """All decisions, and between them what the agent is told of its fills and of trades; the failure that ended them early."""
    session, gateway, calls = one.session, one.gateway, one.settings.calls_per_step
    found = AT_DECISION if opened else session.advance()
    while found:
        failed = None
        if found == AT_DECISION:
            gateway.begin()
            ctx._begin(session.step_index, calls)
            failed = _guarded(limit, lambda: _act(agent, ctx), session.step_index, session.now)
        else:
            gateway.wake(stopped=True)
        while failed is None and (news := gateway.news()) is not None:
            gateway.wake(stopped=False)
            ctx._begin(session.step_index, calls)
            failed = _guarded(limit, partial(tell, agent, ctx, *news), session.step_index, session.now)
        if failed is not None:
            return failed
        found = session.advance()
    return None


def _act(agent: Agent, ctx: AgentContext) -> None:
    answer: object = agent.act(ctx)  # type: ignore[func-returns-value]
    if answer is not None:
        raise returned(answer)


def _decide(one: _Run, agent: Agent, ctx: AgentContext, limit: StepLimit, opened: bool) -> Failure | None:
    """All decisions; the failure that ended them early. opened: the session is at the first already."""
    session, calls = one.session, one.settings.calls_per_step
    step, act, whole, show, begin, finish = session.step, agent.act, one.gateway.begin, ctx._begin, limit.begin, limit.finish
    number = -1
    goes_on = opened or step()
    while goes_on:
        number += 1
        whole()
        show(number, calls)
        try:
            begin()
            answer = act(ctx)
            finish()
            if answer is not None:
                raise returned(answer)
        except RunStopped:
            raise
        except (Exception, StepTimeout, RunawayAgent, SystemExit) as error:
            limit.stop()
            return failure(error, number, session.now, beyond=__file__)
        goes_on = step()
    return None
