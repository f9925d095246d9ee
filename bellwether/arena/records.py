"""Records that the arena stores once in the journal, and their JSON: universes, cohorts, prompts, intents, executions and interventions.

Records of earlier versions are read as well: fields that they lack have their defaults.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from functools import lru_cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from bellwether.arena.decision import Decision, Refusal
from bellwether.arena.facts import Agent, Trade
from bellwether.arena.identity import AgentKey
from bellwether.arena.lineup import Terms
from bellwether.arena.market import KalshiFees, Market, UnknownFees
from bellwether.arena.methodology import Methodology, Venue
from bellwether.arena.prompt import FIRST_VERSION
from bellwether.arena.universe import Universe, frozen
from bellwether.forecasting.prompt import Message
from bellwether.journal import Answered, CallKey, Journal
from bellwether.journal.records import Records
from bellwether.units import MicroDollars
from bellwether.untrusted_text import redact
from bellwether.venues.polymarket.fees import FREE, FeeRegime, FeeSchedule

#: Content of an answer that the journal lacks.
MISSING = "(not in this journal)"

#: Subject of all interventions.
_INTERVENED = "arena"

R = TypeVar("R")


@dataclass(frozen=True)
class FrozenUniverse:
    """A week's universe on a venue as of an instant. reconstructed: made afterwards. source: what from, in words. rejects: listed objects that are no
    market."""

    universe: Universe
    at: datetime
    reconstructed: bool
    source: str
    rejects: int = 0
    venue: Venue = "polymarket"


@dataclass(frozen=True)
class FrozenCohort:
    """The cohort that starts in a week: who decides by family (a model of the registry or a rule), by which methodology, from which lineup.

    reconstructed: its weeks are decided afterwards, and none of them live. started_at: as of when. terms: of its models, by family; empty in cohorts
    that were started before terms were kept. prompt: version of its prompts.
    """

    week: date
    lineup: str
    methodology: str
    reconstructed: bool
    members: Mapping[str, str]
    started_at: datetime
    terms: Mapping[str, Terms] = field(default_factory=dict)
    prompt: str = FIRST_VERSION

    def agents(self, rules: Methodology) -> list[Agent]:
        """Its agents, by family."""
        return [
            Agent(AgentKey(self.week, family).agent_id, str(self.week), family, self.methodology, rules.cash)
            for family in sorted(self.members)
        ]


@dataclass(frozen=True)
class Plan:
    """The prompt of an agent and its circumstances, fixed before the first call, so that every later run sends the same.

    cash: micro-dollars before the decision. place: in the order of its cohort, from 1. digest: of the universe.
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
    """A parsed decision and its calls, in order. cost: micro-dollars of all attempts; None when a part is not known."""

    decision: Decision
    calls: tuple[str, ...]
    cost: int | None


@dataclass(frozen=True)
class Execution:
    """The result of executing a decision once."""

    trades: tuple[Trade, ...]
    refusals: tuple[Refusal, ...]
    executed_at: datetime


class Kind(StrEnum):
    """CANCEL: a market; what is held of it is refunded at once. CLOSE: an agent; it decides no more, and its cohort need not wait for its decision.
    DISMISS: a later release of a family; reviews propose it no more. ARCHIVE: a cohort; it is in no ranking, and is marked no more."""

    CANCEL = "cancel"
    CLOSE = "close"
    DISMISS = "dismiss"
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class Intervention:
    """One intervention.

    subject: a market's id, an agent's (cohort/family), a family and a model's id (family/provider/id), or a cohort's Sunday. by: the operator.
    at: from when on it is known, UTC.
    """

    kind: Kind
    subject: str
    by: str
    reason: str
    at: datetime

    @property
    def author(self) -> str:
        """The operator and the reason, as rows state them."""
        return f"{self.by} ({self.reason})"


_KINDS: Mapping[type, str] = {
    FrozenUniverse: "universe",
    FrozenCohort: "cohort",
    Plan: "prompt",
    Intent: "intent",
    Execution: "execution",
    Intervention: "intervention",
}


def once(records: Records, kind: type[R], subject: str, make: Callable[[], R], number: int = 0) -> R:
    """The stored record; a missing one is made now. Raises `InProgress` while another process makes it."""
    return decode(kind, records.once(_KINDS[kind], subject, lambda: encode(make()), number))


def stored(records: Records, kind: type[R], subject: str, number: int = 0) -> R | None:
    """A stored record; None when it is missing."""
    body = records.stored(_KINDS[kind], subject, number)
    return None if body is None else decode(kind, body)


def all_stored(records: Records, kind: type[R], subject: str) -> list[R]:
    """The records of a subject in order, from number 0."""
    found: list[R] = []
    while (record := stored(records, kind, subject, len(found))) is not None:
        found.append(record)
    return found


def intervene(records: Records, intervention: Intervention) -> Intervention:
    """Record an intervention, or return the recorded one of the same kind on the same subject.

    Raises `InProgress` while another process records one.
    """
    number = 0
    while True:
        found = once(records, Intervention, _INTERVENED, lambda: intervention, number)
        if (found.kind, found.subject) == (intervention.kind, intervention.subject):
            return found
        number += 1


def load_interventions(records: Records) -> list[Intervention]:
    """All interventions, in the order in which they were recorded."""
    return all_stored(records, Intervention, _INTERVENED)


def closures(records: Records) -> dict[str, Intervention]:
    """Agents that were closed, by id."""
    return {one.subject: one for one in load_interventions(records) if one.kind is Kind.CLOSE}


def archives(records: Records) -> dict[str, Intervention]:
    """Cohorts that were archived, by their Sunday."""
    return {one.subject: one for one in load_interventions(records) if one.kind is Kind.ARCHIVE}


def cancellations(records: Records) -> list[Intervention]:
    """Markets that were cancelled."""
    return [one for one in load_interventions(records) if one.kind is Kind.CANCEL]


def dismissals(records: Records) -> list[tuple[str, str]]:
    """Releases that were dismissed: the family, and the model's id."""
    found = (one.subject.partition("/") for one in load_interventions(records) if one.kind is Kind.DISMISS)
    return [(family, model_id) for family, _, model_id in found]


def encode(record: object) -> bytes:
    """A record as JSON in UTF-8; the same record gives the same bytes."""
    if not isinstance(record, FrozenUniverse):
        return json.dumps(_plain(record), sort_keys=True, separators=(",", ":")).encode()
    listed = [{**_plain(market), "fees": None if market.fees == FREE else fee_text(market.fees)} for market in record.universe.markets]
    about = {name: _plain(getattr(record, name)) for name in ("at", "reconstructed", "source", "rejects")}
    venue = {} if record.venue == "polymarket" else {"venue": record.venue}
    return json.dumps({**about, "markets": listed, **venue}, separators=(",", ":")).encode()


def decode(kind: type[R], body: bytes) -> R:
    """The record of a type that `encode` gave."""
    plain = json.loads(body)
    if kind is FrozenUniverse:
        markets = [_typed(Market, {**one, "fees": _fees(one["fees"])}) for one in plain.pop("markets")]
        plain["universe"] = frozen(markets)
    found: R = _typed(kind, plain)
    return found


def fee_text(fees: FeeSchedule | KalshiFees | UnknownFees) -> str:
    """Terms of fees as JSON."""
    said = {**asdict(fees), "regime": fees.regime.name} if isinstance(fees, FeeSchedule) else asdict(fees)
    return json.dumps(said, default=str, sort_keys=True, separators=(",", ":"))


def _fees(text: str | None) -> FeeSchedule | KalshiFees | UnknownFees:
    if text is None:
        return FREE
    said = json.loads(text)
    if "rules" in said:
        return KalshiFees(**said)
    if "reason" in said:
        return UnknownFees(**said)
    # A fractional exponent is text, as all decimals are; a whole one is a number.
    exact = {name: Decimal(said[name]) for name in ("rate", "rebate_rate", "exponent") if isinstance(said[name], str)}
    return FeeSchedule(**{**said, **exact, "regime": FeeRegime[said["regime"]]})


def _plain(value: Any) -> Any:
    """A value of a record as JSON has it."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif is_dataclass(value):
        value = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return list(map(_plain, value))
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def _typed(hint: Any, value: Any) -> Any:
    """A value of JSON as the type of its field."""
    if isinstance(hint, UnionType):
        hint = get_args(hint)[0]
    if value is None:
        return None
    if get_origin(hint) is tuple:
        return tuple(_typed(get_args(hint)[0], one) for one in value)
    if get_origin(hint) is Mapping:
        return {name: _typed(get_args(hint)[1], one) for name, one in value.items()}
    if isinstance(value, dict) and (is_dataclass(hint) or hasattr(hint, "_asdict")):
        hints = _hints(hint)
        return hint(**{name: _typed(hints.get(name), one) for name, one in value.items()})
    return _scalar(hint, value)


def _scalar(hint: Any, value: Any) -> Any:
    if hint in (date, datetime):
        return hint.fromisoformat(value)
    return hint(value) if isinstance(hint, type) and issubclass(hint, Enum | Decimal) else value


_hints = lru_cache(maxsize=64)(get_type_hints)


def messages_of(journal: Journal, plan: Plan | None, intent: Intent | None) -> Iterator[tuple[int, str, str]]:
    """Number from 1, role and text of each message of a decision, without credentials.

    First the prompt, then one answer per call. The request to answer again, which repeats the prompt, is left out.
    """
    number = 0
    for message in plan.messages if plan else ():
        number += 1
        yield number, message["role"], redact(message["content"])
    for call in intent.calls if intent else ():
        number += 1
        found = journal.look(CallKey(call))
        yield number, "assistant", redact(found.content) if isinstance(found, Answered) else MISSING
