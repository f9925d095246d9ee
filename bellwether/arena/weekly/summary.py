"""Summaries of `arena run`: the prompts that it would send, and, after it, what went wrong in the weeks, what they cost, and what is due next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import polars as pl

from bellwether.arena.decision import FINAL, DecisionState
from bellwether.arena.identity import WEEK, decision_of, start_of, week_of
from bellwether.arena.lineup import rule_of
from bellwether.arena.methodology import Methodology
from bellwether.arena.records import FrozenUniverse
from bellwether.arena.results import LAST_EXECUTION
from bellwether.arena.states import decisions_due
from bellwether.arena.weekly.context import (
    DECISION,
    World,
    deciding,
    new_cohort,
    scope_of,
    seen_universe,
    spending_of,
    stored_cohort,
    venues_of,
)
from bellwether.arena.weekly.decisions import planned
from bellwether.arena.weekly.model_calls import Task, model_of, parameters_of
from bellwether.arena.weekly.queries import Rows, stored
from bellwether.forecasting.prompt import Message
from bellwether.models.model import Model
from bellwether.models.prices import most_cost
from bellwether.models.registry import models
from bellwether.tables.arena import AGENTS, DECISIONS, REFUSALS, TRADES

#: Decisions that each line names; the others are counted.
_NAMED = 5


def summary(world: World, weeks: Sequence[date], now: datetime) -> dict[str, Any]:
    """The summary of the weeks of a run as JSON has it. Costs are dollars, null where a part is unknown; times are UTC.

    refused: refused legs by reason. without_trade: decisions to bet or sell without a trade. open, failed: decisions without a final state, and without a
    usable response for good, with the reason. invalid: problem of each answer that could not be used.
    cost: dollars and tokens by family of the weeks. next: what is due, its deadline, and the dollars that the week's budgets leave (null: none is set).
    """
    read = stored(world.lake)
    of_weeks = pl.col("week").is_in(list(weeks))
    decisions, refusals = (read(one).filter(of_weeks) for one in (DECISIONS, REFUSALS))
    traded = {decision_of(trade_id) for trade_id in read(TRADES).filter(of_weeks)["trade_id"]}
    asked = decisions.filter(pl.col("legs") > 0)["decision_id"].sort()
    left = decisions.filter(~pl.col("state").is_in(sorted(FINAL))).sort("week", "place")
    return {
        "legs": int(decisions["legs"].sum()),
        "refused": dict(
            refusals.filter(LAST_EXECUTION).group_by("reason").len().sort("len", "reason", descending=[True, False]).iter_rows()
        ),
        "without_trade": [name for name in asked if name not in traded],
        "open": left.select("decision_id", "state", "reason").to_dicts(),
        "failed": decisions.filter(pl.col("state") == DecisionState.FAILED).select("decision_id", "state", "reason").to_dicts(),
        "invalid": dict(decisions.filter(action="INVALID").sort("decision_id").select("decision_id", "problem").iter_rows()),
        "cost": _costs(world, weeks, decisions, read),
        "next": _next(world, read(DECISIONS).filter(~pl.col("state").is_in(sorted(FINAL))), now),
    }


def _costs(world: World, weeks: Sequence[date], decisions: pl.DataFrame, read: Rows) -> list[dict[str, Any]]:
    """Dollars and tokens by family, the dearest first; of families that sent a request."""
    used = [world.journal.usage("scope", of=scope_of(week)) for week in weeks]
    tokens = pl.concat(used).select(decision_id="scope", input_tokens="prompt_tokens", output_tokens="completion_tokens")
    families = read(AGENTS).select("agent_id", "family")
    rows = decisions.join(tokens, on="decision_id", how="inner").join(families, on="agent_id", how="left")
    costs = rows.group_by("family").agg(
        cost=pl.when(pl.col("cost").is_null().any()).then(None).otherwise(pl.col("cost").sum()).cast(pl.Float64),
        input_tokens=pl.col("input_tokens").sum(),
        output_tokens=pl.col("output_tokens").sum(),
    )
    return costs.sort("cost", "family", descending=[True, False], nulls_last=False).to_dicts()


def _next(world: World, left: pl.DataFrame, now: datetime) -> dict[str, Any]:
    """Open decisions whose deadline is ahead, else the next week's. Its deadline is that of the methodology of new cohorts."""
    rules: Methodology = world.chosen
    present = week_of(now)
    pending = left.filter(pl.col("week") == present).height if now < decisions_due(present, rules) else 0
    week = present if pending else present + WEEK
    whole, models = spending_of(world.journal, week, world.budgets)
    return {
        "week": week,
        "decisions": pending or None,
        "from": now if pending else start_of(week) + DECISION,
        "deadline": decisions_due(week, rules),
        "budget_left": whole.left,
        "budget_left_by_model": {name: one.left for name, one in models.items() if one.left is not None},
    }


def lines_of(found: dict[str, Any]) -> Iterator[str]:
    """The summary in lines, what went wrong first."""
    if found["refused"]:
        reasons = ", ".join(f"{reason} {number}" for reason, number in found["refused"].items())
        yield f"Refused    {sum(found['refused'].values())} of {found['legs']} legs: {reasons}"
    if found["without_trade"]:
        yield f"No trade   {_names(found['without_trade'])}"
    for title in ("open", "failed"):
        for reason, names in _by_reason(found[title]).items():
            yield f"{title.capitalize():10} {_names(names)}: {reason}"
    if found["invalid"]:
        yield f"Invalid    {_names([f'{name} ({problem})' for name, problem in found['invalid'].items()])}"
    if not any(found[name] for name in ("refused", "open", "failed", "invalid")):
        yield f"All done   {found['legs']} legs executed, no decision open"
    if found["cost"]:
        yield "Cost       " + ", ".join(map(_cost, found["cost"]))
    due = found["next"]
    what = f"{due['decisions']} open decisions of {due['week']}" if due["decisions"] else f"week {due['week']}, from {_time(due['from'])}"
    money = "no budget of the week is set" if due["budget_left"] is None else f"${due['budget_left']:.2f} of its budget left"
    by_model = "".join(f"; {name} ${left:.2f}" for name, left in due["budget_left_by_model"].items())
    yield f"Next       {what}; deadline {_time(due['deadline'])}; {money}{by_model}"


def _by_reason(decisions: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in decisions:
        found.setdefault(f"{one['state']}: {one['reason'] or 'no reason stored'}", []).append(one["decision_id"])
    return found


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return f"{', '.join(names[:_NAMED])}{f' and {more} more' if more > 0 else ''}"


def _cost(one: dict[str, Any]) -> str:
    cost = "unknown" if one["cost"] is None else f"${one['cost']:.4f}"
    return f"{one['family']} {cost} ({one['input_tokens'] + one['output_tokens']:,} tokens)"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


#: Characters that a token has on average in English; providers count differently.
CHARACTERS = 4


@dataclass(frozen=True)
class Prompted:
    """The prompt that a decision would send. tokens: of the prompt, estimated. most_cost: micro-dollars that the call may cost at most; None when no price is known.
    stored: the prompt is stored already, and a run would not make another."""

    decision_id: str
    member: str
    tokens: int
    most_cost: int | None
    stored: bool
    messages: Sequence[Message]


def preview(world: World, week: date) -> tuple[list[FrozenUniverse], list[Prompted]]:
    """The universes of a week as a run would take them now, that of its own cohort's venue first, and every prompt in the order in which it would be sent.

    Nothing is stored, and no request is sent.
    """
    known, universes, prompts = models(world.registry), list[FrozenUniverse](), list[Prompted]()
    for venue in venues_of(world, week):
        universe = seen_universe(world, week, venue)
        cohorts = deciding(world, week, reconstructed=universe.reconstructed, venue=venue)
        if not universes and stored_cohort(world.records, week) is None:
            cohorts = [new_cohort(world, week, reconstructed=universe.reconstructed), *cohorts]
        universes.append(universe)
        prompts += [_prompted(world, task, known) for task in planned(world, week, universe, cohorts)]
    return universes, prompts


def _prompted(world: World, task: Task, known: Mapping[str, Model]) -> Prompted:
    asked = list(task.messages())
    name = task.key.decision_id
    stored = world.records.stored("prompt", name) is not None
    tokens = -(-sum(len(one["content"]) for one in asked) // CHARACTERS)
    if rule_of(task.model) is not None:
        return Prompted(name, task.model, 0, 0, stored, asked)
    model = model_of(task.model, task.methodology, known, task.terms)
    return Prompted(
        name,
        task.model,
        tokens,
        most_cost(model, asked, {**model.request_parameters, **parameters_of(model, task.methodology)}),
        stored,
        asked,
    )
