"""What operators do: cancel a market, close an agent. Both are recorded in the journal, whence the rows of arena/evidence and arena/agents have them."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from bellwether.arena.interventions import Intervention, Kind, record
from bellwether.arena.weekly.means import World, stored_cohort
from bellwether.arena.weekly.reading import agent_key
from bellwether.errors import ConfigError
from bellwether.tables.arena import EVIDENCE, TRADES


def cancel_market(world: World, market_id: str, by: str, reason: str) -> Intervention:
    """Cancel a market for all cohorts, from now on. Raises `ConfigError` for a market that no agent has bet on."""
    _require_words(f"cancelling {market_id}", by, reason)
    traded = world.lake.slice(TRADES, missing="skip").scan().filter(pl.col("market_id") == market_id).select(pl.len()).collect().item()
    if not traded:
        raise ConfigError(f"cancelling {market_id:.120}: no agent has bet on a market of this id; arena.trades lists those that have bets")
    looks = world.lake.slice(EVIDENCE, missing="skip").scan().filter(pl.col("market_id") == market_id).select("known_at").collect()
    at, taken = world.now(), set(looks["known_at"])
    while at in taken:
        # A look of the same instant is another fact, and stays.
        at += timedelta(microseconds=1)
    return record(world.steps, Intervention(Kind.CANCEL, market_id, by, reason, at))


def close_agent(world: World, agent_id: str, by: str, reason: str) -> Intervention:
    """Close an agent (cohort/family), from now on: it decides no more; its positions stay until they are settled.

    Raises `ConfigError` for an agent that there is not.
    """
    _require_words(f"closing {agent_id}", by, reason)
    key = agent_key(agent_id)
    cohort = stored_cohort(world.steps, key.cohort)
    if cohort is None or key.family not in cohort.members:
        raise ConfigError(f"closing {agent_id}: there is no such agent; `bellwether arena show {key.cohort}` lists those of the cohort")
    return record(world.steps, Intervention(Kind.CLOSE, key.agent_id, by, reason, world.now()))


def _require_words(what: str, by: str, reason: str) -> None:
    for name, text in (("--by", by), ("--reason", reason)):
        if not text.strip() or not text.isprintable():
            raise ConfigError(f"{what:.120}: {name} is {text!r:.60}; give one line of text")
