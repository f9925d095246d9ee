"""Records that the arena stores once in the journal, as JSON: universes, cohorts, prompts, parsed decisions (intents), executions, and
interventions of operators.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
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
from bellwether.arena.universe import Universe, build_universe
from bellwether.forecasting.prompt import Message
from bellwether.journal import Answered, CallKey, Journal
from bellwether.journal.records import Records
from bellwether.units import MicroDollars
from bellwether.untrusted_text import redact
from bellwether.venues.polymarket.fees import FREE, FeeSchedule, Regime

#: Content of an answer that is not in the journal.
MISSING = "(not in this journal)"

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
    several records of the subject, from 0. Raises `InProgress` while another process builds the record.
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
    """Record an intervention, or return the existing one of the same kind and subject.

    Raises `InProgress` while another process records one.
    """
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


def encode_record(record: object) -> bytes:
    """Encode a record as JSON in UTF-8; equal records give equal bytes."""
    if not isinstance(record, FrozenUniverse):
        return json.dumps(_to_json(record), sort_keys=True, separators=(",", ":")).encode()
    listed = [{**_to_json(market), "fees": None if market.fees == FREE else encode_fees(market.fees)} for market in record.universe.markets]
    origin = {name: _to_json(getattr(record, name)) for name in ("at", "reconstructed", "source", "rejects")}
    venue = {} if record.venue == "polymarket" else {"venue": record.venue}
    return json.dumps({**origin, "markets": listed, **venue}, separators=(",", ":")).encode()


def decode_record(kind: type[R], body: bytes) -> R:
    """Decode a record that `encode_record` encoded."""
    plain = json.loads(body)
    if kind is FrozenUniverse:
        markets = [_from_json(Market, {**market, "fees": _decode_fees(market["fees"])}) for market in plain.pop("markets")]
        plain["universe"] = build_universe(markets)
    record: R = _from_json(kind, plain)
    return record


def encode_fees(fees: FeeSchedule | KalshiFees | UnknownFees) -> str:
    """Encode fee terms as JSON."""
    content = {**asdict(fees), "regime": fees.regime.name} if isinstance(fees, FeeSchedule) else asdict(fees)
    return json.dumps(content, default=str, sort_keys=True, separators=(",", ":"))


def _decode_fees(text: str | None) -> FeeSchedule | KalshiFees | UnknownFees:
    if text is None:
        return FREE
    content = json.loads(text)
    if "rules" in content:
        return KalshiFees(**content)
    if "reason" in content:
        return UnknownFees(**content)
    # Fractional exponents are text, as all decimals; whole ones are numbers.
    exact = {name: Decimal(content[name]) for name in ("rate", "rebate_rate", "exponent") if isinstance(content[name], str)}
    return FeeSchedule(**{**content, **exact, "regime": Regime[content["regime"]]})


def _to_json(value: Any) -> Any:
    """Convert a value of a record to JSON types."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif is_dataclass(value):
        value = {item.name: getattr(value, item.name) for item in fields(value) if item.init}
    if isinstance(value, Mapping):
        return {name: _to_json(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return list(map(_to_json, value))
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def _from_json(hint: Any, value: Any) -> Any:
    """Convert a JSON value to the type of its field. hint: type annotation of the field."""
    if isinstance(hint, UnionType):
        hint = get_args(hint)[0]
    if value is None:
        return None
    if get_origin(hint) is tuple:
        return tuple(_from_json(get_args(hint)[0], item) for item in value)
    if get_origin(hint) is Mapping:
        return {name: _from_json(get_args(hint)[1], item) for name, item in value.items()}
    if isinstance(value, dict) and (is_dataclass(hint) or hasattr(hint, "_asdict")):
        hints = _hints(hint)
        return hint(**{name: _from_json(hints.get(name), item) for name, item in value.items()})
    return _scalar_from_json(hint, value)


def _scalar_from_json(hint: Any, value: Any) -> Any:
    if hint in (date, datetime):
        return hint.fromisoformat(value)
    return hint(value) if isinstance(hint, type) and issubclass(hint, Enum | Decimal) else value


_hints = lru_cache(maxsize=64)(get_type_hints)


def list_messages(journal: Journal, plan: DecisionPlan | None, intent: Intent | None) -> Iterator[tuple[int, str, str]]:
    """Yield (number from 1, role, text) of each message of a decision, with credentials removed.

    The prompt comes first, then one answer per call. Retry requests, which repeat the prompt, are omitted.
    """
    number = 0
    for message in plan.messages if plan else ():
        number += 1
        yield number, message["role"], redact(message["content"])
    for call in intent.calls if intent else ():
        number += 1
        answer = journal.look(CallKey(call))
        yield number, "assistant", redact(answer.content) if isinstance(answer, Answered) else MISSING
