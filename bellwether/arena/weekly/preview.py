"""A week as it would be run now, without storing anything: prompts, their size, and what the calls may cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from bellwether.arena.deciding import Task
from bellwether.arena.frozen import FrozenCohort
from bellwether.arena.lineup import lineup, rule_of
from bellwether.arena.weekly.asking import model_of, parameters_of, registered
from bellwether.arena.weekly.deciding import WeekPlanned, planned
from bellwether.arena.weekly.means import World, decided_at, deciding, seen_universe, stored_cohort
from bellwether.forecasting.prompt import Message
from bellwether.models.model import Model

#: Characters that a token has on average in English; providers count differently.
CHARACTERS = 4


@dataclass(frozen=True)
class Prompted:
    """What a decision would ask. tokens: of the prompt, estimated. most_cost: micro-dollars that the call may cost at most; None when no price is known.
    stored: the prompt is stored already, and a run would not make it anew."""

    decision_id: str
    member: str
    tokens: int
    most_cost: int | None
    stored: bool
    messages: Sequence[Message]


def preview(world: World, week: date) -> tuple[WeekPlanned, list[Prompted]]:
    """The week as a run would make it now, with every prompt in the order in which it would be asked. Nothing is stored, and no model is asked."""
    universe = seen_universe(world, week)
    cohorts = deciding(world, week, reconstructed=universe.reconstructed)
    if stored_cohort(world.steps, week) is None:
        chosen = lineup(world.lineup, world.registry)
        at = decided_at(week) if universe.reconstructed else world.now()
        cohorts = [FrozenCohort(week, chosen.name, chosen.methodology, universe.reconstructed, chosen.families, at), *cohorts]
    plan = planned(world, week, universe, cohorts)
    known = registered(world.registry)
    return plan, [_prompted(world, task, known) for task in plan.tasks]


def _prompted(world: World, task: Task, known: Mapping[str, Model]) -> Prompted:
    asked = list(task.messages())
    name = task.key.decision_id
    stored = world.steps.stored("prompt", name) is not None
    tokens = -(-sum(len(one["content"]) for one in asked) // CHARACTERS)
    if rule_of(task.model) is not None:
        return Prompted(name, task.model, 0, 0, stored, asked)
    from bellwether.models.prices import most_cost

    model = model_of(task.model, task.methodology, known)
    return Prompted(
        name,
        task.model,
        tokens,
        most_cost(model, asked, {**model.request_parameters, **parameters_of(model, task.methodology)}),
        stored,
        asked,
    )
