"""Summaries of `arena run`: the prompts that it would send, and, after it, what went wrong in the weeks, what they cost, and what is due next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import polars as pl

from bellwether.arena.decision import FINAL, DecisionState
from bellwether.arena.identity import WEEK, decision_of_trade, week_of, week_start
from bellwether.arena.lifecycle import decision_deadline
from bellwether.arena.lineup import rule_name
from bellwether.arena.methodology import Methodology
from bellwether.arena.records import FrozenUniverse
from bellwether.arena.results import LAST_EXECUTION
from bellwether.arena.weekly.context import (
    DECISION,
    WeekContext,
    build_cohort,
    deciding_cohorts,
    list_venues,
    load_cohort,
    preview_universe,
    week_scope,
    week_spending,
)
from bellwether.arena.weekly.decisions import plan_tasks
from bellwether.arena.weekly.model_calls import Task, call_parameters, configure_model
from bellwether.arena.weekly.queries import TableReader, stored_tables
from bellwether.forecasting.prompt import Message
from bellwether.models.model import Model
from bellwether.models.prices import most_cost
from bellwether.models.registry import models
from bellwether.tables.arena import AGENTS, DECISIONS, REFUSALS, TRADES

#: Decisions that each line names; the others are counted.
_NAMED = 5


def summarise_run(world: WeekContext, weeks: Sequence[date], now: datetime) -> dict[str, Any]:
    """The summary of the weeks of a run as JSON has it. Costs are dollars, null where a part is unknown; times are UTC.

    refused: refused legs by reason. without_trade: decisions to bet or sell without a trade. open, failed: decisions without a final state, and without a
    usable response for good, with the reason. invalid: problem of each answer that could not be used.
    cost: dollars and tokens by family of the weeks. next: what is due, its deadline, and the dollars that the week's budgets leave (null: none is set).
    """
    read = stored_tables(world.lake)
    of_weeks = pl.col("week").is_in(list(weeks))
    decisions, refusals = (read(one).filter(of_weeks) for one in (DECISIONS, REFUSALS))
    traded = {decision_of_trade(trade_id) for trade_id in read(TRADES).filter(of_weeks)["trade_id"]}
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
        "cost": _costs_by_family(world, weeks, decisions, read),
        "next": _next_deadline(world, read(DECISIONS).filter(~pl.col("state").is_in(sorted(FINAL))), now),
    }


def _costs_by_family(world: WeekContext, weeks: Sequence[date], decisions: pl.DataFrame, read: TableReader) -> list[dict[str, Any]]:
    """Dollars and tokens by family, the dearest first; of families that sent a request."""
    used = [world.journal.usage("scope", of=week_scope(week)) for week in weeks]
    tokens = pl.concat(used).select(decision_id="scope", input_tokens="prompt_tokens", output_tokens="completion_tokens")
    families = read(AGENTS).select("agent_id", "family")
    rows = decisions.join(tokens, on="decision_id", how="inner").join(families, on="agent_id", how="left")
    costs = rows.group_by("family").agg(
        cost=pl.when(pl.col("cost").is_null().any()).then(None).otherwise(pl.col("cost").sum()).cast(pl.Float64),
        input_tokens=pl.col("input_tokens").sum(),
        output_tokens=pl.col("output_tokens").sum(),
    )
    return costs.sort("cost", "family", descending=[True, False], nulls_last=False).to_dicts()


def _next_deadline(world: WeekContext, left: pl.DataFrame, now: datetime) -> dict[str, Any]:
    """Open decisions whose deadline is ahead, else the next week's. Its deadline is that of the methodology of new cohorts."""
    rules: Methodology = world.chosen
    present = week_of(now)
    pending = left.filter(pl.col("week") == present).height if now < decision_deadline(present, rules) else 0
    week = present if pending else present + WEEK
    whole, models = week_spending(world.journal, week, world.budgets)
    return {
        "week": week,
        "decisions": pending or None,
        "from": now if pending else week_start(week) + DECISION,
        "deadline": decision_deadline(week, rules),
        "budget_left": whole.left,
        "budget_left_by_model": {name: one.left for name, one in models.items() if one.left is not None},
    }


def summary_lines(found: dict[str, Any]) -> Iterator[str]:
    """The summary in lines, what went wrong first."""
    if found["refused"]:
        reasons = ", ".join(f"{reason} {number}" for reason, number in found["refused"].items())
        yield f"Refused    {sum(found['refused'].values())} of {found['legs']} legs: {reasons}"
    if found["without_trade"]:
        yield f"No trade   {_format_names(found['without_trade'])}"
    for title in ("open", "failed"):
        for reason, names in _group_by_reason(found[title]).items():
            yield f"{title.capitalize():10} {_format_names(names)}: {reason}"
    if found["invalid"]:
        yield f"Invalid    {_format_names([f'{name} ({problem})' for name, problem in found['invalid'].items()])}"
    if not any(found[name] for name in ("refused", "open", "failed", "invalid")):
        yield f"All done   {found['legs']} legs executed, no decision open"
    if found["cost"]:
        yield "Cost       " + ", ".join(map(_format_cost, found["cost"]))
    due = found["next"]
    what = (
        f"{due['decisions']} open decisions of {due['week']}"
        if due["decisions"]
        else f"week {due['week']}, from {_format_time(due['from'])}"
    )
    money = "no budget of the week is set" if due["budget_left"] is None else f"${due['budget_left']:.2f} of its budget left"
    by_model = "".join(f"; {name} ${left:.2f}" for name, left in due["budget_left_by_model"].items())
    yield f"Next       {what}; deadline {_format_time(due['deadline'])}; {money}{by_model}"


def _group_by_reason(decisions: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in decisions:
        found.setdefault(f"{one['state']}: {one['reason'] or 'no reason stored'}", []).append(one["decision_id"])
    return found


def _format_names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return f"{', '.join(names[:_NAMED])}{f' and {more} more' if more > 0 else ''}"


def _format_cost(one: dict[str, Any]) -> str:
    cost = "unknown" if one["cost"] is None else f"${one['cost']:.4f}"
    return f"{one['family']} {cost} ({one['input_tokens'] + one['output_tokens']:,} tokens)"


def _format_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


#: Characters that a token has on average in English; providers count differently.
CHARACTERS = 4


@dataclass(frozen=True)
class PromptPreview:
    """The prompt that a decision would send. tokens: of the prompt, estimated. most_cost: micro-dollars that the call may cost at most; None when no price is known.
    stored: the prompt is stored already, and a run would not make another."""

    decision_id: str
    member: str
    tokens: int
    most_cost: int | None
    stored: bool
    messages: Sequence[Message]


def preview_week(world: WeekContext, week: date) -> tuple[list[FrozenUniverse], list[PromptPreview]]:
    """The universes of a week as a run would take them now, that of its own cohort's venue first, and every prompt in the order in which it would be sent.

    Nothing is stored, and no request is sent.
    """
    known, universes, prompts = models(world.registry), list[FrozenUniverse](), list[PromptPreview]()
    for venue in list_venues(world, week):
        universe = preview_universe(world, week, venue)
        cohorts = deciding_cohorts(world, week, reconstructed=universe.reconstructed, venue=venue)
        if not universes and load_cohort(world.records, week) is None:
            cohorts = [build_cohort(world, week, reconstructed=universe.reconstructed), *cohorts]
        universes.append(universe)
        prompts += [_preview_task(world, task, known) for task in plan_tasks(world, week, universe, cohorts)]
    return universes, prompts


def _preview_task(world: WeekContext, task: Task, known: Mapping[str, Model]) -> PromptPreview:
    asked = list(task.messages())
    name = task.key.decision_id
    stored = world.records.stored("prompt", name) is not None
    tokens = -(-sum(len(one["content"]) for one in asked) // CHARACTERS)
    if rule_name(task.model) is not None:
        return PromptPreview(name, task.model, 0, 0, stored, asked)
    model = configure_model(task.model, task.methodology, known, task.terms)
    return PromptPreview(
        name,
        task.model,
        tokens,
        most_cost(model, asked, {**model.request_parameters, **call_parameters(model, task.methodology)}),
        stored,
        asked,
    )
