"""Backtest of an agent in one episode, or in several episodes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellwether.errors import ConfigError
from bellwether.replay import pmb
from bellwether.replay.agents.agent import CALLBACKS, Agent, CompiledAgent, call_guarded, call_locally, callbacks_of, derive_seed
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.limits import Failure, RunStopped, StepLimit, build_failure
from bellwether.replay.agents.loader import AgentSource, check_complete, load_agent_class
from bellwether.replay.isolation.host import IsolatedAgent
from bellwether.replay.local_port import LocalPort
from bellwether.replay.preparation import Prepared, prepare
from bellwether.replay.run_record import RunRecord
from bellwether.replay.settings import DEFAULT_QUEUE, BacktestSettings
from bellwether.replay.tape.layout import Tape
from bellwether.units import MicroDollars

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

    from bellwether.replay.episode.folder import Episode

#: Sampled queue histories of agents that ship with Bellwether and of compiled agents.
_DEFAULT_QUEUES = 20
_AnyAgent = Agent | type[Agent] | AgentSource
#: Name and arguments of an agent that has run, and the failure that ended its trading early.
_Ran = tuple[str, Mapping[str, Any], Failure | None]


class Backtest(RunRecord):
    """Result of one agent in one or several episodes.

    `summary`, `orders`, `fills`, `equity` and `market_pnl` are Polars frames with the columns of the tables in the data dictionary: exact
    decimals of dollars and contracts, times in UTC. `RunRecord` describes the other attributes.
    """

    @cached_property
    def summary(self) -> pl.DataFrame:
        """All metrics, as a frame with one row of replay/backtests."""
        return _frames().backtests([self])

    @cached_property
    def orders(self) -> pl.DataFrame:
        """Orders of the agent: rows of replay/orders."""
        return _frames().orders(self)

    @cached_property
    def fills(self) -> pl.DataFrame:
        """Fills of the agent with their markouts: rows of replay/fills."""
        return _frames().fills(self)

    @cached_property
    def equity(self) -> pl.DataFrame:
        """Equity curve of the agent: rows of replay/equity."""
        return _frames().equity(self)

    @cached_property
    def market_pnl(self) -> pl.DataFrame:
        """P&L of each traded market: rows of replay/market_pnl."""
        return _frames().market_pnl(self)

    def plot(self) -> alt.LayerChart:
        """Draw equity in dollars over time (UTC) as an Altair chart. Charts of several agents can be added with `+`."""
        from bellwether.figures.equity import equity_over_time

        return equity_over_time(self.equity, self.agent)

    def write_html(self, path: Path | str) -> None:
        """Write the tear sheet of the backtest as one self-contained HTML page. The same backtest gives the same bytes."""
        from bellwether.pages.render import write_page
        from bellwether.replay.results.tear_sheet import tear_sheet

        write_page(tear_sheet(self), Path(path))

    def __str__(self) -> str:
        """Summarize P&L, sampled queues, fills, orders and failure in one line."""
        from bellwether.replay.results.text_tables import format_signed, queue_note

        row = self.summary.row(0, named=True)
        failed = "" if self.failure is None else f"; failed at decision {self.failure.step}: {self.failure}"
        queues = f" ({queue_note(row)})" if row["queues"] else ""
        counts = f"{row['fills']} fills of {row['orders']} orders"
        return f"{self.agent} in {self.episode}: P&L {format_signed(row['pnl'])} dollars{queues}, {counts}{failed}"

    __repr__ = __str__


def _frames() -> Any:
    """Import the module `results.frames`, which imports Polars, on first use, and return it."""
    from bellwether.replay.results import frames

    return frames


def run(
    source: Episode | Tape | Prepared | Sequence[Episode | Prepared],
    agent: _AnyAgent,
    settings: BacktestSettings | None = None,
    *,
    isolated: bool = False,
) -> Backtest:
    """Run an agent through an episode or tape, or through several episodes at once, with one bankroll and one clock.

    An error of the agent, also in `__init__`, ends its trading: its orders are cancelled, the rest of the episode is replayed and settled,
    and `Backtest.failure` contains the error. The run is then repeated under `BacktestSettings.queues` sampled queue histories, each with a
    new agent; `Backtest.queues` contains their P&L.

    Args:
        source: Episode, tape, or what `prepare` made of either; episodes of a sequence are traded together.
        agent: Agent, its class, or a reference to the class.
        settings: Settings. Default: `BacktestSettings()`.
        isolated: Run the agent in its own process, which loads it and receives only observations.

    Raises:
        ConfigError: The settings are incompatible, the agent cannot be loaded or isolated or refuses its parameters, or the episodes cannot
            be traded together.
        SchemaError: An episode is invalid.
        RunStopped: The run has no result for a reason outside the agent, such as an unavailable model.
    """
    settings = settings or BacktestSettings()
    prepared = prepare(source, settings.rules, bankroll=settings.bankroll)
    queue = DEFAULT_QUEUE if prepared.content is None else "trade_only"
    bankroll = prepared.info.bankroll if settings.bankroll is None else MicroDollars(settings.bankroll)
    settings = replace(settings, rules=prepared.rules.name).complete(execution=prepared.execution, queue=queue, bankroll=bankroll)
    if bankroll != prepared.info.bankroll:
        prepared = replace(prepared, info=replace(prepared.info, bankroll=bankroll))
    if settings.queues is None:
        settings = replace(settings, queues=0 if prepared.content is not None or isolated else _default_queues(_find_factory(agent)[0]))
    trade = partial(_trade, prepared, agent, isolated=isolated)
    main = trade(settings)
    return main if main.failure else _sample_queues(trade, main)


def _trade(prepared: Prepared, agent: _AnyAgent, settings: BacktestSettings, *, isolated: bool) -> Backtest:
    """Run an agent in a new simulation."""
    port: LocalPort | pmb.Simulation
    if prepared.content is None:
        port = LocalPort(prepared, settings)
    elif isolated:
        raise ConfigError(
            f"replaying {prepared.info.id}: isolated agents cannot run under {prepared.rules.name}; run the agent in this process"
        )
    else:
        port = pmb.Simulation(prepared, settings)
    name, params, failure = (_run_isolated if isolated else _run_local)(port, agent, prepared, settings)
    return Backtest(
        episode=prepared.info.id,
        episode_digest=prepared.digest,
        venue=prepared.info.venue,
        agent=name,
        params=params,
        rules=prepared.rules,
        settings=settings,
        tape=prepared.tape,
        outcome=port.outcome(),
        failure=failure,
        default_fees=prepared.default_fees,
        episodes=prepared.episodes,
        tags=port.tags,
        own_metrics=port.metrics() if isinstance(port, pmb.Simulation) else {},
    )


def _default_queues(kind: type[Agent]) -> int:
    """Return the number of sampled queue histories of an agent: 0 for agents that may call paid services."""
    is_own = kind.__module__.startswith("bellwether.") and kind.timed
    return _DEFAULT_QUEUES if is_own or issubclass(kind, CompiledAgent) else 0


def _sample_queues(trade: Callable[[BacktestSettings], Backtest], main: Backtest) -> Backtest:
    """Repeat a run in the sampled queue histories. Returns it with the P&L of each, and the failure of the first run that failed.

    A run in which no order rested does not depend on the queue and is not repeated.
    """
    assert main.settings.queues is not None
    if not (main.outcome.orders["queued"] >= 0).any():
        return replace(main, queues=(main.outcome.pnl,) * main.settings.queues)
    profits, failed = [], None
    for history in range(main.settings.queues):
        sampled = trade(replace(main.settings, queue=f"sampled:{history}"))
        profits.append(sampled.outcome.pnl)
        if failed is None and sampled.failure is not None:
            failed = replace(sampled.failure, message=f"in sampled queue history {history}: {sampled.failure.message}")
    return replace(main, queues=tuple(profits), failure=failed)


def _run_isolated(port: Any, agent: _AnyAgent, prepared: Prepared, settings: BacktestSettings) -> _Ran:
    source = agent if isinstance(agent, AgentSource) else AgentSource.of(agent)
    with IsolatedAgent(source, settings.limits) as process:
        name = process.name
        failed = process.run(port, prepared.info, derive_seed(prepared.digest, name, settings.seed))
        return name, process.params, failed


def _run_local(port: Any, agent: _AnyAgent, prepared: Prepared, settings: BacktestSettings) -> _Ran:
    kind, name, create = _find_factory(agent)
    check_complete(kind)
    if prepared.content is not None:
        pmb.check_agent(kind)
    with StepLimit(settings.limits.decision if kind.timed else float("inf")) as limit:
        instance = call_guarded(limit, create, -1, lambda: prepared.info.start_ns)
        if isinstance(instance, Failure):
            return name, {} if isinstance(agent, type) else agent.params, port.finish(instance)
        instance.has_run = True
        seed = derive_seed(prepared.digest, instance.name, settings.seed)
        if isinstance(instance, CompiledAgent):
            failed = _run_compiled(port, instance, seed, prepared)
        else:
            calls = None if kind.timed and prepared.content is None else settings.limits.calls
            ctx = AgentContext(port, prepared.info, seed=seed, calls=calls)
            failed = port.run(call_locally(instance, ctx, limit), callbacks_of(kind))
    return instance.name, instance.params, failed


def _find_factory(agent: _AnyAgent) -> tuple[type[Agent], str, Callable[[], Agent]]:
    """Return the class of an agent, the agent's name, and a function that returns an agent of this class that has not run yet."""
    if isinstance(agent, AgentSource):
        kind = load_agent_class(agent.reference)
        return kind, agent.name or kind.name, agent.make
    if isinstance(agent, type) and issubclass(agent, Agent):
        return agent, agent.name, agent
    if not isinstance(agent, Agent):
        raise ConfigError(f"running a backtest: {agent!r:.80} is not an agent; give an instance or a subclass of bellwether.replay.Agent")
    return type(agent), agent.name, agent.recreate if agent.has_run else lambda: agent


def _run_compiled(port: LocalPort, agent: CompiledAgent, seed: int, prepared: Prepared) -> Failure | None:
    failed, session, kind = None, port.session, type(agent)
    callbacks = callbacks_of(kind)
    if callbacks:
        port.watch(callbacks)
    functions = [getattr(kind, name) if name in callbacks else None for name in CALLBACKS]
    try:
        session.run_compiled(kind.strategy, agent.numbers(prepared.info, seed), functions)
    except RunStopped:
        raise
    except Exception as error:
        failed = build_failure(error, session.step_index, session.now, omitted=(__file__,))
    return port.finish(failed)
