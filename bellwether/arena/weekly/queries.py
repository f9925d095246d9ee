"""Queries of the arena's tables and journal: status of weeks, accounts of agents, and explanations of decisions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime

import polars as pl

from bellwether.arena.as_known import TableReader
from bellwether.arena.decision import FINAL, DecisionState
from bellwether.arena.identity import AgentKey, DecisionKey
from bellwether.arena.lifecycle import is_start_allowed
from bellwether.arena.records import InterventionKind, load_by_subject
from bellwether.arena.results import LAST_EXECUTION
from bellwether.arena.weekly.context import WeekContext, list_deciding_cohorts, load_cohort
from bellwether.arena.weekly.ledgers import list_decision_keys
from bellwether.errors import ConfigError, suggestion
from bellwether.tables.arena import AGENTS, DECISIONS, LEDGER, MESSAGES, PORTFOLIOS, POSITIONS, REFUSALS, SCORES, TRADES
from bellwether.tables.exports import redact_rows


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


def suggest_cohorts(cohort: date, agents: pl.DataFrame) -> str:
    """Return the end of a message about an unknown cohort. agents: rows of arena/agents."""
    return suggestion(str(cohort), map(str, agents["week"].unique().sort())) if agents.height else "`bellwether arena run` starts one"


def query_cohort(read: TableReader, cohort: date) -> pl.DataFrame:
    """Return the agents of a cohort with their latest portfolios and scores. Raises `ConfigError` for an unknown cohort."""
    agents = read(AGENTS).filter(pl.col("week") == cohort)
    if agents.is_empty():
        raise ConfigError(f"showing the cohort {cohort}: no cohort started in this week; {suggest_cohorts(cohort, read(AGENTS))}")
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
        raise ConfigError(
            f"showing {agent}: the family is not in the cohort {cohort}; `bellwether arena explain {cohort}` lists its families"
        )
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


def explain_decision(read: TableReader, decision_id: str) -> dict[str, pl.DataFrame]:
    """Return tables by name: a decision (cohort/family/week), its messages, refused legs and trades, and the cash movements of its positions.

    Raises `ConfigError` for an unknown decision, suggesting known ones.
    """
    key, is_of_decision = parse_decision_key(decision_id), pl.col("decision_id") == decision_id
    decision = read(DECISIONS).filter(is_of_decision)
    if decision.is_empty():
        stored = read(DECISIONS)["decision_id"]
        hint = suggestion(decision_id, stored) if len(stored) else "`bellwether arena run` makes decisions"
        raise ConfigError(f"explaining {decision_id}: no such decision; {hint}")
    trades = read(TRADES).filter(pl.col("trade_id").str.starts_with(f"{decision_id}/"))
    is_own = pl.col("position_id").is_in(trades["position_id"].implode()) & (pl.col("agent_id") == key.agent.agent_id)
    return {
        "decision": redact_rows(DECISIONS.name, decision),
        "messages": read(MESSAGES).filter(is_of_decision).sort("number"),
        "refusals": redact_rows(REFUSALS.name, read(REFUSALS).filter(is_of_decision)),
        "trades": trades,
        "cash": read(LEDGER).filter(is_own),
    }


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
