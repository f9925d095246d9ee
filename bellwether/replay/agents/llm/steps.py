"""Record of a step: the state shown to the model, the model's answers, the results of their tool calls, and how the step ended."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Self

from bellwether.errors import LakeError
from bellwether.journal import Usage

#: done: the model called done(). no_tool: it called no tool. rounds: no rounds remain. failed: no answer, with a `reason`.
Ended = Literal["done", "no_tool", "rounds", "failed"]
#: Status of a tool call. rejected: the exchange refused the order. error: invalid arguments. unknown: unknown tool. skipped: after done(), or above
#: the limit of calls.
ToolCallStatus = Literal["ok", "rejected", "error", "unknown", "skipped"]


@dataclass(frozen=True, slots=True)
class CalledTool:
    """Tool call as the model wrote it, and the result text that the model received."""

    id: str
    name: str
    arguments: str
    result: str
    status: ToolCallStatus


@dataclass(frozen=True, slots=True)
class Round:
    """One request to the model, with the answer.

    Attributes:
        key: Journal key of the call.
        outcome: Outcome in the journal; ok for an answer.
        reason: Reason of a missing answer.
        final: Whether the outcome is final in the journal.
        message: Answer as it appears in the messages of the next round; None without an answer.
        content: Text of the answer.
        reasoning: Reasoning of the answer.
        finish_reason: Finish reason of the answer.
        calls: Tool calls of the answer.
        usage: Tokens and cost of all attempts, micro-dollars; None where unknown.
        attempts: Number of requests sent.
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
    """Decision of a language model agent, from the state shown to the model to the model's last answer.

    Attributes:
        number: Number of the decision, from 0.
        ts: Simulated time, ns UTC.
        state: State text shown to the model.
        rounds: Requests and answers.
        ended: End of the step.
        reason: Reason of a failure.
    """

    number: int
    ts: int
    state: str
    rounds: tuple[Round, ...]
    ended: Ended
    reason: str = ""

    @property
    def is_open(self) -> bool:
        """True if repeating the last request could succeed: the step failed, and the failure is not final in the journal."""
        return self.ended == "failed" and not self.rounds[-1].final

    def to_line(self) -> str:
        """Return the step as one line of ASCII JSON."""
        return json.dumps({**asdict(self), "time": _format_ns(self.ts)}, separators=(",", ":"))

    @classmethod
    def from_line(cls, line: str, where: str) -> Self:
        """Parse a line written by `to_line`. Raises `LakeError` for an invalid line. where: file and line number, for the error."""
        try:
            stored = json.loads(line)
            del stored["time"]
            rounds = tuple(
                Round(**{**entry, "calls": tuple(CalledTool(**call) for call in entry["calls"])}) for entry in stored.pop("rounds")
            )
            return cls(rounds=rounds, **stored)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise LakeError(
                f"reading a trajectory: {where} is not a valid step ({error}); delete its file and repeat the run: answers are in the journal"
            ) from None


def _format_ns(ns: int) -> str:
    seconds, rest = divmod(ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def read_usage(usage: Usage) -> dict[str, Any]:
    """Return tokens and cost of a call by name, as stored in a `Round`."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost_microdollars": usage.cost,
        "cost_source": None if usage.cost_source is None else usage.cost_source.value,
        "price_list": usage.price_list,
    }


def totals(steps: Iterable[Step]) -> dict[str, Any]:
    """Return counts and sums over steps, by name: ends of steps, failures, tools, statuses of tool calls, tokens and micro-dollars. A sum
    with an unknown part is None.
    """
    ended, failures, tools, statuses = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    sums: dict[str, int | None] = dict.fromkeys(("prompt_tokens", "completion_tokens", "cost_microdollars"), 0)
    answers = 0
    for step in steps:
        ended[step.ended] += 1
        for entry in step.rounds:
            answers += entry.outcome == "ok"
            if entry.outcome != "ok":
                failures[entry.outcome] += 1
            for name, total in sums.items():
                part = entry.usage.get(name)
                sums[name] = None if total is None or part is None else total + part
            tools.update(call.name for call in entry.calls if call.status not in ("unknown", "skipped"))
            statuses.update(call.status for call in entry.calls)
    return {
        "steps": sum(ended.values()),
        "ended": dict(sorted(ended.items())),
        "answers": answers,
        "failures": dict(sorted(failures.items())),
        "tools": dict(sorted(tools.items())),
        "call_statuses": dict(sorted(statuses.items())),
        **sums,
    }
