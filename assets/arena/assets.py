"""Assets of the arena: universes, decisions, trades and evidence by week, marks by day, and results computed from them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import dagster as dg
import polars as pl
from pydantic import Field

from assets.arena.partitions import BEFORE, WEEK, whole_table
from bellwether.errors import BellwetherError, ConfigError
from bellwether.lake import Slice
from bellwether.tables import table
from orchestration.asset_declarations import FOLLOW_INPUTS, key, table_asset, table_output
from orchestration.partitions import DAY, DAYS_PER_RUN, ONE_RUN, partition_keys
from orchestration.progress import report
from orchestration.steps import PartitionRows, StepOutput, make_each, require_blocking, step_failure, yield_materializations, yield_outputs
from resources import LakeIOManager
from resources.arena import ArenaResource
from resources.models import payer
from resources.pictures import picture_metadata

if TYPE_CHECKING:
    from bellwether.arena.results import Facts, Results
    from bellwether.arena.weekly.context import WeekContext
    from bellwether.arena.weekly.decisions import WeekDecisions

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
BOOK_TABLES = ("arena/settlements", "arena/ledger", "arena/positions", "arena/scores", "arena/portfolios", "arena/leaderboard")
FACT_TABLES = ("arena/agents", "arena/decisions", "arena/refusals", "arena/trades", "arena/evidence", "arena/prices")


class CohortConfig(dg.Config):
    """Configuration of the cohort that a week starts if it has none."""

    lineup: str | None = None
    """Lineup of a new cohort; BELLWETHER_LINEUP when left out."""
    methodology: str | None = None
    """Methodology of a new cohort, which determines the venue; BELLWETHER_METHODOLOGY, or the lineup's, when left out."""


class WeekConfig(CohortConfig):
    """Configuration of the run of a week."""

    forced: bool = True
    """Start the week's cohort although its first hour is over; the schedule does not."""
    dollars: float | None = None
    """Budget of model calls in dollars; BELLWETHER_BUDGET when left out."""
    asked: list[str] = Field(default_factory=list)
    """Ids of markets with bets that are polled now, due or not."""


@dg.asset(**table_asset("arena/universe", "polymarket"), partitions_def=WEEK, backfill_policy=ONE_RUN)
def universe(
    context: dg.AssetExecutionContext, config: CohortConfig, arena: ArenaResource, io_manager: dg.ResourceParam[LakeIOManager]
) -> Iterator[StepOutput]:
    """Freeze the universe of a week on each venue of its cohorts before the first decision."""
    from bellwether.arena.frames import universe_frame
    from bellwether.arena.weekly.context import freeze_universe, list_venues

    world = arena.world(context.run_id, lineup=config.lineup, methodology=config.methodology)

    def make(name: str) -> PartitionRows:
        week = date.fromisoformat(name)
        universes = [freeze_universe(world, week, venue) for venue in list_venues(world, week)]
        shown: dict[str, Any] = {"as of": universes[0].at.isoformat(), "reconstructed": universes[0].reconstructed}
        for one in universes:
            of_venue = {"source": one.source, "digest": one.universe.digest[:16], "objects that are no market": one.rejects}
            shown |= {f"{one.venue}: {label}": value for label, value in of_venue.items()}
        return {"arena/universe": universe_frame(week, *universes)}, {"arena/universe": shown}

    yield from make_each(context, io_manager, ("arena/universe",), make)


@dg.multi_asset(
    name="week",
    outs={name.split("/")[1]: table_output(name, "python", is_required=False) for name in DECIDED_TABLES},
    deps=[key("arena/universe"), *(dg.AssetDep(key(name), partition_mapping=BEFORE) for name in DECIDED_TABLES)],
    # Each table depends on its own previous week: a backfill then runs them together, week after week.
    # Evidence concerns the trades of earlier weeks.
    internal_asset_deps={
        name.split("/")[1]: {key("arena/universe"), key(name), *([key("arena/trades")] if name == "arena/evidence" else [])}
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
    """Run a week: its cohort, all decisions with trades and refusals, and evidence. Stored decisions are reused unchanged.

    The first failed week ends the step, since later weeks build on it; earlier weeks are stored.
    """
    wanted = context.op_execution_context.selected_output_names
    tables, names = [name for name in DECIDED_TABLES if name.split("/")[1] in wanted], partition_keys(context)
    done: dict[str, Mapping[str, Mapping[str, Any]]] = {}
    try:
        world = arena.world(payer(context.run), dollars=config.dollars, lineup=config.lineup, methodology=config.methodology)
        for name, rows, about in _make_weeks(world, names, wanted, forced=config.forced, asked=config.asked):
            report(f"week {name}: {', '.join(f'{table} {found.height}' for table, found in rows.items())}")
            require_blocking(tables, {one: rows[one.split("/")[1]] for one in tables})
            for one in tables:
                io_manager.store(context, one, name, rows[one.split("/")[1]])
            done[name] = {"arena/decisions": about} if about else {}
    except BellwetherError as error:
        if not done:
            raise dg.Failure(str(error), allow_retries=False) from error
        yield from yield_materializations(tables, done)
        raise step_failure(dict.fromkeys(names[len(done) :], error)) from error
    yield from yield_outputs(context, tables, names, done)


def _make_weeks(
    world: "WeekContext", names: Sequence[str], wanted: Collection[str], *, forced: bool, asked: Collection[str]
) -> Iterator[tuple[str, dict[str, pl.DataFrame], dict[str, Any]]]:
    """Make the rows of each week by table, the earliest week first, and their metadata."""
    from bellwether.arena.weekly import rows
    from bellwether.arena.weekly.context import load_cohort
    from bellwether.arena.weekly.decisions import decide_week
    from bellwether.arena.weekly.evidence import FactRows, build_evidence_rows

    # Agents alone are rebuilt from the journal.
    decides = bool(set(wanted) - {"agents", "evidence"})
    if "decisions" in wanted and "decision_versions" not in wanted:
        raise ConfigError("making arena/decisions: select arena/decision_versions too; it stores the replaced states")
    weeks = [date.fromisoformat(name) for name in names]
    known = FactRows.load(world, decided=weeks if decides else (), rebuilt=weeks) if "evidence" in wanted else None
    for name in names:
        sunday, made, shown = date.fromisoformat(name), dict[str, pl.DataFrame](), dict[str, Any]()
        if decides:
            done = decide_week(world, sunday, forced=forced)
            decisions, versions = rows.build_decisions_rows(world, done)
            made = {
                "agents": rows.build_agents_rows(world, done.cohort),
                "messages": rows.build_messages_rows(world, done, decisions, versions),
                "refusals": rows.build_refusals_rows(world, done),
                "trades": rows.build_trades_rows(done),
                "decision_versions": versions,
                "decisions": decisions,
            }
            known = known and known.replace_week(sunday, agents=made["agents"], trades=made["trades"])
            shown = {**_week_metadata(done, made), **_spending_metadata(world, sunday)}
        elif "agents" in wanted:
            made["agents"] = rows.build_agents_rows(world, load_cohort(world.records, sunday))
            known = known and known.replace_week(sunday, agents=made["agents"])
        if known is not None:
            made["evidence"] = build_evidence_rows(world, sunday, known, requested=asked)
            known = known.replace_week(sunday, evidence=made["evidence"])
        yield name, made, shown


def _week_metadata(done: "WeekDecisions", made: dict[str, pl.DataFrame]) -> dict[str, Any]:
    """Build counts by state, trades, the cost of model calls, and the reasoning of agents."""
    from bellwether.arena.weekly.rows import count_states

    decisions = made["decisions"]
    cost = decisions["cost"].sum()
    words = decisions.filter(pl.col("reasoning").str.len_chars() > 0).sort("place").head(8)
    said = "\n\n".join(
        f"**{name}**\n\n    {' '.join(text.split())[:300]}" for name, text in words.select("agent_id", "reasoning").iter_rows()
    )
    open_ones = [f"- `{one.decision_id}`: {one.state}: {one.reason[:200]}" for _, one in done.decisions if one.problem and one.reason]
    return {
        **{f"decisions {state}": number for state, number in count_states(done.decisions).items()},
        "cohorts": len(done.cohorts),
        "trades": made["trades"].height,
        "refused legs": made["refusals"].height,
        "venue": ", ".join(done.universes),
        "reconstructed": done.universe.reconstructed,
        **({"dollars": float(cost)} if cost is not None else {}),
        **({"in their words": dg.MetadataValue.md(said)} if said else {}),
        **({"look at": dg.MetadataValue.md("\n".join(open_ones[:20]))} if open_ones else {}),
    }


def _spending_metadata(world: "WeekContext", week: date) -> dict[str, float]:
    """Spent, reserved and remaining dollars of the week's budgets, of all models and of each."""
    from bellwether.arena.weekly.context import compute_week_spending

    whole, models = compute_week_spending(world.journal, week, world.budgets)
    found = {}
    for name, one in (("week", whole), *models.items()):
        found[f"{name}: dollars spent"] = one.spent
        if one.reserved:
            found[f"{name}: dollars reserved"] = one.reserved
        if one.left is not None:
            found[f"{name}: dollars left"] = one.left
    return found


@dg.asset(
    **table_asset("arena/prices", "polymarket"),
    partitions_def=DAY,
    deps=[dg.AssetDep(key(name), partition_mapping=dg.AllPartitionMapping()) for name in ("arena/trades", "arena/evidence")],
    backfill_policy=DAYS_PER_RUN,
    pool="arena",
)
def prices(context: dg.AssetExecutionContext, arena: ArenaResource) -> dict[str, pl.DataFrame]:
    """Marks of past days: prices observed live, and prices of positions of reconstructed cohorts."""
    from bellwether.arena.weekly.held_prices import reconstruct_prices

    days = [date.fromisoformat(name) for name in partition_keys(context)]
    try:
        made = reconstruct_prices(arena.world(context.run_id), days)
    except BellwetherError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    return {day.isoformat(): rows for day, rows in made.items()}


@dg.multi_asset(
    name="books",
    outs={name.split("/")[1]: table_output(name, "python", follows=FOLLOW_INPUTS, is_required=False) for name in BOOK_TABLES},
    ins={name.split("/")[1]: whole_table(table(name)) for name in FACT_TABLES},
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
def books(context: dg.AssetExecutionContext, arena: ArenaResource, **facts: Slice) -> Iterator[dg.Output | dg.AssetCheckResult]:
    """Settlements, ledger, positions, scores, portfolios and leaderboard, computed from the facts of all weeks."""
    from bellwether.arena.results import Facts, compute_results, find_changed_cash

    try:
        known = Facts(**{name: rows.read() for name, rows in facts.items()})
        found = compute_results(known, arena.world(context.run_id).rules)
    except BellwetherError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    selected = context.op_execution_context.selected_output_names
    wanted = [name for name in BOOK_TABLES if name.split("/")[1] in selected]
    for name in (one for one in wanted if one in BOOK_TABLES[:3]):
        yield dg.Output(found.frames[name], name.split("/")[1])
    broken = [f"{one.rule}: {one.where}: {one.found}" for one in found.violations]
    results_of_checks = (
        _check_result("invariants", broken, dg.AssetCheckSeverity.ERROR),
        _check_result("decided_on_these_books", find_changed_cash(known, found.ledger), dg.AssetCheckSeverity.WARN),
    )
    checks_selected = {one.name for one in context.selected_asset_check_keys}
    yield from (one for one in results_of_checks if one.check_name in checks_selected)
    if broken:
        raise dg.Failure(f"the books do not balance; nothing is ranked by them: {'; '.join(broken[:3])}", allow_retries=False)
    for name in (one for one in wanted if one in BOOK_TABLES[3:]):
        yield dg.Output(
            found.frames[name], name.split("/")[1], metadata=_leaderboard_metadata(known, found) if name == "arena/leaderboard" else None
        )


def _check_result(name: str, found: list[str], severity: dg.AssetCheckSeverity) -> dg.AssetCheckResult:
    shown = {"sample": dg.MetadataValue.md("\n".join(f"- `{line}`" for line in found[:20]))} if found else {}
    return dg.AssetCheckResult(
        passed=not found, check_name=name, asset_key=key("arena/ledger"), severity=severity, metadata={"found": len(found), **shown}
    )


def _leaderboard_metadata(facts: "Facts", found: "Results") -> dict[str, Any]:
    """Metadata of the leaderboard: totals, table and equity curves."""
    from bellwether.figures.canvas import png
    from bellwether.figures.equity import family_equity

    board = found.frames["arena/leaderboard"]
    columns = [
        "family",
        "rank",
        "decisions",
        "invalid",
        "unfinished",
        "bets",
        "refused",
        "scored",
        "brier_stated",
        "brier_size",
        "brier_price",
        "return",
        "cost",
    ]
    rows = (
        board.sort("rank", nulls_last=True).select(columns).with_columns(pl.col(pl.Float64).round(4), pl.col(pl.Decimal).cast(pl.Float64))
    )
    ranked = facts.agents.filter(pl.col("archived_at").is_null())
    records = [dg.TableRecord({name: "" if value is None else value for name, value in row.items()}) for row in rows.to_dicts()]
    return {
        "families": board.height,
        "cost of all": float(board["cost"].sum() or 0),
        "profit of all": float(board["profit"].sum() or 0),
        "open positions": int(board["open_positions"].sum() or 0),
        "table": dg.MetadataValue.table(records) if records else dg.MetadataValue.text("no cohort"),
        **picture_metadata({"equity": png(family_equity(found.frames["arena/portfolios"], ranked, "Equity per agent, by family"))}),
    }
