"""A chat request, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from bellwether.sandbox.models.personalities import PERSONALITIES, Personality
from bellwether.sandbox.services import OpenAIError

MOST_CHOICES = 16
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


class BadRequest(Exception):
    """A request that is answered with an error."""

    def __init__(self, error: OpenAIError) -> None:
        self.error = error
        super().__init__(error.message)


def invalid(message: str, param: str | None = None) -> BadRequest:
    """HTTP 400."""
    return BadRequest(OpenAIError(400, message, "invalid_request_error", None, param))


@dataclass(frozen=True, slots=True)
class Turn:
    """One message: who said it, its text, and the tools that it called."""

    role: str
    text: str
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What POST /chat/completions asks for. `json_schema` is None where none is demanded; `tools` are names of functions."""

    personality: Personality
    model: str
    turns: tuple[Turn, ...]
    choices: int
    most_tokens: int | None
    seed: int | None
    wants_object: bool
    json_schema: Any
    tools: frozenset[str]
    streams: bool
    streams_usage: bool

    @property
    def question(self) -> str:
        """The user's messages, the last one first: what is asked stands there."""
        said = [turn.text for turn in reversed(self.turns) if turn.role == "user"]
        return "\n\n".join(said) or self.instructions

    @property
    def instructions(self) -> str:
        """Everything that was said by others than the model."""
        return "\n\n".join(turn.text for turn in self.turns if turn.role != "assistant")

    @property
    def answered(self) -> tuple[str, ...]:
        """What tools answered since the user last spoke."""
        last = max((place for place, turn in enumerate(self.turns) if turn.role == "user"), default=-1)
        return tuple(turn.text for turn in self.turns[last + 1 :] if turn.role in ("tool", "function"))

    @property
    def used_tools(self) -> frozenset[str]:
        """Names of the tools that were called since the user last spoke."""
        used: set[str] = set()
        for turn in self.turns:
            used = set() if turn.role == "user" else used | set(turn.tools)
        return frozenset(used)


def _text(content: Any) -> str:
    """The text of a message, whether it is one or a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        return "\n".join(str(part.get("text", "")) for part in content)
    raise invalid("Invalid type for 'messages[].content': expected a string or an array of parts.", "messages")


def _turn(message: Any) -> Turn:
    if not isinstance(message, Mapping) or message.get("role") not in _ROLES:
        raise invalid(f"Invalid value for 'messages[].role': supported values are {', '.join(_ROLES)}.", "messages")
    calls = message.get("tool_calls") or ()
    names = [
        call.get("function", {}).get("name") for call in calls if isinstance(call, Mapping) and isinstance(call.get("function"), Mapping)
    ]
    return Turn(message["role"], _text(message.get("content")), tuple(name for name in names if isinstance(name, str)))


def _integer(body: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise invalid(f"Invalid value for '{name}': expected an integer from {least} to {most}.", name)
    return value


def _personality(model: Any) -> Personality:
    if not isinstance(model, str) or not model:
        raise invalid("you must provide a model parameter", "model")
    found = PERSONALITIES.get(model.rpartition("/")[2])
    if found is None:
        message = f"The model '{model[:100]}' does not exist; the sandbox has {', '.join(PERSONALITIES)}."
        raise BadRequest(OpenAIError(404, message, "invalid_request_error", "model_not_found"))
    return found


def _format(body: Mapping[str, Any]) -> tuple[bool, Any]:
    """Whether an object is demanded, and the schema that it must meet."""
    asked = body.get("response_format")
    if asked is None:
        return False, None
    kind = asked.get("type") if isinstance(asked, Mapping) else None
    if kind not in ("text", "json_object", "json_schema"):
        raise invalid("Invalid value for 'response_format.type': supported values are text, json_object, json_schema.", "response_format")
    if kind != "json_schema":
        return kind == "json_object", None
    wrapped = asked.get("json_schema")
    schema = wrapped.get("schema") if isinstance(wrapped, Mapping) else None
    if not isinstance(schema, Mapping):
        raise invalid("Missing required parameter: 'response_format.json_schema.schema'.", "response_format")
    return True, schema


def _tools(body: Mapping[str, Any]) -> frozenset[str]:
    """Names of the functions that may be called."""
    try:
        names = frozenset(str(entry["function"]["name"]) for entry in body.get("tools") or ())
    except (KeyError, TypeError):
        raise invalid("Invalid value for 'tools': each must be a function with a name.", "tools") from None
    return frozenset() if body.get("tool_choice") == "none" else names


def read(content: bytes) -> ChatRequest:
    """Read the body of a chat request. Raises `BadRequest`."""
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise invalid("We could not parse the JSON body of your request.") from None
    if not isinstance(body, Mapping):
        raise invalid("The body of your request must be a JSON object.")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise invalid("Missing required parameter: 'messages'.", "messages")
    wants_object, schema = _format(body)
    options = body.get("stream_options")
    return ChatRequest(
        personality=_personality(body.get("model")),
        model=body["model"],
        turns=tuple(_turn(message) for message in messages),
        choices=_integer(body, "n", 1, MOST_CHOICES) or 1,
        most_tokens=_integer(body, "max_completion_tokens", 1, 1 << 30) or _integer(body, "max_tokens", 1, 1 << 30),
        seed=_integer(body, "seed", -(1 << 63), (1 << 63) - 1),
        wants_object=wants_object,
        json_schema=schema,
        tools=_tools(body),
        streams=body.get("stream") is True,
        streams_usage=isinstance(options, Mapping) and options.get("include_usage") is True,
    )
