"""Interventions of operators: cancel a market, close an agent, dismiss a release, archive a cohort. Also the review that looks for later releases
of families.

Interventions are records of the journal; arena/evidence, arena/agents and arena/review show them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta

import polars as pl

from bellwether.arena.families import load_families
from bellwether.arena.identity import AgentKey
from bellwether.arena.lineup import load_lineup
from bellwether.arena.records import Intervention, InterventionKind, load_dismissals, record_intervention
from bellwether.arena.review import ReviewFinding, ReviewState, list_offers, review_families
from bellwether.arena.weekly.context import WeekContext, load_cohort
from bellwether.arena.weekly.queries import parse_agent_key
from bellwether.errors import ConfigError
from bellwether.lake import Lake
from bellwether.models import prices
from bellwether.models.registry import models
from bellwether.tables.arena import EVIDENCE, TRADES
from bellwether.tables.arena_lineups import REVIEW


def review_registry(context: WeekContext) -> list[ReviewFinding]:
    """Look for later releases of the registry's families in LiteLLM's price map and the registry. Raises `ConfigError` if price map or registry
    cannot be read.
    """
    registered = models(context.registry)
    offers = list_offers(registered, prices.price_map(), context.now().date())
    lineup = load_lineup(context.lineup, context.registry)
    return review_families(
        load_families(registered, context.registry).values(), offers, registered, lineup.families, load_dismissals(context.records)
    )


def build_review_rows(findings: Sequence[ReviewFinding], at: datetime) -> pl.DataFrame:
    """Build rows of arena/review. at: time of the review."""
    return REVIEW.validate(REVIEW.frame([_review_row(finding, prices.price_map_version(), at) for finding in findings]))


def _review_row(finding: ReviewFinding, version: str, at: datetime) -> dict[str, object]:
    offer = finding.offers[0] if finding.state is ReviewState.UPGRADE else None
    return {
        "family": finding.family.name,
        "title": finding.family.title,
        "competes": finding.competes,
        "model": finding.current,
        "model_id": finding.current_id,
        "state": str(finding.state),
        "offers": [model_offer.model_id for model_offer in finding.offers],
        "input_price": offer and offer.input_price,
        "output_price": offer and offer.output_price,
        "reason": finding.reason,
        "catalogue": version,
        "known_at": at,
    }


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
        raise ConfigError(f"closing {agent_id}: unknown agent; `bellwether arena show {key.cohort}` lists the agents of the cohort")
    return record_intervention(context.records, Intervention(InterventionKind.CLOSE, key.agent_id, by, reason, context.now()))


def dismiss_release(context: WeekContext, family: str, model_id: str, by: str, reason: str) -> Intervention:
    """Stop the review from proposing a model as release of a family. Raises `ConfigError` if the review does not propose the model."""
    _require_text(f"dismissing {model_id}", by, reason)
    offers = {finding.family.name: [offer.model_id for offer in finding.offers] for finding in review_registry(context)}
    if model_id not in offers.get(family, ()) and (family, model_id) not in load_dismissals(context.records):
        proposed = ", ".join(f"{name} {offer}" for name, model_ids in offers.items() for offer in model_ids) or "none"
        raise ConfigError(f"dismissing {model_id:.120} of {family:.64}: the review does not propose it; it proposes {proposed}")
    return record_intervention(context.records, Intervention(InterventionKind.DISMISS, f"{family}/{model_id}", by, reason, context.now()))


def archive_cohort(context: WeekContext, cohort: date, by: str, reason: str) -> Intervention:
    """Archive a cohort: close its agents, and stop its rankings and marks. Its positions are still settled.

    Raises `ConfigError` for an unknown cohort.
    """
    _require_text(f"archiving {cohort}", by, reason)
    stored = load_cohort(context.records, cohort)
    if stored is None:
        raise ConfigError(f"archiving {cohort}: no cohort started in this week; `bellwether arena status` lists them")
    archive = record_intervention(context.records, Intervention(InterventionKind.ARCHIVE, cohort.isoformat(), by, reason, context.now()))
    for family in sorted(stored.members):
        close_agent(context, AgentKey(cohort, family).agent_id, archive.by, f"its cohort was archived: {archive.reason}")
    return archive


def _require_text(action: str, by: str, reason: str) -> None:
    for name, text in (("--by", by), ("--reason", reason)):
        if not text.strip() or not text.isprintable():
            raise ConfigError(f"{action:.120}: {name} is {text!r:.60}; give one line of text")
