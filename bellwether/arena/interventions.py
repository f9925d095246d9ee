"""Interventions of operators: markets that they cancel, agents that they close, releases that they dismiss, cohorts that they archive. Each is recorded
once, as a step in the journal."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial

from bellwether.journal.records import Records

_STEP, _SCOPE = "intervention", "arena"


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
        """Who intervened and why, as rows say it."""
        return f"{self.by} ({self.reason})"


def record(records: Records, intervention: Intervention) -> Intervention:
    """Record an intervention; one of the same kind on the same subject that is recorded already stands, and is returned instead.

    Raises `InProgress` while another process records one.
    """
    number = 0
    while True:
        found = _read(records.once(_STEP, _SCOPE, partial(_encoded, intervention), number))
        if (found.kind, found.subject) == (intervention.kind, intervention.subject):
            return found
        number += 1


def recorded(records: Records) -> list[Intervention]:
    """All interventions, in the order in which they were recorded."""
    found: list[Intervention] = []
    while (body := records.stored(_STEP, _SCOPE, len(found))) is not None:
        found.append(_read(body))
    return found


def closures(records: Records) -> dict[str, Intervention]:
    """Agents that were closed, by id."""
    return {one.subject: one for one in recorded(records) if one.kind is Kind.CLOSE}


def archives(records: Records) -> dict[str, Intervention]:
    """Cohorts that were archived, by their Sunday."""
    return {one.subject: one for one in recorded(records) if one.kind is Kind.ARCHIVE}


def cancellations(records: Records) -> list[Intervention]:
    """Markets that were cancelled."""
    return [one for one in recorded(records) if one.kind is Kind.CANCEL]


def dismissals(records: Records) -> list[tuple[str, str]]:
    """Releases that were dismissed: the family, and the model's id."""
    found = (one.subject.partition("/") for one in recorded(records) if one.kind is Kind.DISMISS)
    return [(family, model_id) for family, _, model_id in found]


def _encoded(intervention: Intervention) -> bytes:
    said = {**asdict(intervention), "at": intervention.at.isoformat()}
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


def _read(body: bytes) -> Intervention:
    said = json.loads(body)
    return Intervention(**{**said, "kind": Kind(said["kind"]), "at": datetime.fromisoformat(said["at"])})
