"""Conversation of one step: rounds of tool calls until the model is done.

Answers of a model and of a stored trajectory use the same code; results of tools always come from the replay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from bellwether.journal import Outcome
from bellwether.replay.agents.llm.steps import CalledTool, Ended, Round, Step, read_usage
from bellwether.replay.agents.llm.tools import MOST_CALLS, Toolbox

if TYPE_CHECKING:
    from bellwether.models.client import Answer, NoAnswer
    from bellwether.replay.agents.context import AgentContext

#: Tool names that all providers accept.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

Messages = Sequence[Mapping[str, Any]]


class AnswerSource(Protocol):
    """Source of answers: a model or a stored trajectory."""

    def hear(self, messages: Messages, number: int) -> Round:
        """Return the answer of round `number` (from 0). Its calls have no results yet."""
        ...


def converse(ctx: AgentContext, voice: AnswerSource, toolbox: Toolbox, system: str, state: str, *, rounds: int) -> Step:
    """Execute one step with at most `rounds` answers, each of which can call tools."""
    messages: list[Mapping[str, Any]] = [{"role": "system", "content": system}, {"role": "user", "content": state}]
    heard: list[Round] = []

    def step(ended: Ended, reason: str = "") -> Step:
        return Step(ctx.step, ctx.now_ns, state, tuple(heard), ended, reason)

    for number in range(rounds):
        said = voice.hear(messages, number)
        if said.outcome != "ok":
            heard.append(said)
            return step("failed", f"{said.outcome}: {said.reason}")
        calls, done = toolbox.carry_out(ctx, said.calls)
        heard.append(replace(said, calls=calls))
        if done or not calls:
            return step("done" if done else "no_tool")
        assert said.message is not None
        messages = [*messages, said.message, *(_result(call) for call in calls)]
    return step("rounds")


def _result(call: CalledTool) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": call.result}


def to_round(found: Answer | NoAnswer, number: int) -> Round:
    """Convert a model's answer to its stored form."""
    from bellwether.models.client import NoAnswer

    if isinstance(found, NoAnswer):
        return Round(found.key, found.outcome.value, found.reason, found.final, usage=read_usage(found.usage), attempts=found.attempts)
    if found.cut:
        reason = f"the answer was cut (finish reason: {found.finish_reason}); nothing of it is carried out"
        return Round(found.key, Outcome.TRUNCATION.value, reason, usage=read_usage(found.spent), attempts=found.attempts)
    calls = _calls(found, number)
    return Round(
        key=found.key,
        outcome="ok",
        message=_repeatable_message(found, calls),
        content=found.content,
        reasoning=found.reasoning,
        finish_reason=found.finish_reason,
        calls=calls,
        usage=read_usage(found.spent),
        attempts=found.attempts,
    )


def _calls(answer: Answer, number: int) -> tuple[CalledTool, ...]:
    """Return the calls of an answer with unique ids. One call above the limit represents all excess calls."""
    calls: list[CalledTool] = []
    seen: set[str] = set()
    for place, call in enumerate(answer.tool_calls[: MOST_CALLS + 1]):
        own = call.id if call.id and call.id not in seen else f"call_{number}_{place}"
        seen.add(own)
        calls.append(CalledTool(own, call.name, call.arguments, "", "ok"))
    return tuple(calls)


def _repeatable_message(answer: Answer, calls: Sequence[CalledTool]) -> dict[str, Any]:
    """Return the answer as a message of the next round. Invalid names and arguments are replaced by valid ones."""
    called = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": _valid_name(call.name), "arguments": _valid_arguments(call.arguments)},
            **asked.signed,
        }
        for call, asked in zip(calls, answer.tool_calls, strict=False)
    ]
    return {
        "role": "assistant",
        "content": _remove_surrogates(answer.content) or None,
        **answer.thoughts,
        **({"tool_calls": called} if called else {}),
    }


def _remove_surrogates(text: str) -> str:
    """Remove lone surrogates, which UTF-8 cannot encode."""
    return text.encode(errors="replace").decode()


def _valid_name(name: str) -> str:
    return name if _NAME.fullmatch(name) else "unknown_tool"


def _valid_arguments(text: str) -> str:
    """Return the text if it is a JSON object; otherwise an object that contains it."""
    try:
        if isinstance(json.loads(text), dict):
            return _remove_surrogates(text)
    except (ValueError, RecursionError):
        pass
    return json.dumps({"unreadable": text[:1000]} if text.strip() else {})
