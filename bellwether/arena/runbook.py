"""What an operator would look up after a week: decisions outside their window, bets without trades, held prices that nobody has looked at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import polars as pl

from bellwether.arena.decision_state import ANSWERED
from bellwether.arena.market import LISTING
from bellwether.arena.methodology import methodologies
from bellwether.checks.rule import LakeCheck, Observation
from bellwether.lake import Lake
from bellwether.tables.arena import AGENTS, DECISIONS, POSITIONS, PRICES, TRADES
from bellwether.tables.schema import Table

#: Every held price has a row at least once a day; so much later nobody has looked.
STALE = timedelta(hours=26)
#: Examples that an observation names.
_NAMED = 3


def _rows(lake: Lake, table: Table) -> pl.DataFrame:
    return lake.slice(table, missing="skip").read()


def _observed(found: Sequence[str], what: str, fine: str) -> Observation:
    if not found:
        return Observation(True, fine, {"found": 0})
    return Observation(False, f"{len(found)} {what}: {', '.join(found[:_NAMED])}", {"found": len(found)}, tuple(found))


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
