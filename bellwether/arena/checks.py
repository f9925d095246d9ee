"""Rules that each table of the arena must satisfy, and checks across tables in the lake: missing cohorts, unfinished decisions, stale prices,
contradicted settlements.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import polars as pl

from bellwether.arena.decision import ANSWERED
from bellwether.arena.identity import WEEK, week_of, week_start
from bellwether.arena.lifecycle import START_WINDOW, decision_deadline
from bellwether.arena.methodology import methodologies
from bellwether.arena.resolution import find_incidents
from bellwether.checks.rule import LakeCheck, Observation, Rule, applies_to, holds, present, unique, words
from bellwether.lake import Lake
from bellwether.registry.model_names import named_as_requested
from bellwether.tables.arena import AGENTS, DECISIONS, EVIDENCE, POSITIONS, PRICES, REFUSALS, TRADES
from bellwether.tables.raw import KALSHI_PULLS, POLYMARKET_PULLS
from bellwether.tables.schema import Table

#: Maximum age of the last price of a held market; marks store one at least once a day.
STALE = timedelta(hours=26)
#: Number of examples in the text of an observation.
_NAMED = 3


def _read_rows(lake: Lake, table: Table) -> pl.DataFrame:
    return lake.slice(table, missing="skip").read()


def _observation(faults: Sequence[str], problem: str, fine: str, subjects: Collection[str] | None = None) -> Observation:
    """Return the result of a check: passed with the text `fine` if there are no faults, else failed with their number and first examples.
    problem: what is wrong with the faults. subjects: identifiers of the failed objects; default: the faults themselves.
    """
    if not faults:
        return Observation(True, fine, {"found": 0})
    named = "; ".join(faults[:_NAMED]) if subjects is not None else ", ".join(faults[:_NAMED])
    return Observation(
        False, f"{len(faults)} {problem}: {named}", {"found": len(faults)}, tuple(sorted(faults if subjects is None else subjects))
    )


def _check_decision_window(lake: Lake, now: datetime) -> Observation:
    decisions, agents = _read_rows(lake, DECISIONS), _read_rows(lake, AGENTS)
    window = max(rules.decision_cohorts for rules in methodologies().values())
    started = agents.select("agent_id", "reconstructed", cohort="week")
    cohorts = agents.select("reconstructed", later="week").unique()
    dated = decisions.select("decision_id", "agent_id", "week").join(started, on="agent_id", how="left")
    later_cohorts = dated.join(cohorts, on="reconstructed").filter(pl.col("later") > pl.col("cohort"), pl.col("later") <= pl.col("week"))
    numbers = later_cohorts.group_by("decision_id").agg(pl.len().alias("later"))
    counted = dated.join(numbers, on="decision_id", how="left").with_columns(pl.col("later").fill_null(0))
    outside = counted.filter(pl.col("cohort").is_null() | (pl.col("week") < pl.col("cohort")) | (pl.col("later") >= window))
    twice = dated.filter(pl.struct("agent_id", "week").is_duplicated())
    faults = sorted({*outside["decision_id"], *twice["decision_id"]})
    return _observation(
        faults, "decisions are outside the window of their cohort, or are the second of their week", "every agent has one decision per week"
    )


def _check_bets(lake: Lake, now: datetime) -> Observation:
    requested = _read_rows(lake, DECISIONS).filter(pl.col("state").is_in(sorted(ANSWERED)), pl.col("action").is_in(["BET", "SELL"]))
    traded = _read_rows(lake, TRADES).select(decision_id=pl.col("trade_id").str.replace(r"/[^/]*$", "")).unique()
    refused = _read_rows(lake, REFUSALS).select("decision_id").unique()
    unexecuted = requested.join(pl.concat([traded, refused]), on="decision_id", how="anti")["decision_id"].sort().to_list()
    return _observation(
        unexecuted, "BET or SELL decisions have neither a trade nor a refused leg", "every BET or SELL decision was executed or refused"
    )


def _check_held_prices(lake: Lake, now: datetime) -> Observation:
    live = _read_rows(lake, AGENTS).filter(~pl.col("reconstructed")).select("agent_id")
    positions = _read_rows(lake, POSITIONS).filter(pl.col("status") == "open").join(live, on="agent_id", how="semi")
    newest = _read_rows(lake, PRICES).filter(~pl.col("reconstructed")).group_by("market_id").agg(pl.col("at").max())
    ages = positions.group_by("market_id").agg(pl.col("opened_at").min()).join(newest, on="market_id", how="left")
    last_seen = pl.max_horizontal("at", "opened_at")
    stale = ages.filter(pl.lit(now) - last_seen > STALE)["market_id"].sort().to_list()
    return _observation(stale, "held markets were not marked for more than a day", "every held market was marked within a day")


RUNBOOK = (
    LakeCheck(
        "decisions_in_their_window",
        "arena/decisions",
        "An agent decides once per week, within the window of its cohort",
        _check_decision_window,
    ),
    LakeCheck("bets_have_trades", "arena/trades", "Every BET or SELL decision has a trade or a refused leg", _check_bets),
    LakeCheck("held_prices_are_fresh", "arena/prices", "Markets held by live cohorts were marked within a day", _check_held_prices),
)


RULES: dict[str, tuple[Rule, ...]] = {
    "arena/universe": (
        unique("week", "market_id"),
        holds(
            "prices_fit_outcomes",
            "each outcome has a price or null",
            pl.col("prices").list.len() == pl.col("outcomes").list.len(),
            blocking=True,
        ),
        holds(
            "one_digest",
            "all markets of a week and venue have the digest of one frozen universe",
            pl.col("digest") == pl.col("digest").first().over("week", "venue"),
            blocking=True,
        ),
    ),
    "arena/decisions": (
        unique("decision_id"),
        words("known_action", "the action is BET, SELL, HOLD or INVALID", "action", "BET", "SELL", "HOLD", "INVALID", blocking=True),
        holds(
            "invalid_says_why",
            "an INVALID answer states its problem",
            applies_to(pl.col("action") == "INVALID", pl.col("problem").is_not_null()),
        ),
        holds("served_model_is_requested", "the served model is the requested model or a dated snapshot of it", named_as_requested()),
        holds("is_finished", "the decision is finished, or its week is in progress", pl.col("state").is_in(sorted(ANSWERED))),
    ),
    "arena/trades": (
        unique("trade_id"),
        words("known_action", "the action is BUY or SELL", "action", "BUY", "SELL", blocking=True),
        holds("moves_something", "a trade has a positive number of shares", pl.col("shares") > 0, blocking=True),
        holds("price_is_a_price", "the fill price is between 0 and 1", pl.col("price").is_between(0, 1), blocking=True),
        holds(
            "price_was_quoted",
            "the midpoint is between bid and ask if both are known",
            applies_to(
                pl.col("bid").is_not_null() & pl.col("ask").is_not_null() & pl.col("mid").is_not_null(),
                pl.col("mid").is_between("bid", "ask"),
            ),
        ),
    ),
    "arena/prices": (
        unique("market_id", "outcome", "at"),
        holds("price_is_a_price", "the price is between 0 and 1", pl.col("price").is_between(0, 1), blocking=True),
        holds("sources_agree", "the two sources of a price agree", ~pl.col("disagrees")),
    ),
    "arena/leaderboard": (
        unique("methodology", "reconstructed", "family"),
        holds(
            "profit_is_the_change",
            "profit is total minus initial cash",
            pl.col("profit") == pl.col("total") - pl.col("initial_cash"),
            blocking=True,
        ),
        present("costs_are_known", "the cost of every call is known", "cost"),
    ),
}


def _check_cohort_start(lake: Lake, now: datetime) -> Observation:
    week, live = week_of(now), set(_read_rows(lake, AGENTS).filter(~pl.col("reconstructed"))["week"])
    since = min(
        (manifest.written_at for pulls in (KALSHI_PULLS, POLYMARKET_PULLS) for manifest in lake.manifests(pulls).values()), default=now
    )
    started = [at for at in (week, week - WEEK) if week_start(at) + START_WINDOW <= now]
    missed = [str(at) for at in started if at not in live and (at > min(live) if live else week_start(at) >= since)]
    if not live and not missed:
        return Observation(True, "no live cohort has been due since the first pull")
    message = f"no live cohort started on {', '.join(missed)}" if missed else f"the cohort of {max(live)} has started"
    return Observation(not missed, message, subjects=tuple(missed))


def _check_unfinished_decisions(lake: Lake, now: datetime) -> Observation:
    late = max(methodologies().values(), key=lambda rules: rules.deadline_hours)
    closed = _read_rows(lake, AGENTS).filter(pl.col("closed_at").is_not_null())
    rows = _read_rows(lake, DECISIONS).filter(~pl.col("state").is_in(sorted(ANSWERED))).join(closed, on="agent_id", how="anti")
    unfinished = [row for row in rows.iter_rows(named=True) if decision_deadline(week_start(row["week"]), late) <= now]
    faults = [f"{row['decision_id']} is {row['state']} ({row['reason'] or 'no reason'})" for row in unfinished]
    subjects = {str(row["week"]) for row in unfinished}
    return _observation(faults, "decisions are unfinished after their deadline", "every decision is finished", subjects)


def _read_held_markets(lake: Lake) -> pl.DataFrame:
    return _read_rows(lake, POSITIONS).filter(pl.col("status") == "open").select("market_id").unique()


def _check_resolution_delay(lake: Lake, now: datetime) -> Observation:
    closed = _read_rows(lake, EVIDENCE).filter("closed").join(_read_held_markets(lake), on="market_id", how="semi")
    since = closed.group_by("market_id").agg(since=pl.col("closed_at").min())
    late = since.filter(pl.lit(now) - pl.col("since") > WEEK)["market_id"].sort().to_list()
    return _observation(late, "held markets closed more than a week ago and are unresolved", "no held market closed more than a week ago")


def _check_listings(lake: Lake, now: datetime) -> Observation:
    observations = (
        _read_rows(lake, EVIDENCE).filter(pl.col("cancelled_by").is_null()).join(_read_held_markets(lake), on="market_id", how="semi")
    )
    last = observations.sort("known_at").group_by("market_id").agg(pl.col("missing").last())
    missing = last.filter("missing")["market_id"].sort().to_list()
    return _observation(missing, "held markets are missing at the venue", "every held market is listed at its venue")


def _check_settlements(lake: Lake, now: datetime) -> Observation:
    from bellwether.arena.frames import observations_from_rows  # the venues' rules: only this check needs them

    observations = observations_from_rows(_read_rows(lake, EVIDENCE))
    newest = {item.market_id: item.observed_at for item in sorted(observations, key=lambda item: item.observed_at)}
    in_use, rules = set(_read_rows(lake, AGENTS)["methodology"]), methodologies()
    contradictions = {
        item.market_id: item.found
        for name in rules
        if name in in_use
        for item in find_incidents(observations, rules[name])
        if item.observed_at == newest[item.market_id]
    }
    faults = [f"{market_id}: {fault}" for market_id, fault in sorted(contradictions.items())]
    return _observation(
        faults, "settled markets have evidence that contradicts their settlement", "no evidence contradicts a settlement", contradictions
    )


LAKE_CHECKS = (
    LakeCheck("cohort_of_the_week", "arena/agents", "A live cohort starts every week", _check_cohort_start),
    LakeCheck("decisions_are_finished", "arena/decisions", "No decision is unfinished after its deadline", _check_unfinished_decisions),
    LakeCheck("held_markets_resolve", "arena/positions", "No held market closed more than a week ago", _check_resolution_delay),
    LakeCheck("held_markets_are_listed", "arena/positions", "Every held market is listed at its venue", _check_listings),
    LakeCheck("settlements_stand", "arena/settlements", "No newer evidence contradicts a settlement", _check_settlements),
    *RUNBOOK,
)
