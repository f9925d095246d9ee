"""Records that the arena stores once in the journal, as JSON: universes, cohorts, prompts, parsed decisions (intents), executions, and
interventions of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

from bellwether.arena.decision import Decision, Refusal
from bellwether.arena.facts import Agent, Trade
from bellwether.arena.identity import AgentKey
from bellwether.arena.lineup import Terms
from bellwether.arena.methodology import Methodology, Venue
from bellwether.arena.universe import Universe
from bellwether.forecasting.prompt import Message
from bellwether.journal.records import Records
from bellwether.units import MicroDollars

#: Subject under which all interventions are recorded.
_INTERVENED = "arena"

R = TypeVar("R")


@dataclass(frozen=True)
class FrozenUniverse:
    """Universe (the markets offered to agents) of a week on one venue, as of the instant `at`. source: origin of the data. rejects: number of
    listed objects that are not valid markets.
    """

    universe: Universe
    at: datetime
    reconstructed: bool
    source: str
    rejects: int = 0
    venue: Venue = "polymarket"


@dataclass(frozen=True)
class FrozenCohort:
    """A cohort (the agents that start in one week) as stored at its start. members: model of the registry or rule, by family.

    reconstructed: whether all its weeks are decided afterwards. started_at: as of when it started. terms: of its models by family.
    """

    week: date
    lineup: str
    methodology: str
    reconstructed: bool
    members: Mapping[str, str]
    started_at: datetime
    terms: Mapping[str, Terms]

    def agents(self, rules: Methodology) -> list[Agent]:
        """Return the agents of the cohort, sorted by family. rules: the cohort's methodology."""
        return [
            Agent(AgentKey(self.week, family).agent_id, str(self.week), family, self.methodology, rules.cash)
            for family in sorted(self.members)
        ]


@dataclass(frozen=True)
class DecisionPlan:
    """Prompt of a decision, stored before the first call so that every later run sends the same prompt.

    cash: before the decision in micro-dollars. place: of the agent in its cohort's order, from 1. digest: of the universe.
    """

    model: str
    messages: Sequence[Message]
    cash: MicroDollars
    place: int
    prompt_hash: str
    prompt_version: str
    digest: str
    planned_at: datetime


@dataclass(frozen=True)
class Intent:
    """A parsed decision, stored before its execution. calls: keys of the model calls in order. cost: of all attempts, in micro-dollars; None if
    unknown.
    """

    decision: Decision
    calls: tuple[str, ...]
    cost: int | None


@dataclass(frozen=True)
class Execution:
    """Trades and refused legs of one execution of a decision. A decision whose legs were all refused may be executed again."""

    trades: tuple[Trade, ...]
    refusals: tuple[Refusal, ...]
    executed_at: datetime


class InterventionKind(StrEnum):
    """Kind of an operator's intervention.

    CANCEL: a market; positions are refunded at once. CLOSE: an agent; it makes no further decisions, and its cohort does not wait for it.
    ARCHIVE: a cohort; it is no longer ranked or marked.
    """

    CANCEL = "cancel"
    CLOSE = "close"
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class Intervention:
    """Action of an operator on a market, agent or cohort, with its reason.

    subject: a market id, an agent (cohort/family), or a cohort's Sunday. by: the operator. at: when it became
    known, UTC.
    """

    kind: InterventionKind
    subject: str
    by: str
    reason: str
    at: datetime

    @property
    def author(self) -> str:
        """Operator and reason, as stored in rows."""
        return f"{self.by} ({self.reason})"


_KINDS: Mapping[type, str] = {
    FrozenUniverse: "universe",
    FrozenCohort: "cohort",
    DecisionPlan: "prompt",
    Intent: "intent",
    Execution: "execution",
    Intervention: "intervention",
}


def store_once(records: Records, kind: type[R], subject: str, build: Callable[[], R], number: int = 0) -> R:
    """Return the stored record of a kind about `subject`, such as a week or decision id; build and store the record if missing. number: which of
    several records of the subject, from 0.
    """
    return decode_record(kind, records.once(_KINDS[kind], subject, lambda: encode_record(build()), number))


def load_record(records: Records, kind: type[R], subject: str, number: int = 0) -> R | None:
    """Load the record of a kind about `subject`; None if missing. number: which of several records of the subject, from 0."""
    body = records.stored(_KINDS[kind], subject, number)
    return None if body is None else decode_record(kind, body)


def load_records(records: Records, kind: type[R], subject: str) -> list[R]:
    """Load all records of a kind about `subject`, in order."""
    loaded: list[R] = []
    while (record := load_record(records, kind, subject, len(loaded))) is not None:
        loaded.append(record)
    return loaded


def record_intervention(records: Records, intervention: Intervention) -> Intervention:
    """Record an intervention, or return the existing one of the same kind and subject."""
    number = 0
    while True:
        stored = store_once(records, Intervention, _INTERVENED, lambda: intervention, number)
        if (stored.kind, stored.subject) == (intervention.kind, intervention.subject):
            return stored
        number += 1


def load_interventions(records: Records) -> list[Intervention]:
    """Load all interventions in the order of recording."""
    return load_records(records, Intervention, _INTERVENED)


def load_by_subject(records: Records, kind: InterventionKind) -> dict[str, Intervention]:
    """Load the interventions of one kind, by the market, agent or cohort that each concerns."""
    return {entry.subject: entry for entry in load_interventions(records) if entry.kind is kind}


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def encode_record(record: object) -> bytes:
    """Encode a record as JSON in UTF-8; equal records give equal bytes."""
    return _adapter(cast("Hashable", type(record))).dump_json(record)


def decode_record(kind: type[R], body: bytes) -> R:
    """Decode a record that `encode_record` encoded."""
    record: R = _adapter(cast("Hashable", kind)).validate_json(body)
    return record
