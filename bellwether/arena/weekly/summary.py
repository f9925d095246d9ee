"""Summaries of `arena run`: preview of its prompts before a run; problems, costs and the next deadline after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

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
    compute_budget_left,
    list_deciding_cohorts,
    list_venues,
    load_cohort,
    preview_universe,
)
from bellwether.arena.weekly.decisions import plan_tasks
from bellwether.arena.weekly.model_calls import Task, call_parameters, configure_model
from bellwether.forecasting.prompt import Message
from bellwether.models.model import Model, models
from bellwether.models.prices import compute_max_cost
from bellwether.tables.arena import DECISIONS, REFUSALS

#: Maximum number of decisions named in a line.
_NAMED = 5


def describe_run(context: WeekContext, weeks: Sequence[date], now: datetime) -> Iterator[str]:
    """Yield what a run of weeks led to as lines of text, problems first: refused legs, open and failed decisions, unusable answers, the cost, and
    the next deadline (UTC).
    """
    read = stored_tables(context.lake)
    of_weeks, is_final = pl.col("week").is_in(list(weeks)), pl.col("state").is_in(sorted(FINAL))
    decisions, refusals = (read(declared).filter(of_weeks) for declared in (DECISIONS, REFUSALS))
    legs, refused = int(decisions["legs"].sum()), refusals.filter(LAST_EXECUTION)["reason"].value_counts()
    opened = decisions.filter(~is_final).sort("week", "place")
    failed = decisions.filter(pl.col("state") == DecisionState.FAILED)
    invalid = decisions.filter(action="INVALID").sort("decision_id")
    if refused.height:
        reasons = refused.sort("count", "reason", descending=[True, False]).iter_rows()
        yield f"Refused    {refused['count'].sum()} of {legs} legs: {', '.join(f'{reason} {count}' for reason, count in reasons)}"
    yield from _describe_reasons("Open", opened)
    yield from _describe_reasons("Failed", failed)
    if invalid.height:
        names = [f"{name} ({problem})" for name, problem in invalid.select("decision_id", "problem").iter_rows()]
        yield f"Invalid    {_format_names(names)}"
    if not any(rows.height for rows in (refused, opened, failed, invalid)):
        yield f"Done       {legs} legs executed, no open decision"
    cost = decisions["cost"]
    yield f"Cost       {'unknown' if cost.null_count() else f'${float(cost.sum()):.4f}'}"
    yield _describe_next_week(context, read(DECISIONS).filter(~is_final), now)


def _describe_reasons(title: str, decisions: pl.DataFrame) -> Iterator[str]:
    """Yield a line per state and reason with the names of its decisions."""
    reason = pl.format("{}: {}", "state", pl.col("reason").fill_null("no reason stored")).alias("reason")
    for (text,), rows in decisions.group_by(reason, maintain_order=True):
        yield f"{title:10} {_format_names(rows['decision_id'].to_list())}: {text}"


def _describe_next_week(context: WeekContext, unfinished: pl.DataFrame, now: datetime) -> str:
    """Describe what is due next, with deadline and remaining budget: this week while it has open decisions, else the next week."""
    rules: Methodology = context.new_methodology
    present = week_of(now)
    pending = unfinished.filter(pl.col("week") == present).height if now < decision_deadline(present, rules) else 0
    week = present if pending else present + WEEK
    left = compute_budget_left(context.journal, week, context.budgets.week)
    subject = f"{pending} open decisions of {week}" if pending else f"week {week}, from {_format_time(week_start(week) + DECISION)}"
    money = "no weekly budget is set" if left is None else f"${left:.2f} of the budget left"
    return f"Next       {subject}; deadline {_format_time(decision_deadline(week, rules))}; {money}"


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
