"""Summaries of `arena run`: preview of its prompts before a run; problems, costs and the next deadline after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import polars as pl

from bellwether.arena.as_known import stored_tables
from bellwether.arena.decision import FINAL, DecisionState
from bellwether.arena.identity import WEEK, week_of, week_start
from bellwether.arena.lifecycle import decision_deadline
from bellwether.arena.lineup import rule_name
from bellwether.arena.methodology import Methodology
from bellwether.arena.records import FrozenUniverse
from bellwether.arena.results import LAST_EXECUTION
from bellwether.arena.weekly.context import (
    DECISION,
    WeekContext,
    build_cohort,
    compute_week_spending,
    list_deciding_cohorts,
    list_venues,
    load_cohort,
    preview_universe,
)
from bellwether.arena.weekly.decisions import plan_tasks
from bellwether.arena.weekly.model_calls import Task, call_parameters, configure_model
from bellwether.forecasting.prompt import Message
from bellwether.models.model import Model
from bellwether.models.prices import compute_max_cost
from bellwether.models.registry import models
from bellwether.tables.arena import DECISIONS, REFUSALS

#: Maximum number of decisions named in a line.
_NAMED = 5


def summarise_run(context: WeekContext, weeks: Sequence[date], now: datetime) -> dict[str, Any]:
    """Summarise the weeks of a run for JSON. Costs are dollars, null if partly unknown; times are UTC.

    refused: refused legs by reason. open: decisions without a final state. failed: decisions that finally have no usable response. Both with
    the reason. invalid: problems of unusable answers. cost: of all decisions, in dollars. next: next deadline, what is due, and the remaining
    budget in dollars (null without a budget).
    """
    read = stored_tables(context.lake)
    of_weeks = pl.col("week").is_in(list(weeks))
    decisions, refusals = (read(declared).filter(of_weeks) for declared in (DECISIONS, REFUSALS))
    unfinished = decisions.filter(~pl.col("state").is_in(sorted(FINAL))).sort("week", "place")
    return {
        "legs": int(decisions["legs"].sum()),
        "refused": dict(
            refusals.filter(LAST_EXECUTION).group_by("reason").len().sort("len", "reason", descending=[True, False]).iter_rows()
        ),
        "open": unfinished.select("decision_id", "state", "reason").to_dicts(),
        "failed": decisions.filter(pl.col("state") == DecisionState.FAILED).select("decision_id", "state", "reason").to_dicts(),
        "invalid": dict(decisions.filter(action="INVALID").sort("decision_id").select("decision_id", "problem").iter_rows()),
        "cost": None if decisions["cost"].null_count() else float(decisions["cost"].sum() or 0),
        "next": _next_deadline(context, read(DECISIONS).filter(~pl.col("state").is_in(sorted(FINAL))), now),
    }


def _next_deadline(context: WeekContext, unfinished: pl.DataFrame, now: datetime) -> dict[str, Any]:
    """Return which week is due next, with deadline and remaining budgets: this week while it has open decisions, else the next week."""
    rules: Methodology = context.new_methodology
    present = week_of(now)
    pending = unfinished.filter(pl.col("week") == present).height if now < decision_deadline(present, rules) else 0
    week = present if pending else present + WEEK
    whole, _ = compute_week_spending(context.journal, week, context.budgets)
    return {
        "week": week,
        "decisions": pending or None,
        "from": now if pending else week_start(week) + DECISION,
        "deadline": decision_deadline(week, rules),
        "budget_left": whole.left,
    }


def render_summary_lines(summary: dict[str, Any]) -> Iterator[str]:
    """Yield the result of `summarise_run` as lines of text, problems first."""
    if summary["refused"]:
        reasons = ", ".join(f"{reason} {number}" for reason, number in summary["refused"].items())
        yield f"Refused    {sum(summary['refused'].values())} of {summary['legs']} legs: {reasons}"
    for title in ("open", "failed"):
        for reason, names in _group_by_reason(summary[title]).items():
            yield f"{title.capitalize():10} {_format_names(names)}: {reason}"
    if summary["invalid"]:
        yield f"Invalid    {_format_names([f'{name} ({problem})' for name, problem in summary['invalid'].items()])}"
    if not any(summary[name] for name in ("refused", "open", "failed", "invalid")):
        yield f"Done       {summary['legs']} legs executed, no open decision"
    yield f"Cost       {'unknown' if summary['cost'] is None else '${:.4f}'.format(summary['cost'])}"
    due = summary["next"]
    subject = (
        f"{due['decisions']} open decisions of {due['week']}"
        if due["decisions"]
        else f"week {due['week']}, from {_format_time(due['from'])}"
    )
    money = "no weekly budget is set" if due["budget_left"] is None else f"${due['budget_left']:.2f} of the budget left"
    yield f"Next       {subject}; deadline {_format_time(due['deadline'])}; {money}"


def _group_by_reason(decisions: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for decision in decisions:
        names.setdefault(f"{decision['state']}: {decision['reason'] or 'no reason stored'}", []).append(decision["decision_id"])
    return names


def _format_names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return f"{', '.join(names[:_NAMED])}{f' and {more} more' if more > 0 else ''}"


def _format_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


#: Average number of characters per token in English; tokenizers differ.
CHARACTERS = 4


@dataclass(frozen=True)
class PromptPreview:
    """Prompt that a run would send. tokens: estimate. most_cost: maximum cost of the call in micro-dollars; None without a known price.

    stored: whether the prompt is already stored, so that a run reuses it.
    """

    decision_id: str
    member: str
    tokens: int
    most_cost: int | None
    stored: bool
    messages: Sequence[Message]


def preview_week(context: WeekContext, week: date) -> tuple[list[FrozenUniverse], list[PromptPreview]]:
    """Return the universes and prompts that a run of the week would use, in order.

    Nothing is stored, and no model is called.
    """
    registered, universes, prompts = models(context.registry), list[FrozenUniverse](), list[PromptPreview]()
    for venue in list_venues(context, week):
        universe = preview_universe(context, week, venue)
        cohorts = list_deciding_cohorts(context, week, reconstructed=universe.reconstructed, venue=venue)
        if not universes and load_cohort(context.records, week) is None:
            cohorts = [build_cohort(context, week, reconstructed=universe.reconstructed), *cohorts]
        universes.append(universe)
        prompts += [_preview_task(context, task, registered) for task in plan_tasks(context, week, universe, cohorts)]
    return universes, prompts


def _preview_task(context: WeekContext, task: Task, registered: Mapping[str, Model]) -> PromptPreview:
    messages = list(task.messages())
    name = task.key.decision_id
    stored = context.records.stored("prompt", name) is not None
    tokens = -(-sum(len(message["content"]) for message in messages) // CHARACTERS)
    if rule_name(task.model) is not None:
        return PromptPreview(name, task.model, 0, 0, stored, messages)
    model = configure_model(task.model, task.methodology, registered, task.terms)
    return PromptPreview(
        name,
        task.model,
        tokens,
        compute_max_cost(model, messages, {**model.request_parameters, **call_parameters(model, task.methodology)}),
        stored,
        messages,
    )
