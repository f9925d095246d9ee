"""A week as it would be run now, without storing anything: prompts, their size, and what the calls may cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from bellwether.arena.deciding import Task
from bellwether.arena.lineup import rule_of
from bellwether.arena.terms import Terms
from bellwether.arena.weekly.asking import model_of, parameters_of, registered
from bellwether.arena.weekly.deciding import WeekPlanned, planned
from bellwether.arena.weekly.means import World, deciding, new_cohort, seen_universe, stored_cohort, terms_by_agent, venues_of
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


def preview(world: World, week: date) -> tuple[list[WeekPlanned], list[Prompted]]:
    """The week as a run would make it now, on each venue on which a cohort decides, that of its own cohort first, with every prompt in the order in which
    it would be asked.

    Nothing is stored, and no model is asked.
    """
    known, plans, prompts = registered(world.registry), list[WeekPlanned](), list[Prompted]()
    for venue in venues_of(world, week):
        universe = seen_universe(world, week, venue)
        cohorts = deciding(world, week, reconstructed=universe.reconstructed, venue=venue)
        if not plans and stored_cohort(world.records, week) is None:
            cohorts = [new_cohort(world, week, reconstructed=universe.reconstructed), *cohorts]
        plan, terms = planned(world, week, venue, universe, cohorts), terms_by_agent(cohorts)
        plans.append(plan)
        prompts += [_prompted(world, task, known, terms.get(task.key.agent.agent_id)) for task in plan.tasks]
    return plans, prompts


def _prompted(world: World, task: Task, known: Mapping[str, Model], terms: Terms | None) -> Prompted:
    asked = list(task.messages())
    name = task.key.decision_id
    stored = world.records.stored("prompt", name) is not None
    tokens = -(-sum(len(one["content"]) for one in asked) // CHARACTERS)
    if rule_of(task.model) is not None:
        return Prompted(name, task.model, 0, 0, stored, asked)
    from bellwether.models.prices import most_cost

    model = model_of(task.model, task.methodology, known, terms)
    return Prompted(
        name,
        task.model,
        tokens,
        most_cost(model, asked, {**model.request_parameters, **parameters_of(model, task.methodology)}),
        stored,
        asked,
    )
