"""Interventions of operators: cancel a market, close an agent, archive a cohort.

Interventions are records of the journal; arena/evidence and arena/agents show them.
"""

from __future__ import annotations

from datetime import date, timedelta

import polars as pl

from bellwether.arena.identity import AgentKey
from bellwether.arena.records import Intervention, InterventionKind, record_intervention
from bellwether.arena.weekly.context import WeekContext, load_cohort
from bellwether.arena.weekly.queries import parse_agent_key, suggest_cohorts
from bellwether.errors import ConfigError
from bellwether.lake import Lake
from bellwether.tables.arena import AGENTS, EVIDENCE, TRADES


def cancel_market(context: WeekContext, market_id: str, by: str, reason: str) -> Intervention:
    """Cancel a market for all cohorts: its bets are refunded. Raises `ConfigError` for a market without bets."""
    _require_text(f"cancelling {market_id}", by, reason)
    require_bets(context.lake, market_id, "cancelling")
    observed = context.lake.slice(EVIDENCE, missing="skip").query(
        lambda rows: rows.filter(pl.col("market_id") == market_id).select("known_at")
    )
    at, used_times = context.now(), set(observed["known_at"])
    while at in used_times:
        # Take the next microsecond, so that an observation of the same instant is kept.
        at += timedelta(microseconds=1)
    return record_intervention(context.records, Intervention(InterventionKind.CANCEL, market_id, by, reason, at))


def require_bets(lake: Lake, market_id: str, doing: str) -> None:
    """Raise `ConfigError` for a market without bets. doing: name of the action, for the message."""
    if not lake.slice(TRADES, missing="skip").query(lambda rows: rows.filter(pl.col("market_id") == market_id).select(pl.len())).item():
        raise ConfigError(f"{doing} {market_id:.120}: no agent has bet on this market; arena.trades lists the markets with bets")


def close_agent(context: WeekContext, agent_id: str, by: str, reason: str) -> Intervention:
    """Stop the decisions of an agent (cohort/family). Its positions stay open until settlement.

    Raises `ConfigError` for an unknown agent.
    """
    _require_text(f"closing {agent_id}", by, reason)
    key = parse_agent_key(agent_id)
    cohort = load_cohort(context.records, key.cohort)
    if cohort is None or key.family not in cohort.members:
        raise ConfigError(f"closing {agent_id}: unknown agent; `bellwether arena explain {key.cohort}` lists the agents of the cohort")
    return record_intervention(context.records, Intervention(InterventionKind.CLOSE, key.agent_id, by, reason, context.now()))


def archive_cohort(context: WeekContext, cohort: date, by: str, reason: str) -> Intervention:
    """Archive a cohort: close its agents, and stop its rankings and marks. Its positions are still settled.

    Raises `ConfigError` for an unknown cohort.
    """
    _require_text(f"archiving {cohort}", by, reason)
    stored = load_cohort(context.records, cohort)
    if stored is None:
        agents = context.lake.slice(AGENTS, missing="skip").read()
        raise ConfigError(f"archiving {cohort}: no cohort started in this week; {suggest_cohorts(cohort, agents)}")
    archive = record_intervention(context.records, Intervention(InterventionKind.ARCHIVE, cohort.isoformat(), by, reason, context.now()))
    for family in sorted(stored.members):
        close_agent(context, AgentKey(cohort, family).agent_id, archive.by, f"its cohort was archived: {archive.reason}")
    return archive


def _require_text(action: str, by: str, reason: str) -> None:
    for name, text in (("your login name (LOGNAME)", by), ("--reason", reason)):
        if not text.strip() or not text.isprintable():
            raise ConfigError(f"{action:.120}: {name} is {text!r:.60}; give one line of text")
