"""Steps of a decision that happen once: each is a record in the journal, written by whoever holds its lease, and read by everybody else.

A step is a call of the journal without a model: claimed before its work, stored after it, never changed. Who finds it stored does not do it again; who
lost the lease meanwhile has written nothing that counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bellwether.errors import BellwetherError
from bellwether.journal import Answered, Attempt, Busy, Claim, CostSource, Failed, Journal, LeaseLost, Outcome, Reply, Request, Usage

#: The journal's name for what does a step.
WORKER = "arena"
_FREE = Usage(cost=0, cost_source=CostSource.UNBILLED)


class InProgress(BellwetherError):
    """Another worker is at this step: until when its lease lasts, and who it is."""

    def __init__(self, step: str, decision_id: str, holder: str, until: datetime | None) -> None:
        self.holder, self.until = holder, until
        found = f"{holder} is at it{f' until {until.isoformat()}' if until else ''}"
        super().__init__(f"{step} of {decision_id}: {found}; run again when it is done")


@dataclass(frozen=True)
class Steps:
    """The steps of decisions in a journal.

    lease: longer than any step takes. run: who does it, for the journal's accounts. holder: this process when left out.
    """

    journal: Journal
    lease: timedelta
    run: str | None = None
    holder: str | None = None

    def stored(self, step: str, decision_id: str, number: int = 0) -> bytes | None:
        """What a step has stored; None when it has not been done."""
        found = self.journal.look(_request(step, decision_id, number).key)
        return found.reply.body if isinstance(found, Answered) else None

    def once(self, step: str, decision_id: str, make: Callable[[], bytes], number: int = 0) -> bytes:
        """What a step has stored, after doing it when nobody has.

        make: does the work and returns the record; when it raises, the step is open again and the error goes on. Raises `InProgress` while another
        worker holds the step, or has taken it over.
        """
        found = self._begun(step, decision_id, number)
        if isinstance(found, Answered):
            return found.reply.body
        if isinstance(found, Busy):
            raise InProgress(step, decision_id, found.holder, found.until)
        if isinstance(found, Failed):
            raise BellwetherError(f"{step} of {decision_id}: given up ({found.reason}); `bellwether journal reopen` lets it be done again")
        try:
            return self._do(*found, make)
        except LeaseLost as lost:
            body = self.stored(step, decision_id, number)
            if body is None:
                raise InProgress(step, decision_id, "another worker", None) from lost
            return body

    def _begun(self, step: str, decision_id: str, number: int) -> tuple[Claim, Attempt] | Answered | Busy | Failed:
        return self.journal.begin(_request(step, decision_id, number), lease=self.lease, run=self.run, holder=self.holder, estimate=0)

    def _do(self, claim: Claim, attempt: Attempt, make: Callable[[], bytes]) -> bytes:
        try:
            body = make()
        except BaseException as error:
            claim.release(f"{type(error).__name__}: {error}"[:500], Outcome.PROVIDER_ERROR)
            raise
        return attempt.answer(Reply(body=body, content="", usage=_FREE)).reply.body


def _request(step: str, decision_id: str, number: int) -> Request:
    return Request(model=WORKER, messages=(), purpose=f"arena/{step}", scope=decision_id, sample=number)
