"""Assets of the arena: by week, universes (markets offered to agents), decisions, trades and evidence; by day, prices of positions; and all
results, with the comparison of families (one competitor over the years each).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import polars as pl
from pydantic import Field

from bellwether.arena.identity import WEEK as SEVEN_DAYS
from bellwether.arena.identity import week_of
from bellwether.arena.lineup import build_release_rows, load_registered_families
from bellwether.arena.methodology import methodologies
from bellwether.arena.submissions import submissions_frame
from bellwether.errors import BellwetherError, ConfigError
from bellwether.lake import Slice
from bellwether.settings import World, settings
from bellwether.tables import Table, table
from bellwether.tables.arena_rankings import INPUTS
from orchestration.asset_declarations import FOLLOW_INPUTS, key
from orchestration.partitions import DAY, DAYS_PER_RUN, ONE_RUN, days_ahead, partition_keys
from orchestration.steps import (
    PartitionRows,
    StepOutput,
    make_each,
    report,
    require_blocking,
    step_failure,
    yield_materializations,
    yield_outputs,
)
from resources import LakeIOManager
from resources.arena import ArenaResource
from resources.io_manager import UNDER_WAY
from resources.models import payer

if TYPE_CHECKING:
    from bellwether.arena.weekly.context import WeekContext
    from bellwether.arena.weekly.decisions import WeekDecisions


def weekly_partitions() -> dg.WeeklyPartitionsDefinition:
    """Define one partition per UTC week, from the first whole week of the settings. In the sandbox, whose clock is fixed, the last week is the
    clock's.
    """
    config = settings()
    first = week_of(config.first_day + timedelta(days=6))
    if config.world is World.SANDBOX:
        last = week_of(config.now()) + SEVEN_DAYS
        beyond = days_ahead(last) // SEVEN_DAYS.days + 1
        return dg.WeeklyPartitionsDefinition(start_date=first.isoformat(), end_date=last.isoformat(), timezone="UTC", end_offset=beyond)
    return dg.WeeklyPartitionsDefinition(start_date=first.isoformat(), timezone="UTC", end_offset=1)


WEEK = weekly_partitions()

#: Dependency on the previous week.
BEFORE = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1, allow_nonexistent_upstream_partitions=True)


def whole_table(table: Table) -> dg.AssetIn:
    """Return an asset input with all partitions of a table, including the current day, which a sensor writes."""
    if not table.partitioned_by:
        return dg.AssetIn(key(table.name))
    metadata = {UNDER_WAY: True} if table.partitioned_by == ("day",) else None
    return dg.AssetIn(key(table.name), partition_mapping=dg.AllPartitionMapping(), metadata=metadata)


#: Earlier states are written first, so that a run killed in between loses none.
DECIDED_TABLES = (
    "arena/decision_versions",
    "arena/decisions",
    "arena/agents",
    "arena/messages",
    "arena/refusals",
    "arena/trades",
    "arena/evidence",
)
#: Tables computed from the facts, each with those of the same step that it is computed from.
BOOK_TABLES: dict[str, tuple[str, ...]] = {
    "arena/settlements": (),
    "arena/ledger": ("arena/settlements",),
    "arena/positions": ("arena/ledger",),
    "arena/scores": ("arena/ledger",),
    "arena/portfolios": ("arena/ledger",),
    "arena/leaderboard": ("arena/ledger", "arena/positions", "arena/scores", "arena/portfolios"),
}
#: Books that are stored even if they do not balance.
_UNCHECKED = ("arena/settlements", "arena/ledger", "arena/positions")
FACT_TABLES = ("arena/agents", "arena/decisions", "arena/refusals", "arena/trades", "arena/evidence", "arena/prices")


class CohortConfig(dg.Config):
    """Configuration of a new cohort. A week that already has a cohort ignores it."""

    lineup: str | None = None
    """Lineup of a new cohort; BELLWETHER_LINEUP when left out."""
    methodology: str | None = None
    """Methodology of a new cohort, which determines the venue; BELLWETHER_METHODOLOGY, or the lineup's, when left out."""


class WeekConfig(CohortConfig):
    """Configuration of a run of the weekly step."""

    forced: bool = True
    """Start the week's cohort although its first hour is over; the schedule does not."""
    dollars: float | None = None
    """Budget of model calls in dollars; BELLWETHER_BUDGET when left out."""
    asked: list[str] = Field(default_factory=list)
    """Ids of markets with bets that are polled now, due or not."""


@dg.asset(key=["arena", "universe"], group_name="arena", kinds={"polymarket"}, partitions_def=WEEK, backfill_policy=ONE_RUN)
def universe(
    context: dg.AssetExecutionContext, config: CohortConfig, arena: ArenaResource, io_manager: dg.ResourceParam[LakeIOManager]
) -> Iterator[StepOutput]:
    """Store the universe of a week for each venue of its cohorts. It is fixed before the first decision."""
    from bellwether.arena.frames import universe_frame
    from bellwether.arena.weekly.context import freeze_universe, list_venues

    world = arena.world(context.run_id, lineup=config.lineup, methodology=config.methodology)

    def make(name: str) -> PartitionRows:
        week = date.fromisoformat(name)
        universes = [freeze_universe(world, week, venue) for venue in list_venues(world, week)]
        metadata: dict[str, Any] = {"as of": universes[0].at.isoformat(), "reconstructed": universes[0].reconstructed}
        for found in universes:
            of_venue = {"source": found.source, "digest": found.universe.digest[:16], "objects that are no market": found.rejects}
            metadata |= {f"{found.venue}: {label}": value for label, value in of_venue.items()}
        return {"arena/universe": universe_frame(week, *universes)}, {"arena/universe": metadata}

    yield from make_each(context, io_manager, ("arena/universe",), make)


@dg.multi_asset(
    name="week",
    group_name="arena",
    outs={name.split("/")[1]: dg.AssetOut(key=name.split("/"), kinds={"python"}, is_required=False) for name in DECIDED_TABLES},
    deps=[key("arena/universe"), *(dg.AssetDep(key(name), partition_mapping=BEFORE) for name in DECIDED_TABLES)],
    # Each table depends on its own previous week: a backfill then runs them together, week after week.
    # Evidence concerns the trades of earlier weeks.
    internal_asset_deps={
        name.split("/")[1]: {
            key("arena/universe"),
            key(name),
            *([key("arena/agents"), key("arena/trades")] if name == "arena/evidence" else []),
        }
        for name in DECIDED_TABLES
    },
    partitions_def=WEEK,
    backfill_policy=ONE_RUN,
    can_subset=True,
    pool="arena",
)
def week(
    context: dg.AssetExecutionContext, config: WeekConfig, arena: ArenaResource, io_manager: dg.ResourceParam[LakeIOManager]
) -> Iterator[StepOutput]:
    """Run a week: start its cohort, make all decisions with their trades and refusals, and collect evidence. Stored decisions stay unchanged.

    The first failed week ends the step, since later weeks build on it; earlier weeks are stored.
    """
    wanted = {selected.path[-1] for selected in context.selected_asset_keys}
    tables, names = [name for name in DECIDED_TABLES if name.split("/")[1] in wanted], partition_keys(context)
    stored: dict[str, Mapping[str, Mapping[str, Any]]] = {}
    try:
        world = arena.world(payer(context.run), dollars=config.dollars, lineup=config.lineup, methodology=config.methodology)
        for name, rows, metadata in _make_weeks(world, names, wanted, forced=config.forced, polled=config.asked):
            report(f"week {name}: {', '.join(f'{table} {frame.height}' for table, frame in rows.items())}")
            require_blocking(tables, {table: rows[table.split("/")[1]] for table in tables})
            io_manager.store(context, name, {table: rows[table.split("/")[1]] for table in tables})
            stored[name] = {"arena/decisions": metadata} if metadata else {}
    except BellwetherError as error:
        if not stored:
            raise dg.Failure(str(error), allow_retries=False) from error
        yield from yield_materializations(tables, stored)
        raise step_failure(dict.fromkeys(names[len(stored) :], error)) from error
    yield from yield_outputs(context, tables, names, stored)


def _make_weeks(
    world: "WeekContext", names: Sequence[str], wanted: Collection[str], *, forced: bool, polled: Collection[str]
) -> Iterator[tuple[str, dict[str, pl.DataFrame], dict[str, Any]]]:
    """Make the given weeks one by one. Yields for each week the name, the rows by table, and the metadata of the decisions.

    names: ISO dates of the weeks. wanted: short names of the tables to make. forced: start a missing cohort even after its first hour. polled: ids
    of markets to poll, due or not.
    """
    from bellwether.arena.weekly import rows
    from bellwether.arena.weekly.context import load_cohort
    from bellwether.arena.weekly.decisions import decide_week
    from bellwether.arena.weekly.evidence import FactRows, build_evidence_rows

    # Agents alone are rebuilt from the journal.
    decides = bool(set(wanted) - {"agents", "evidence"})
    if "decisions" in wanted and "decision_versions" not in wanted:
        raise ConfigError("making arena/decisions: select arena/decision_versions too; it stores the replaced states")
    weeks = [date.fromisoformat(name) for name in names]
    facts = FactRows.load(world, decided=weeks if decides else (), rebuilt=weeks) if "evidence" in wanted else None
    for name in names:
        sunday, frames, metadata = date.fromisoformat(name), dict[str, pl.DataFrame](), dict[str, Any]()
        if decides:
            week = decide_week(world, sunday, forced=forced)
            decisions, versions = rows.build_decisions_rows(world, week)
            frames = {
                "agents": rows.build_agents_rows(world, week.cohort),
                "messages": rows.build_messages_rows(world, week, decisions, versions),
                "refusals": rows.build_refusals_rows(world, week),
                "trades": rows.build_trades_rows(week),
                "decision_versions": versions,
                "decisions": decisions,
            }
            facts = facts and facts.replace_week(sunday, agents=frames["agents"], trades=frames["trades"])
            metadata = _week_metadata(week, frames)
        elif "agents" in wanted:
            frames["agents"] = rows.build_agents_rows(world, load_cohort(world.records, sunday))
            facts = facts and facts.replace_week(sunday, agents=frames["agents"])
        if facts is not None:
            frames["evidence"] = build_evidence_rows(world, sunday, facts, requested=polled)
            facts = facts.replace_week(sunday, evidence=frames["evidence"])
        yield name, frames, metadata


def _week_metadata(week: "WeekDecisions", frames: dict[str, pl.DataFrame]) -> dict[str, Any]:
    """Build the metadata of a week's decisions: counts by state, trades, cost of model calls, and problems."""
    from bellwether.arena.weekly.rows import count_states

    cost = frames["decisions"]["cost"].sum()
    problems = [
        f"- `{decision.decision_id}`: {decision.state}: {decision.reason[:200]}"
        for _, decision in week.decisions
        if decision.problem and decision.reason
    ]
    return {
        **{f"decisions {state}": number for state, number in count_states(week.decisions).items()},
        "cohorts": len(week.cohorts),
        "trades": frames["trades"].height,
        "refused legs": frames["refusals"].height,
        "venue": ", ".join(week.universes),
        "reconstructed": week.universe.reconstructed,
        **({"dollars": float(cost)} if cost is not None else {}),
        **({"problems": dg.MetadataValue.md("\n".join(problems[:20]))} if problems else {}),
    }


@dg.asset(
    key=["arena", "prices"],
    group_name="arena",
    kinds={"polymarket"},
    partitions_def=DAY,
    deps=[
        dg.AssetDep(key(f"arena/{name}"), partition_mapping=dg.AllPartitionMapping())
        for name in ("universe", "agents", "trades", "evidence")
    ],
    backfill_policy=DAYS_PER_RUN,
    pool="arena",
)
def prices(context: dg.AssetExecutionContext, arena: ArenaResource) -> dict[str, pl.DataFrame]:
    """Store the prices that value positions on past days: those observed live, and those of reconstructed cohorts."""
    from bellwether.arena.weekly.held_prices import reconstruct_prices

    days = [date.fromisoformat(name) for name in partition_keys(context)]
    try:
        rows = reconstruct_prices(arena.world(context.run_id), days)
    except BellwetherError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    return {day.isoformat(): frame for day, frame in rows.items()}


@dg.multi_asset(
    name="books",
    group_name="arena",
    outs={
        name.split("/")[1]: dg.AssetOut(key=name.split("/"), kinds={"python"}, metadata=FOLLOW_INPUTS, is_required=False)
        for name in BOOK_TABLES
    },
    ins={name.split("/")[1]: whole_table(table(name)) for name in FACT_TABLES},
    internal_asset_deps={name.split("/")[1]: set(map(key, (*FACT_TABLES, *books))) for name, books in BOOK_TABLES.items()},
    check_specs=[
        dg.AssetCheckSpec(
            "invariants", asset=key("arena/ledger"), description="The ledger balances, and every fact was booked.", blocking=True
        ),
        dg.AssetCheckSpec(
            "decided_on_these_books",
            asset=key("arena/ledger"),
            description="Each decision used the cash that the ledger states for its agent at that time: no past fact has changed since.",
        ),
    ],
    can_subset=True,
)
def books(context: dg.AssetExecutionContext, arena: ArenaResource, **facts: Slice) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
    """Compute settlements, ledger, positions, scores, portfolios and leaderboard from the facts of all weeks."""
    from bellwether.arena.results import Facts, compute_results, find_changed_cash

    try:
        loaded = Facts(**{name: rows.read() for name, rows in facts.items()})
        results = compute_results(loaded, arena.world(context.run_id).rules)
    except BellwetherError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    wanted = [name for name in BOOK_TABLES if key(name) in context.selected_asset_keys]
    for name in (name for name in wanted if name in _UNCHECKED):
        yield dg.MaterializeResult(key(name), value=results.frames[name])
    broken = [f"{violation.rule}: {violation.where}: {violation.found}" for violation in results.violations]
    checks = (
        _check_result("invariants", broken, dg.AssetCheckSeverity.ERROR),
        _check_result("decided_on_these_books", find_changed_cash(loaded, results.ledger), dg.AssetCheckSeverity.WARN),
    )
    selected_checks = {check.name for check in context.selected_asset_check_keys}
    yield from (check for check in checks if check.check_name in selected_checks)
    if broken:
        raise dg.Failure(f"the books do not balance; nothing is ranked by them: {'; '.join(broken[:3])}", allow_retries=False)
    metadata = {"arena/leaderboard": _leaderboard_metadata(results.frames["arena/leaderboard"])}
    for name in (name for name in wanted if name not in _UNCHECKED):
        yield dg.MaterializeResult(key(name), metadata.get(name), value=results.frames[name])


def _check_result(name: str, violations: list[str], severity: dg.AssetCheckSeverity) -> dg.AssetCheckResult:
    """Return the result of a check of the ledger. violations: descriptions of what is wrong; without any, the check passes."""
    sample = {"sample": dg.MetadataValue.md("\n".join(f"- `{line}`" for line in violations[:20]))} if violations else {}
    return dg.AssetCheckResult(
        passed=not violations,
        check_name=name,
        asset_key=key("arena/ledger"),
        severity=severity,
        metadata={"found": len(violations), **sample},
    )


def _leaderboard_metadata(board: pl.DataFrame) -> dict[str, Any]:
    """Build the metadata of the leaderboard: totals."""
    return {
        "families": board.height,
        "cost of all": float(board["cost"].sum() or 0),
        "profit of all": float(board["profit"].sum() or 0),
        "open positions": int(board["open_positions"].sum() or 0),
    }


RANKING_TABLES = ("arena/rankings", "arena/pairs", "arena/equity_by_day", "arena/equity_by_age", "arena/calibration", "arena/releases")
_READ = tuple(table(f"arena/{name}") for name in INPUTS)


@dg.asset(
    key=["arena", "submissions"],
    group_name="arena",
    kinds={"python"},
    metadata=FOLLOW_INPUTS,
    ins={"universe": dg.AssetIn(key("arena/universe"), partition_mapping=dg.AllPartitionMapping())},
)
def submissions(context: dg.AssetExecutionContext, universe: Slice) -> pl.DataFrame:
    """Store submitted forecasts on markets of a week that were stated before its decisions."""
    try:
        return read_submissions(universe.read())
    except BellwetherError as error:
        raise dg.Failure(str(error), allow_retries=False) from error


def read_submissions(universe: pl.DataFrame) -> pl.DataFrame:
    """Read the submitted forecasts on markets of a universe, as rows of `arena/submissions`. universe: rows of `arena/universe`."""
    from bellwether.submissions import Submissions

    config = settings()
    return submissions_frame(Submissions(config.submissions_path).read(), universe, methodologies(config.registry))


@dg.multi_asset(
    name="rankings",
    group_name="arena",
    outs={
        name.split("/")[1]: dg.AssetOut(key=name.split("/"), kinds={"python"}, metadata=FOLLOW_INPUTS, is_required=False)
        for name in RANKING_TABLES
    },
    ins={source.short_name: whole_table(source) for source in _READ},
    internal_asset_deps={
        name.split("/")[1]: {key("arena/agents")} if name == "arena/releases" else {key(source.name) for source in _READ}
        for name in RANKING_TABLES
    },
    can_subset=True,
)
def rankings(context: dg.AssetExecutionContext, **rows: Slice) -> Iterator[dg.MaterializeResult]:
    """Compare families within each group. Live, reconstructed and contaminated cohorts are never ranked together."""
    from bellwether.arena.as_known import load_cutoffs
    from bellwether.arena.rankings import RankingInputs
    from bellwether.arena.rankings import compute_rankings as compare

    try:
        inputs = RankingInputs(**{name: part.read() for name, part in rows.items()}, cutoffs=load_cutoffs(settings().registry))
        frames = {**compare(inputs), "arena/releases": build_release_rows(inputs.agents, load_registered_families(settings().registry))}
    except BellwetherError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    for name in RANKING_TABLES:
        if key(name) in context.selected_asset_keys:
            yield dg.MaterializeResult(key(name), value=frames[name])
