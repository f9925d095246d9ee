"""Rules of the arena's tables, and checks of the lake for operators: missing cohorts, unfinished decisions, stale prices, contradicted settlements."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import polars as pl

from bellwether.arena.decision import ANSWERED
from bellwether.arena.identity import WEEK, start_of, week_of
from bellwether.arena.market import LISTING
from bellwether.arena.methodology import methodologies
from bellwether.arena.resolution import incidents
from bellwether.arena.states import START_WINDOW, decisions_due
from bellwether.checks.rule import LakeCheck, Observation, Rule, between, concerning, holds, present, unique, words
from bellwether.lake import Lake
from bellwether.registry.model_names import named_as_requested
from bellwether.tables.arena import AGENTS, DECISIONS, EVIDENCE, POSITIONS, PRICES, TRADES
from bellwether.tables.raw import KALSHI_PULLS, POLYMARKET_PULLS
from bellwether.tables.schema import Table

#: A held price without a row for this long was not marked: marks write one at least once a day.
STALE = timedelta(hours=26)
#: Examples that an observation names.
_NAMED = 3


def _rows(lake: Lake, table: Table) -> pl.DataFrame:
    return lake.slice(table, missing="skip").read()


def _observed(found: Sequence[str], what: str, fine: str, subjects: Collection[str] | None = None) -> Observation:
    """The observation of faults in words. subjects: of the faults, where they differ from the words."""
    if not found:
        return Observation(True, fine, {"found": 0})
    named = "; ".join(found[:_NAMED]) if subjects is not None else ", ".join(found[:_NAMED])
    return Observation(
        False, f"{len(found)} {what}: {named}", {"found": len(found)}, tuple(sorted(found if subjects is None else subjects))
    )


def _one_decision_in_the_window(lake: Lake, now: datetime) -> Observation:
    decisions, agents = _rows(lake, DECISIONS), _rows(lake, AGENTS)
    most = max(rules.decision_cohorts for rules in methodologies().values())
    started = agents.select("agent_id", "reconstructed", cohort="week")
    cohorts = agents.select("reconstructed", later="week").unique()
    made = decisions.select("decision_id", "agent_id", "week").join(started, on="agent_id", how="left")
    behind = made.join(cohorts, on="reconstructed").filter(pl.col("later") > pl.col("cohort"), pl.col("later") <= pl.col("week"))
    numbers = behind.group_by("decision_id").agg(pl.len().alias("later"))
    judged = made.join(numbers, on="decision_id", how="left").with_columns(pl.col("later").fill_null(0))
    outside = judged.filter(pl.col("cohort").is_null() | (pl.col("week") < pl.col("cohort")) | (pl.col("later") >= most))
    twice = made.filter(pl.struct("agent_id", "week").is_duplicated())
    found = sorted({*outside["decision_id"], *twice["decision_id"]})
    return _observed(
        found, "decisions are outside the window of their cohort or a second of their week", "every decision is its agent's one of its week"
    )


def _bets_have_trades(lake: Lake, now: datetime) -> Observation:
    asked = _rows(lake, DECISIONS).filter(pl.col("state").is_in(sorted(ANSWERED)), pl.col("action").is_in(["BET", "SELL"]))
    traded = _rows(lake, TRADES).select(decision_id=pl.col("trade_id").str.replace(r"/[^/]*$", "")).unique()
    found = asked.join(traded, on="decision_id", how="anti")["decision_id"].sort().to_list()
    return _observed(found, "decisions to bet or sell have no trade", "every decision to bet or sell has a trade")


def _held_prices_are_fresh(lake: Lake, now: datetime) -> Observation:
    live = _rows(lake, AGENTS).filter(~pl.col("reconstructed")).select("agent_id")
    held = _rows(lake, POSITIONS).filter(pl.col("status") == "open").join(live, on="agent_id", how="semi")
    newest = _rows(lake, PRICES).filter(~pl.col("reconstructed")).group_by("market_id").agg(pl.col("at").max())
    # A market that was bought at the price of its listing is worth its cost until both sides are quoted.
    listed = _rows(lake, TRADES).group_by("market_id").agg((pl.col("quote_source") == LISTING).all().alias("listed")).filter("listed")
    never = listed.join(newest, on="market_id", how="anti")
    waiting = held.group_by("market_id").agg(pl.col("opened_at").min()).join(newest, on="market_id", how="left")
    waiting = waiting.join(never, on="market_id", how="anti")
    seen = pl.max_horizontal("at", "opened_at")
    found = waiting.filter(pl.lit(now) - seen > STALE)["market_id"].sort().to_list()
    return _observed(found, "held markets have had no mark for more than a day", "every held market was marked within a day")


RUNBOOK = (
    LakeCheck(
        "decisions_in_their_window",
        "arena/decisions",
        "An agent decides once a week, and only in the window of its cohort",
        _one_decision_in_the_window,
    ),
    LakeCheck("bets_have_trades", "arena/trades", "A decision to bet or sell has trades", _bets_have_trades),
    LakeCheck("held_prices_are_fresh", "arena/prices", "What live cohorts hold was marked within a day", _held_prices_are_fresh),
)


_UNIVERSE = (
    unique("week", "market_id"),
    holds(
        "prices_fit_outcomes",
        "there is a price, or none, for each outcome",
        pl.col("prices").list.len() == pl.col("outcomes").list.len(),
        blocking=True,
    ),
    holds(
        "one_digest",
        "all markets of a venue are of one frozen universe",
        pl.col("digest") == pl.col("digest").first().over("week", "venue"),
        blocking=True,
    ),
)
_DECISIONS = (
    unique("decision_id"),
    words("known_action", "an action is BET, SELL, HOLD or INVALID", "action", "BET", "SELL", "HOLD", "INVALID", blocking=True),
    holds(
        "invalid_says_why",
        "an INVALID answer names its problem",
        concerning(pl.col("action") == "INVALID", pl.col("problem").is_not_null()),
    ),
    holds(
        "served_model_is_requested",
        "the model that answered is the requested one, or a dated snapshot of it",
        named_as_requested(),
    ),
    holds("is_finished", "the decision is finished, or its week is in progress", pl.col("state").is_in(sorted(ANSWERED))),
)
_TRADES = (
    unique("trade_id"),
    words("known_action", "a trade is a BUY or a SELL", "action", "BUY", "SELL", blocking=True),
    holds("moves_something", "a trade has shares", pl.col("shares") > 0, blocking=True),
    between("price_is_a_price", "a fill price lies between 0 and 1", "price", 0, 1, blocking=True),
    holds(
        "price_was_quoted",
        "the midpoint lies between bid and ask, where both are known",
        concerning(
            pl.col("bid").is_not_null() & pl.col("ask").is_not_null() & pl.col("mid").is_not_null(), pl.col("mid").is_between("bid", "ask")
        ),
    ),
)
_PRICES = (
    unique("market_id", "outcome", "at"),
    between("price_is_a_price", "a mark lies between 0 and 1", "price", 0, 1, blocking=True),
    holds("sources_agree", "the two sources of a mark are close", ~pl.col("disagrees")),
)
_LEADERBOARD = (
    unique("methodology", "reconstructed", "family"),
    holds(
        "profit_is_the_change",
        "profit is total less initial cash",
        pl.col("profit") == pl.col("total") - pl.col("initial_cash"),
        blocking=True,
    ),
    present("costs_are_known", "what every call cost is known", "cost"),
)

RULES: dict[str, tuple[Rule, ...]] = {
    "arena/universe": _UNIVERSE,
    "arena/decisions": _DECISIONS,
    "arena/trades": _TRADES,
    "arena/prices": _PRICES,
    "arena/leaderboard": _LEADERBOARD,
}


def _cohort_of_the_week(lake: Lake, now: datetime) -> Observation:
    week, live = week_of(now), set(_rows(lake, AGENTS).filter(~pl.col("reconstructed"))["week"])
    since = min(
        (manifest.written_at for pulls in (KALSHI_PULLS, POLYMARKET_PULLS) for manifest in lake.manifests(pulls).values()), default=now
    )
    begun = [at for at in (week, week - WEEK) if start_of(at) + START_WINDOW <= now]
    missed = [str(at) for at in begun if at not in live and (at > min(live) if live else start_of(at) >= since)]
    if not live and not missed:
        return Observation(True, "no live cohort was due since the first pull")
    found = f"no live cohort started on {', '.join(missed)}" if missed else f"the cohort of {max(live)} is there"
    return Observation(not missed, found, subjects=tuple(missed))


def _nothing_left(lake: Lake, now: datetime) -> Observation:
    late = max(methodologies().values(), key=lambda one: one.deadline_hours)
    closed = _rows(lake, AGENTS).filter(pl.col("closed_at").is_not_null())
    rows = _rows(lake, DECISIONS).filter(~pl.col("state").is_in(sorted(ANSWERED))).join(closed, on="agent_id", how="anti")
    over = [row for row in rows.iter_rows(named=True) if decisions_due(start_of(row["week"]), late) <= now]
    named = [f"{row['decision_id']} is {row['state']} ({row['reason'] or 'no reason'})" for row in over]
    subjects = {str(row["week"]) for row in over}
    return _observed(named, "decisions past their deadline are not finished", "every decision is finished", subjects)


def _held(lake: Lake) -> pl.DataFrame:
    return _rows(lake, POSITIONS).filter(pl.col("status") == "open").select("market_id").unique()


def _resolved_in_time(lake: Lake, now: datetime) -> Observation:
    closed = _rows(lake, EVIDENCE).filter("closed").join(_held(lake), on="market_id", how="semi")
    since = closed.group_by("market_id").agg(since=pl.col("closed_at").min())
    late = since.filter(pl.lit(now) - pl.col("since") > WEEK)["market_id"].sort().to_list()
    return _observed(late, "markets that are held closed more than a week ago", "no closed market is held for long")


def _listed(lake: Lake, now: datetime) -> Observation:
    looks = _rows(lake, EVIDENCE).filter(pl.col("cancelled_by").is_null()).join(_held(lake), on="market_id", how="semi")
    last = looks.sort("known_at").group_by("market_id").agg(pl.col("missing").last())
    gone = last.filter("missing")["market_id"].sort().to_list()
    return _observed(gone, "markets that are held are missing at the venue", "every market that is held is listed")


def _settlements_stand(lake: Lake, now: datetime) -> Observation:
    from bellwether.arena.frames import observations_of  # the venues' rules: only this check needs them

    seen = observations_of(_rows(lake, EVIDENCE))
    newest = {one.market_id: one.observed_at for one in sorted(seen, key=lambda one: one.observed_at)}
    used, rules = set(_rows(lake, AGENTS)["methodology"]), methodologies()
    found = {
        one.market_id: one.found
        for name in rules
        if name in used
        for one in incidents(seen, rules[name])
        if one.observed_at == newest[one.market_id]
    }
    named = [f"{market_id}: {why}" for market_id, why in sorted(found.items())]
    return _observed(named, "settled markets have evidence against their settlement", "no evidence contradicts a settlement", found)


LAKE_CHECKS = (
    LakeCheck("cohort_of_the_week", "arena/agents", "A live cohort starts every week", _cohort_of_the_week),
    LakeCheck("decisions_are_finished", "arena/decisions", "No decision is left past its deadline", _nothing_left),
    LakeCheck("held_markets_resolve", "arena/positions", "No market that is held has been closed for more than a week", _resolved_in_time),
    LakeCheck("held_markets_are_listed", "arena/positions", "Every market that is held is listed at its venue", _listed),
    LakeCheck("settlements_stand", "arena/settlements", "No newer evidence contradicts a settlement", _settlements_stand),
    *RUNBOOK,
)
