"""Parsing of chat requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.responses import Response

from bellwether.sandbox.models.personalities import PERSONALITIES, Personality

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


@dataclass(frozen=True, slots=True)
class OpenAIError:
    """Error of the model endpoint, in OpenAI's format."""

    status: int
    message: str
    kind: str
    code: str | None = None
    param: str | None = None

    def response(self) -> Response:
        """Build the error response."""
        body = {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}
        return Response(orjson.dumps(body), self.status, media_type="application/json")


class BadRequest(Exception):
    """Invalid chat request, to which the endpoint responds with `error`."""

    def __init__(self, error: OpenAIError) -> None:
        self.error = error
        super().__init__(error.message)


def refuse_invalid(message: str, param: str | None = None) -> BadRequest:
    """Build the error of HTTP 400."""
    return BadRequest(OpenAIError(400, message, "invalid_request_error", None, param))


@dataclass(frozen=True, slots=True)
class Turn:
    """Message of a chat: role, text, and names of the tools that it called."""

    role: str
    text: str
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Body of POST /chat/completions. json_schema: None unless the request demands one. tools: names of the offered functions."""

    personality: Personality
    model: str
    turns: tuple[Turn, ...]
    most_tokens: int | None
    seed: int | None
    wants_object: bool
    json_schema: Any
    tools: frozenset[str]

    @property
    def question(self) -> str:
        """The user's messages, last one first; all messages except the model's if the user wrote none."""
        texts = [turn.text for turn in reversed(self.turns) if turn.role == "user"]
        return "\n\n".join(texts) or self.instructions

    @property
    def instructions(self) -> str:
        """All messages except the model's."""
        return "\n\n".join(turn.text for turn in self.turns if turn.role != "assistant")

    @property
    def tool_results(self) -> tuple[str, ...]:
        """Results of tools since the last user message."""
        last = max((place for place, turn in enumerate(self.turns) if turn.role == "user"), default=-1)
        return tuple(turn.text for turn in self.turns[last + 1 :] if turn.role in ("tool", "function"))

    @property
    def used_tools(self) -> frozenset[str]:
        """Names of the tools called since the last user message."""
        used: set[str] = set()
        for turn in self.turns:
            used = set() if turn.role == "user" else used | set(turn.tools)
        return frozenset(used)


def _text(content: Any) -> str:
    """Return the text of a message, from a string or a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        return "\n".join(str(part.get("text", "")) for part in content)
    raise refuse_invalid("Invalid type for 'messages[].content': expected a string or an array of parts.", "messages")


def _turn(message: Any) -> Turn:
    if not isinstance(message, Mapping) or message.get("role") not in _ROLES:
        raise refuse_invalid(f"Invalid value for 'messages[].role': supported values are {', '.join(_ROLES)}.", "messages")
    names = (call.get("function", {}).get("name") for call in message.get("tool_calls") or ())
    return Turn(message["role"], _text(message.get("content")), tuple(map(str, names)))


def _integer(body: Mapping[str, Any], name: str, least: int) -> int | None:
    value = body.get(name)
    if value is not None and (type(value) is not int or value < least):
        raise refuse_invalid(f"Invalid value for '{name}': expected an integer of at least {least}.", name)
    return value


def _personality(model: Any) -> Personality:
    if not isinstance(model, str) or not model:
        raise refuse_invalid("you must provide a model parameter", "model")
    personality = PERSONALITIES.get(model.rpartition("/")[2])
    if personality is None:
        message = f"The model '{model[:100]}' does not exist; the sandbox has {', '.join(PERSONALITIES)}."
        raise BadRequest(OpenAIError(404, message, "invalid_request_error", "model_not_found"))
    return personality


def _format(body: Mapping[str, Any]) -> tuple[bool, Any]:
    """Return whether a JSON object is demanded, and the JSON schema if one is given."""
    form = body.get("response_format") or {"type": "text"}
    if form["type"] == "json_schema":
        return True, form["json_schema"]["schema"]
    return form["type"] == "json_object", None


def _tools(body: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the offered functions."""
    names = frozenset(str(entry["function"]["name"]) for entry in body.get("tools") or ())
    return frozenset() if body.get("tool_choice") == "none" else names


def read_request(content: bytes) -> ChatRequest:
    """Parse the body of a chat request. Raises `BadRequest` for an invalid one."""
    try:
        return _read(orjson.loads(content))
    except orjson.JSONDecodeError:
        raise refuse_invalid("We could not parse the JSON body of your request.") from None
    except (AttributeError, KeyError, TypeError) as error:
        raise refuse_invalid(f"Your request has another form than a chat completion: {error}") from None


def _read(body: Mapping[str, Any]) -> ChatRequest:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise refuse_invalid("Missing required parameter: 'messages'.", "messages")
    wants_object, schema = _format(body)
    return ChatRequest(
        personality=_personality(body.get("model")),
        model=body["model"],
        turns=tuple(_turn(message) for message in messages),
        most_tokens=_integer(body, "max_completion_tokens", 1) or _integer(body, "max_tokens", 1),
        seed=_integer(body, "seed", -(1 << 63)),
        wants_object=wants_object,
        json_schema=schema,
        tools=_tools(body),
    )
