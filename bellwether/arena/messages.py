"""What was said in a decision, word for word: its prompt and the model's answers, from the journal."""

from __future__ import annotations

from collections.abc import Iterator

from bellwether.arena.records import Intent, Plan
from bellwether.credentials import redact
from bellwether.journal import Answered, CallKey, Journal

#: Stands for an answer that the journal does not have.
MISSING = "(not in this journal)"


def said(journal: Journal, plan: Plan | None, intent: Intent | None) -> Iterator[tuple[int, str, str]]:
    """Number from 1, role and text of each message in the order in which they were said, without credentials.

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
