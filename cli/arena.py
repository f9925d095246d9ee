"""The command `bellwether arena` and its subcommands. Those that only read do not import Dagster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING

import click
import polars as pl

from assets.arena.queries import open_arena, open_lake, open_table_reader, print_rankings, require_answers
from bellwether.arena.identity import WEEK, week_of
from bellwether.arena.lineup import require_registered
from bellwether.console import console, grid, shown
from bellwether.errors import BellwetherError
from bellwether.formatting import visible
from bellwether.settings import settings
from bellwether.tables import TABLES
from bellwether.tables.arena import EVIDENCE, SETTLEMENTS
from cli.delays import warn_of_delays
from cli.options import DAY, REASON, operator_name
from orchestration.run_session import print_summary, require_venues, runner

if TYPE_CHECKING:
    from bellwether.arena.records import Intervention
    from bellwether.arena.weekly.context import WeekContext


@click.group()
def arena() -> None:
    """Run weeks of the arena, explain cohorts and decisions, and intervene."""


@arena.command()
@click.option("--week", "day", type=DAY, help="Day of the (last) week to run.  [default: today]")
@click.option("--weeks", default=1, show_default=True, type=click.IntRange(1, 520), help="Number of weeks to run, up to that one.")
@click.option("--dry-run", is_flag=True, help="Show the prompts of one week with size and maximum cost; change nothing.")
def run(day: datetime | None, weeks: int, *, dry_run: bool) -> None:
    """Run weeks: decisions, trades, evidence, marks, results.

    Finished steps are not repeated. New cohorts have the lineup of BELLWETHER_LINEUP and the methodology of BELLWETHER_METHODOLOGY; BELLWETHER_BUDGET limits
    the cost of model calls. A week whose decisions are past is reconstructed as of its Sunday 00:05 UTC. The command ends with a summary: refused legs, open
    decisions, cost, and what is due next. Exit status 1: decisions wait for money or a key, or marks are missing; the same command continues. Refused legs
    leave it 0.
    """
    config = settings()
    last = week_of(datetime.combine(day.date(), datetime.min.time(), config.now().tzinfo) if day else config.now())
    wanted = [last - number * WEEK for number in reversed(range(weeks))]
    _require_weeks(wanted)
    require_registered(config.arena_lineup, config.methodology or None, config.registry)
    if dry_run:
        if weeks > 1:
            raise click.BadParameter("--dry-run shows one week; leave --weeks out")
        _preview_week(last)
        return
    from assets.arena.runs import run_weeks
    from assets.summary.runs import publish
    from bellwether.arena.weekly.summary import describe_run

    with runner() as work:
        unmarked = run_weeks(work, wanted)
        publish(work)
    print_rankings()
    print_summary(work)
    with open_arena() as world:
        for line in describe_run(world, wanted, world.now()):
            console().print(visible(line), markup=False, highlight=False, soft_wrap=True)
    require_answers(wanted)
    if unmarked is not None:
        raise BellwetherError(f"marking what is held now: {unmarked}. All else is done; the same command marks it")


def _require_weeks(weeks: list[date]) -> None:
    """Raise `click.BadParameter` if this world does not contain one of the weeks."""
    first, last = settings().first_day.date(), week_of(settings().now())
    for week in weeks:
        if not first <= week <= last:
            raise click.BadParameter(f"the week {week} is not in the world {settings().world}, which has {first} to {last}")


@arena.command()
@click.argument("which", metavar="COHORT[/FAMILY[/WEEK]]")
def explain(which: str) -> None:
    """Show a cohort, an agent of it, or a decision.

    COHORT (its Sunday) has its agents, COHORT/FAMILY the agent's decisions, positions and cash movements, and COHORT/FAMILY/WEEK everything behind a
    decision: prompt, answers, parsed decision, refused legs, trades and cash movements.
    """
    from bellwether.arena.weekly.queries import explain_decision, parse_agent_key, query_agent, query_cohort

    read, level = open_table_reader(None), which.count("/")
    if level == 0:
        _print_tables({"agents": _agent_columns(query_cohort(read, DAY.convert(which, None, None).date()))})
        return
    if level == 1:
        key = parse_agent_key(which)
        _print_tables(query_agent(read, key.cohort, key.family))
        return
    explanation = explain_decision(read, which)
    for title, text in _render_explanation(explanation):
        console().print(f"[bold]{title}[/bold]")
        console().print(visible(text, "\n"), markup=False, soft_wrap=True)
    _print_tables({"Refused legs": explanation["refusals"], "Trades": explanation["trades"], "Cash": explanation["cash"]})


def _agent_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Select and rename the columns of `query_cohort` for the terminal, with money in whole cents."""
    cents = [pl.col(name).round(2).cast(pl.Decimal(scale=2)) for name in ("total", "profit")]
    closed = [pl.when("closed").then(pl.lit("yes")).otherwise(pl.lit("no")).alias("closed")] if rows["closed"].any() else []
    return rows.select(
        "family",
        "model",
        *closed,
        *cents,
        pl.col("refused").alias("ref."),
        pl.col("scored").alias("n"),
        pl.col("brier_stated").round(3).alias("stated"),
        pl.col("won").round(2),
    )


#: Columns of a decision that its explanation states.
_STATED = ("state", "reason", "cash", "planned_at", "model", "prompt_version", "prompt_hash", "attempts", "cost")


def _render_explanation(explanation: Mapping[str, pl.DataFrame]) -> Iterator[tuple[str, str]]:
    """Yield a decision and its messages as (title, text). explanation: from `explain_decision`."""
    decision = explanation["decision"].row(0, named=True)
    yield "Decision", "\n".join(f"{name}: {decision[name]}" for name in _STATED if decision[name] is not None)
    for role, content in explanation["messages"].select("role", "content").iter_rows():
        yield role, content[:20_000] or "(empty)"
    invalid = f"INVALID: {decision['problem']}: {decision['message']}"
    yield "Read as", "nothing yet" if decision["action"] is None else decision["decision"] if decision["problem"] is None else invalid


def _print_tables(tables: Mapping[str, pl.DataFrame]) -> None:
    """Print tables with their names as titles, after a warning if a rebuild of the arena's tables failed or is overdue."""
    warn_of_delays([declared for declared in TABLES.values() if declared.group == "arena"])
    for title, rows in tables.items():
        console().print(grid(rows, title=title) if rows.height else f"{title}: none")


def _preview_week(week: date) -> None:
    """Print the decisions that a run of this week would ask for, with prompts and maximum cost. Nothing is stored."""
    from bellwether.arena.weekly.summary import preview_week

    require_venues()
    with shown() as progress, open_arena() as world:
        progress.say(f"looking at the markets of the week {week}")
        universes, prompts = preview_week(world, week)
    reconstructed, markets = universes[0].reconstructed, sum(len(found.universe.markets) for found in universes)
    unknown = [prompt.member for prompt in prompts if prompt.most_cost is None]
    most = sum(prompt.most_cost or 0 for prompt in prompts if not prompt.stored) / 1_000_000
    kind, sources = "reconstructed" if reconstructed else "live", "; ".join(found.source for found in universes)
    console().print(
        f"Week {week}, {kind}: {markets} markets ({sources}), {len(prompts)} decisions. No request was sent, and nothing was stored."
    )
    if prompts:
        longest = max(prompts, key=lambda prompt: prompt.tokens)
        console().print(f"[bold]Longest prompt: {longest.decision_id}[/bold]")
        for message in longest.messages:
            console().print(visible(message["content"], "\n"), markup=False, soft_wrap=True)

    rows = [
        {"decision": prompt.decision_id, "model": prompt.member, "tokens": prompt.tokens, "max $": _dollars(prompt.most_cost)}
        for prompt in prompts
    ]
    console().print(grid(pl.DataFrame(rows), most=200) if rows else "No decision is due.")
    console().print(
        f"At most ${most:.2f} for the calls{f'; no price is known of {len(unknown)} models' if unknown else ''}. Tokens are estimated."
    )


def _dollars(cost: int | None) -> str:
    """Format a cost in millionths of a dollar."""
    return "unknown" if cost is None else f"{cost / 1_000_000:.4f}"


@arena.group()
def admin() -> None:
    """Intervene as an operator: in markets, agents and cohorts.

    Interventions are stored with your login name.
    """


@admin.command()
@click.argument("market")
@REASON
def cancel(market: str, reason: str) -> None:
    """Cancel MARKET (an id) and refund its positions at cost.

    This holds for all cohorts, and bets are not scored. Irreversible.
    """
    from bellwether.arena.weekly.interventions import cancel_market

    _intervene(lambda world: cancel_market(world, market, operator_name(), reason))


@admin.command()
@click.argument("market")
def resolve(market: str) -> None:
    """Query MARKET (an id) now, and settle or correct it.

    The methodology's rules decide.
    """
    from assets.arena import runs
    from assets.summary.runs import publish
    from bellwether.arena.weekly.interventions import require_bets

    require_bets(open_lake(), market, "resolving")
    with runner() as work:
        runs.poll_market(work, market)
        publish(work)
    of_market = pl.col("market_id") == market
    last = open_lake().slice(EVIDENCE, missing="skip").read().filter(of_market).sort("known_at").tail(1)
    settled = open_lake().slice(SETTLEMENTS, missing="skip").read().filter(of_market).sort("methodology", "number")
    settlements = settled.select("methodology", "number", "result", "winner", "rule", "known_at")
    state = "not listed by the venue" if last["missing"].item() else "closed" if last["closed"].item() else "open"
    console().print(f"{market}: {state} (polled {last['known_at'].item():%Y-%m-%d %H:%M} UTC)", markup=False, soft_wrap=True)
    console().print(grid(settlements, title="settlements") if settlements.height else "No settlement.")


@admin.command()
@click.argument("which", metavar="COHORT[/FAMILY]")
@REASON
def close(which: str, reason: str) -> None:
    """Close an agent, or archive COHORT (its Sunday).

    A closed agent decides no more. The agents of an archived cohort are closed and not ranked. Positions are still settled.
    """
    from bellwether.arena.weekly.interventions import archive_cohort, close_agent

    if "/" in which:
        _intervene(lambda world: close_agent(world, which, operator_name(), reason))
    else:
        cohort = DAY.convert(which, None, None).date()
        _intervene(lambda world: archive_cohort(world, cohort, operator_name(), reason))


def _intervene(act: Callable[[WeekContext], Intervention]) -> None:
    """Record an operator's intervention, update the tables that depend on it, publish, and print a summary. act: records it."""
    from assets.arena.runs import apply_intervention
    from assets.summary.runs import publish

    with open_arena() as world:
        intervention = act(world)
    with runner() as work:
        apply_intervention(work, intervention)
        publish(work)
    subject = f"{intervention.kind} {intervention.subject}"
    console().print(f"{subject}: by {visible(intervention.author)}, known from {intervention.at.isoformat()} on", markup=False)
    print_summary(work)
