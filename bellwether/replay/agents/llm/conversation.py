"""Conversation of one step (a decision): rounds of tool calls until the model is done. Tool results always come from the simulator, also
when stored answers are repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bellwether.journal import Outcome
from bellwether.replay.agents.llm.steps import CalledTool, Ended, Round, Step, read_usage
from bellwether.replay.agents.llm.tools import MOST_CALLS, Toolbox

if TYPE_CHECKING:
    from bellwether.models.client import Answer, NoAnswer
    from bellwether.replay.agents.context import AgentContext

#: Tool names that all providers accept.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

Messages = Sequence[Mapping[str, Any]]
#: Function of the messages and the number of a round (from 0) that returns the round's answer, from a model or a stored trajectory. Results of its
#: calls are ignored.
RoundSource = Callable[[Messages, int], Round]


def converse(ctx: AgentContext, next_round: RoundSource, toolbox: Toolbox, system: str, state: str, *, rounds: int) -> Step:
    """Execute one step: get at most `rounds` answers from `next_round`, and execute the tool calls of each answer. system: system prompt.
    state: text of the market state.
    """
    messages: list[Mapping[str, Any]] = [{"role": "system", "content": system}, {"role": "user", "content": state}]
    finished: list[Round] = []

    def step(ended: Ended, reason: str = "") -> Step:
        return Step(ctx.step, ctx.now_ns, state, tuple(finished), ended, reason)

    for number in range(rounds):
        answer = next_round(messages, number)
        if answer.outcome != "ok":
            finished.append(answer)
            return step("failed", f"{answer.outcome}: {answer.reason}")
        calls, done = toolbox.execute_calls(ctx, answer.calls)
        finished.append(replace(answer, calls=calls))
        if done or not calls:
            return step("done" if done else "no_tool")
        assert answer.message is not None
        results = [{"role": "tool", "tool_call_id": call.id, "content": call.result} for call in calls]
        messages = [*messages, answer.message, *results]
    return step("rounds")


def to_round(answer: Answer | NoAnswer, number: int) -> Round:
    """Build the `Round` of a model client's answer, or of the reason of a missing answer. number: number of the round in the step."""
    from bellwether.models.client import NoAnswer

    if isinstance(answer, NoAnswer):
        return Round(
            answer.key, answer.outcome.value, answer.reason, answer.final, usage=read_usage(answer.usage), attempts=answer.attempts
        )
    if answer.cut:
        reason = f"the answer was cut (finish reason: {answer.finish_reason}); nothing of it is carried out"
        return Round(answer.key, Outcome.TRUNCATION.value, reason, usage=read_usage(answer.spent), attempts=answer.attempts)
    calls = _calls(answer, number)
    return Round(
        key=answer.key,
        outcome="ok",
        message=_repeatable_message(answer, calls),
        content=answer.content,
        reasoning=answer.reasoning,
        finish_reason=answer.finish_reason,
        calls=calls,
        usage=read_usage(answer.spent),
        attempts=answer.attempts,
    )


def _calls(answer: Answer, number: int) -> tuple[CalledTool, ...]:
    """Return the tool calls of an answer, each with a unique id. An answer with too many calls is cut after `MOST_CALLS` + 1. number:
    number of the round.
    """
    calls: list[CalledTool] = []
    ids: set[str] = set()
    for place, call in enumerate(answer.tool_calls[: MOST_CALLS + 1]):
        unique = call.id if call.id and call.id not in ids else f"call_{number}_{place}"
        ids.add(unique)
        calls.append(CalledTool(unique, call.name, call.arguments, "", "ok"))
    return tuple(calls)


def _repeatable_message(answer: Answer, calls: Sequence[CalledTool]) -> dict[str, Any]:
    """Return the answer as a message for the next request. Names and arguments of calls that providers would reject are replaced."""
    called = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": _valid_name(call.name), "arguments": _valid_arguments(call.arguments)},
            **original.signed,
        }
        for call, original in zip(calls, answer.tool_calls, strict=False)
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
    """Return the text if it is a JSON object; otherwise a JSON object that contains the text."""
    try:
        if isinstance(json.loads(text), dict):
            return _remove_surrogates(text)
    except (ValueError, RecursionError):
        pass
    return json.dumps({"unreadable": text[:1000]} if text.strip() else {})
