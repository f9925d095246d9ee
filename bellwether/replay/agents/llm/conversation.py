"""One step: a fresh conversation about the state, in rounds of tool calls, until the model is done.

Whoever speaks, a model or a stored trajectory, goes through the same code; what tools answer always comes from the replay.
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

#: Names that providers take for a tool.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

Messages = Sequence[Mapping[str, Any]]


class AnswerSource(Protocol):
    """Who answers."""

    def hear(self, messages: Messages, number: int) -> Round:
        """The answer of round `number` (from 0); its calls have no results yet."""
        ...


def converse(ctx: AgentContext, voice: AnswerSource, toolbox: Toolbox, system: str, state: str, *, rounds: int) -> Step:
    """Trade one step with the model: at most `rounds` answers, each of which may call tools."""
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
    """Stored form of a model's message."""
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
    """The calls of an answer with distinct ids; one more than are executed represents all excess calls."""
    calls: list[CalledTool] = []
    seen: set[str] = set()
    for place, call in enumerate(answer.tool_calls[: MOST_CALLS + 1]):
        own = call.id if call.id and call.id not in seen else f"call_{number}_{place}"
        seen.add(own)
        calls.append(CalledTool(own, call.name, call.arguments, "", "ok"))
    return tuple(calls)


def _repeatable_message(answer: Answer, calls: Sequence[CalledTool]) -> dict[str, Any]:
    """The answer as the next round repeats it: invalid names and arguments are replaced by ones that every provider accepts."""
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
    """A text without lone surrogates, which UTF-8 does not have."""
    return text.encode(errors="replace").decode()


def _valid_name(name: str) -> str:
    return name if _NAME.fullmatch(name) else "unknown_tool"


def _valid_arguments(text: str) -> str:
    """The text where it is a JSON object; else an object that holds it."""
    try:
        if isinstance(json.loads(text), dict):
            return _remove_surrogates(text)
    except (ValueError, RecursionError):
        pass
    return json.dumps({"unreadable": text[:1000]} if text.strip() else {})
