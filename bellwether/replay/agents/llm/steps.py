"""Record of one step: the state shown to the model, its messages and calls, their results, and the end of the step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Self

from bellwether.errors import LakeError
from bellwether.journal import Usage

#: done: the model said so. no_tool: it called nothing. rounds: they were used up. failed: it gave no answer; `reason` says why.
Ended = Literal["done", "no_tool", "rounds", "failed"]
#: What became of a tool call. rejected: the exchange turned the order away. error: the arguments were wrong. unknown: there is no such tool.
#: skipped: it followed done(), or exceeded the limit.
ToolCallStatus = Literal["ok", "rejected", "error", "unknown", "skipped"]


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A tool call: what the model wrote, and the text that it got back."""

    id: str
    name: str
    arguments: str
    result: str
    status: ToolCallStatus


@dataclass(frozen=True, slots=True)
class Round:
    """One question to the model and what came of it.

    key: of the call in the journal. outcome: the journal's; ok for an answer. reason: of what is no answer. final: whether that was the model's last
    word. message: the answer as the next round's messages repeat it; None without one. content, reasoning, finish_reason: of the answer. calls: the
    tools that it called. usage: of all attempts; micro-dollars, None where it is not known. attempts: how often it was sent.
    """

    key: str
    outcome: str
    reason: str = ""
    final: bool = True
    message: Mapping[str, Any] | None = None
    content: str = ""
    reasoning: str | None = None
    finish_reason: str | None = None
    calls: tuple[CalledTool, ...] = ()
    usage: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Step:
    """One decision. number: from 0. ts: the simulated time, ns UTC. state: the text that the model was shown."""

    number: int
    ts: int
    state: str
    rounds: tuple[Round, ...]
    ended: Ended
    reason: str = ""

    @property
    def is_open(self) -> bool:
        """Return whether asking again could bring another answer: the journal does not hold a last word."""
        return self.ended == "failed" and not self.rounds[-1].final

    def line(self) -> str:
        """The step as one line of JSON in ASCII."""
        return json.dumps({**asdict(self), "time": _to_fields(self.ts)}, separators=(",", ":"))

    @classmethod
    def of(cls, line: str, where: str) -> Self:
        """Parse the step of a line. Raises `LakeError` naming `where` if it is invalid."""
        try:
            stored = json.loads(line)
            del stored["time"]
            rounds = tuple(Round(**{**one, "calls": tuple(CalledTool(**call) for call in one["calls"])}) for one in stored.pop("rounds"))
            return cls(rounds=rounds, **stored)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise LakeError(
                f"reading a trajectory: {where} is no step ({error}); delete its file and run again: answers are in the journal"
            ) from None


def _to_fields(ns: int) -> str:
    seconds, rest = divmod(ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def read_usage(usage: Usage) -> dict[str, Any]:
    """Tokens and cost as a step keeps them."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost_microdollars": usage.cost,
        "cost_source": None if usage.cost_source is None else usage.cost_source.value,
        "price_list": usage.price_list,
    }


def totals(steps: Iterable[Step]) -> dict[str, Any]:
    """Counts over steps: how they ended, what failed and why, tools and their statuses, tokens, micro-dollars. A sum with an unknown part is None."""
    ended, failures, tools, statuses = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    sums: dict[str, int | None] = dict.fromkeys(("prompt_tokens", "completion_tokens", "cost_microdollars"), 0)
    answers = 0
    for step in steps:
        ended[step.ended] += 1
        for one in step.rounds:
            answers += one.outcome == "ok"
            if one.outcome != "ok":
                failures[one.outcome] += 1
            for name, known in sums.items():
                part = one.usage.get(name)
                sums[name] = None if known is None or part is None else known + part
            tools.update(call.name for call in one.calls if call.status not in ("unknown", "skipped"))
            statuses.update(call.status for call in one.calls)
    return {
        "steps": sum(ended.values()),
        "ended": dict(sorted(ended.items())),
        "answers": answers,
        "failures": dict(sorted(failures.items())),
        "tools": dict(sorted(tools.items())),
        "call_statuses": dict(sorted(statuses.items())),
        **sums,
    }
