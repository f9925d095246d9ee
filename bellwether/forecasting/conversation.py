"""Conversation with a model about one question: a single call, or rounds of tool calls before the answer.

Every answer is in the journal, and so is every result of a tool, as a record of the answer that called it. A repeated or resumed run gets both from
there, also when the tools would return something else today.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bellwether.forecasting.prompt import Message, response_format
from bellwether.forecasting.tools import MOST_CALLS, Tools
from bellwether.models.client import Answer, ModelClient, NoAnswer
from bellwether.models.model import Model
from bellwether.models.response import ToolCall
from bellwether.models.tool_calls import build_turn

PURPOSE = "benchmark/forecasts"
#: Kind of the journal's records with results of tools.
RECORD = "tool_result"
_NOT_EXECUTED = json.dumps({"error": f"not carried out: an answer may call {MOST_CALLS} tools"})


@dataclass(frozen=True, slots=True)
class Conversation:
    """Finished conversation. messages: the last request. results: of all requests; the last one is the answer, or the reason of a missing one."""

    messages: Sequence[Message]
    results: Sequence[Answer | NoAnswer]


def call_terms(model: Model, sample: int, tools: Tools | None) -> dict[str, Any]:
    """Return the arguments of `ModelClient.ask` and `build_request` that all calls of a sample share."""
    form = response_format(model.elicitation)
    parameters: dict[str, Any] = {} if form is None else {"response_format": form}
    if tools is not None:
        parameters["tools"] = tools.definitions
    return {"purpose": PURPOSE, "sample": sample, "scope": "" if tools is None else tools.scope, "parameters": parameters}


async def hold_conversation(
    model: Model, prompt: Sequence[Message], client: ModelClient, terms: Mapping[str, Any], tools: Tools | None
) -> Conversation:
    """Send the prompt, and execute tool calls until the model answers. After `model.steps` rounds it must answer without tools."""
    messages, results = list(prompt), list[Answer | NoAnswer]()
    for number in range(model.steps if tools is not None else 0):
        answer = await client.ask(model, messages, **terms)
        results.append(answer)
        if isinstance(answer, NoAnswer) or answer.cut or not answer.tool_calls:
            return Conversation(messages, results)
        assert tools is not None
        message, calls = build_turn(answer, number, len(answer.tool_calls))
        messages = [*messages, message]
        for position, call in enumerate(calls):
            if position < MOST_CALLS:
                execute = partial(_execute, tools, call)
                content = (await client.record_once(RECORD, answer.key, execute, position)).decode()
            else:
                content = _NOT_EXECUTED
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    results.append(await client.ask(model, messages, **forbid_tools(terms)))
    return Conversation(messages, results)


def forbid_tools(terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the terms of a call in which the model must answer. The tools stay in it, because the earlier messages call them."""
    parameters = terms["parameters"]
    return {**terms, "parameters": parameters | ({"tool_choice": "none"} if "tools" in parameters else {})}


def _execute(tools: Tools, call: ToolCall) -> bytes:
    return tools.execute(call).encode(errors="replace")
