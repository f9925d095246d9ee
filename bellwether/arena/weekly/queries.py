"""Queries of the arena's tables and journal: status of weeks, accounts of agents, and explanations of decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime

import polars as pl

from bellwether.arena.as_known import TableReader, stored_tables
from bellwether.arena.decision import ANSWERED, FINAL, Decision, DecisionState
from bellwether.arena.identity import AgentKey, DecisionKey
from bellwether.arena.lifecycle import find_complete_cohorts, is_start_allowed
from bellwether.arena.methodology import Methodology
from bellwether.arena.records import DecisionPlan, Execution, Intent, InterventionKind, list_messages, load_by_subject, load_records
from bellwether.arena.records import load_record as stored_record
from bellwether.arena.results import LAST_EXECUTION, Facts, newest_fact_time
from bellwether.arena.weekly.context import WeekContext, list_deciding_cohorts, load_cohort
from bellwether.arena.weekly.ledgers import list_decision_keys
from bellwether.errors import ConfigError, suggestion
from bellwether.journal import Journal
from bellwether.lake import Lake
from bellwether.tables.arena import AGENTS, DECISIONS, LEDGER, PORTFOLIOS, POSITIONS, REFUSALS, SCORES, TRADES, UNIVERSE
from bellwether.tables.exports import redact_rows
from bellwether.untrusted_text import redact, redact_name


def is_week_decided(context: WeekContext, week: date, at: datetime) -> bool:
    """Return whether the decisions of a live week are complete at an instant, according to the lake.

    Its cohort has started or can no longer start, and every due decision is finished, refused or failed, or its agent was closed.
    """
    if load_cohort(context.records, week) is None and is_start_allowed(at):
        return False
    cohorts = list_deciding_cohorts(context, week, reconstructed=False)
    closed = load_by_subject(context.records, InterventionKind.CLOSE)
    wanted = {key.decision_id for cohort in cohorts for key in list_decision_keys(cohort, week) if key.agent.agent_id not in closed}
    rows = context.lake.slice(DECISIONS, [(week.isoformat(),)], missing="skip").read()
    final = rows.filter(pl.col("state").is_in(sorted(FINAL)))
    return wanted <= set(final["decision_id"])


def has_unexecuted_answer(context: WeekContext, week: date) -> bool:
    """Return whether a decision of the week has an answer but no executed leg, so that another run is needed."""
    rows = context.lake.slice(DECISIONS, [(week.isoformat(),)], missing="skip").read()
    return bool((rows["state"] == str(DecisionState.READ)).any())


def query_week_status(lake: Lake, rules: Mapping[str, Methodology]) -> pl.DataFrame:
    """Return counts of decisions, trades and open positions by week, newest first.

    A week has a row if it has a universe, a cohort or decisions. Completeness of a cohort is as of the latest fact.
    """
    read = stored_tables(lake)
    markets = read(UNIVERSE).group_by("week").agg(markets=pl.len(), reconstructed=pl.col("reconstructed").first())
    cohorts = read(AGENTS).group_by("week").agg(lineup=pl.col("lineup").first(), methodology=pl.col("methodology").first(), agents=pl.len())
    is_answered = pl.col("state").is_in(sorted(ANSWERED))
    decisions = (
        read(DECISIONS)
        .group_by("week")
        .agg(
            decisions=pl.len(),
            finished=(is_answered & (pl.col("action").fill_null("") != "INVALID")).sum(),
            invalid=(is_answered & (pl.col("action") == "INVALID")).sum(),
            unfinished=(~is_answered).sum(),
            cost=pl.col("cost").sum(),
        )
    )
    trades = read(TRADES).group_by("week").agg(trades=pl.len())
    refused = read(REFUSALS).filter(LAST_EXECUTION).group_by("week").agg(refused=pl.len())
    open_positions = (
        read(POSITIONS)
        .filter(pl.col("status") == "open")
        .join(read(AGENTS).select("agent_id", "week"), on="agent_id")
        .group_by("week")
        .agg(open_positions=pl.len())
    )
    counts = dict(read(POSITIONS).filter(pl.col("status") == "open").group_by("agent_id").len().iter_rows())
    complete = find_complete_cohorts(read(AGENTS), read(DECISIONS), counts, rules, newest_fact_time(Facts.load(lake)))
    joined = markets
    for part in (cohorts, decisions, trades, refused, open_positions):
        joined = joined.join(part, on="week", how="full", coalesce=True)
    return joined.with_columns(
        pl.col("trades", "refused", "open_positions", "decisions").fill_null(0),
        complete=pl.col("week").is_in(pl.Series(sorted(complete), dtype=pl.Date()).implode()),
    ).sort("week", descending=True)


def query_cohort(read: TableReader, cohort: date) -> pl.DataFrame:
    """Return the agents of a cohort with their latest portfolios and scores. Raises `ConfigError` for an unknown cohort."""
    agents = read(AGENTS).filter(pl.col("week") == cohort)
    if agents.is_empty():
        raise ConfigError(f"showing the cohort {cohort}: no cohort started in this week; `bellwether arena status` lists them")
    newest = read(PORTFOLIOS).sort("at").group_by("agent_id").last().select("agent_id", "cash", "positions", "total", "profit")
    scored = read(SCORES).group_by("agent_id").agg(scored=pl.len(), brier_stated=pl.col("brier_stated").mean(), won=pl.col("won").mean())
    rows = agents.join(newest, on="agent_id", how="left").join(scored, on="agent_id", how="left")
    legs, spent = read(REFUSALS).filter(LAST_EXECUTION).select("decision_id"), read(DECISIONS).select("decision_id", "agent_id", "cost")
    refused = spent.join(legs, on="decision_id").group_by("agent_id").agg(refused=pl.len())
    costs = spent.group_by("agent_id").agg(cost=pl.when(pl.col("cost").is_null().any()).then(None).otherwise(pl.col("cost").sum()))
    rows = rows.join(refused, on="agent_id", how="left").join(costs, on="agent_id", how="left")
    start = pl.col("initial_cash")
    return rows.select(
        "family",
        "model",
        closed=pl.col("closed_at").is_not_null(),
        cash=pl.col("cash").fill_null(start),
        positions=pl.col("positions").fill_null(0),
        total=pl.col("total").fill_null(start),
        profit=pl.col("profit").fill_null(0),
        refused=pl.col("refused").fill_null(0),
        scored=pl.col("scored").fill_null(0),
        brier_stated="brier_stated",
        won="won",
        cost="cost",
    ).sort("total", "family", descending=[True, False])


def query_agent(read: TableReader, cohort: date, family: str) -> Mapping[str, pl.DataFrame]:
    """Return three tables by name: decisions, positions and cash movements of an agent. Raises `ConfigError` for an unknown agent."""
    agent = AgentKey(cohort, family).agent_id
    is_agent = pl.col("agent_id") == agent
    if read(AGENTS).filter(is_agent).is_empty():
        raise ConfigError(f"showing {agent}: the family is not in the cohort {cohort}; `bellwether arena show {cohort}` lists its families")
    refused = read(REFUSALS).filter(LAST_EXECUTION).group_by("decision_id").agg(refused=pl.len().cast(pl.Int32()))
    decisions = read(DECISIONS).filter(is_agent).join(refused, on="decision_id", how="left").with_columns(pl.col("refused").fill_null(0))
    return {
        "decisions": decisions.select("week", "state", "action", "legs", "refused", "cash", "problem", "reason", "cost").sort("week"),
        "positions": read(POSITIONS)
        .filter(is_agent)
        .select("position_id", "market_id", "side", "status", "shares", "cost", "paid", "realized", "result", "won")
        .sort("position_id"),
        "cash movements": read(LEDGER)
        .filter(is_agent)
        .select("number", "known_at", "kind", "amount", "cash", "market_id", "side")
        .sort("number"),
    }


@dataclass(frozen=True)
class DecisionExplanation:
    """All records of one decision; None if missing. answers: texts in the order of the calls."""

    decision_id: str
    plan: DecisionPlan | None
    answers: tuple[str, ...]
    intent: Intent | None
    executions: tuple[Execution, ...]
    refusals: pl.DataFrame
    trades: pl.DataFrame
    ledger: pl.DataFrame


def explain_decision(
    journal: Journal, read: TableReader, context: WeekContext, decision_id: str, known_at: datetime | None = None
) -> DecisionExplanation:
    """Return prompt, answers, parsed decision, executions and cash movements of a decision (cohort/family/week), without credentials.

    known_at: omit later records; pass the instant of `read`. Raises `ConfigError` for an unknown decision.
    """
    key = parse_decision_key(decision_id)
    records = context.records
    plan, intent = stored_record(records, DecisionPlan, decision_id), stored_record(records, Intent, decision_id)
    executions = [
        execution for execution in load_records(records, Execution, decision_id) if known_at is None or execution.executed_at <= known_at
    ]
    if known_at is not None:
        state = read(DECISIONS).filter(pl.col("decision_id") == decision_id)
        plan = plan if state["prompt_hash"].is_not_null().any() else None
        intent = intent if state["action"].is_not_null().any() else None
    if plan is None and decision_id not in (stored := read(DECISIONS)["decision_id"]):
        when = f" at {known_at.isoformat()}" if known_at else ""
        hint = suggestion(decision_id, stored) if len(stored) else "`bellwether arena run` makes decisions"
        raise ConfigError(f"explaining {decision_id}: no such decision{when}; {hint}")
    trades = read(TRADES).filter(pl.col("trade_id").str.starts_with(f"{decision_id}/"))
    return DecisionExplanation(
        decision_id,
        plan and replace(plan, messages=[{**execution, "content": redact(execution["content"])} for execution in plan.messages]),
        tuple(content for _, _, content in list_messages(journal, None, intent)),
        intent and replace(intent, decision=_redact_decision(intent.decision)),
        tuple(executions),
        redact_rows(REFUSALS.name, read(REFUSALS).filter(pl.col("decision_id") == decision_id)),
        trades,
        read(LEDGER).filter(pl.col("position_id").is_in(trades["position_id"].implode()), pl.col("agent_id") == key.agent.agent_id),
    )


def _redact_decision(decision: Decision) -> Decision:
    """Return the decision with credentials in the model's text replaced."""
    return replace(
        decision,
        bets=tuple(replace(bet, market_id=redact_name(bet.market_id), side=redact_name(bet.side)) for bet in decision.bets),
        sells=tuple(replace(sell, position_id=redact_name(sell.position_id)) for sell in decision.sells),
        reasoning=redact(decision.reasoning),
        message=None if decision.message is None else redact(decision.message),
    )


def parse_agent_key(agent_id: str) -> AgentKey:
    """Parse `cohort/family`. Raises `ConfigError` for any other text."""
    try:
        cohort, family = agent_id.split("/")
        return AgentKey(date.fromisoformat(cohort), family)
    except ValueError:
        raise ConfigError(f"reading {agent_id!r:.120}: not an agent; write COHORT/FAMILY, such as 2026-08-23/calibrated") from None


def parse_decision_key(decision_id: str) -> DecisionKey:
    """Parse `cohort/family/week`. Raises `ConfigError` for any other text."""
    try:
        cohort, family, week = decision_id.split("/")
        return DecisionKey(AgentKey(date.fromisoformat(cohort), family), date.fromisoformat(week))
    except ValueError:
        raise ConfigError(
            f"reading {decision_id!r:.120}: not a decision; write COHORT/FAMILY/WEEK, such as 2026-08-23/calibrated/2026-08-30"
        ) from None
