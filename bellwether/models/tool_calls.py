"""Tools that language models call: their definitions in the format of the OpenAI API, the parsing of arguments, and the messages of a call."""

from __future__ import annotations

import inspect
import json
import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from bellwether.errors import BellwetherError
from bellwether.models.response import ToolCall

if TYPE_CHECKING:
    from bellwether.models.client import Answer

#: Maximum characters of a call's arguments.
MOST_CHARACTERS = 20_000
#: Tool names that all providers accept.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolError(BellwetherError):
    """Invalid arguments of a tool call. The message is returned to the model."""


class _Schema(GenerateJsonSchema):
    """JSON schema with keywords that all providers support."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        return {"type": "number", "minimum": float(schema["ge"]), "maximum": float(schema["le"])}

    def literal_schema(self, schema: Any) -> dict[str, Any]:
        return {"type": "string", "enum": schema["expected"]}

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])


class ToolArguments(BaseModel):
    """Arguments of a tool. The docstring of a subclass is the description that the model reads. tool: its name."""

    model_config = ConfigDict(extra="forbid")
    tool: ClassVar[str]

    @classmethod
    def definition(cls) -> dict[str, Any]:
        """Return the tool in the format of the OpenAI API."""
        schema = cls.model_json_schema(schema_generator=_Schema)
        parameters = {key: value for key, value in schema.items() if key not in ("title", "description")}
        return {"type": "function", "function": {"name": cls.tool, "description": inspect.getdoc(cls), "parameters": parameters}}

    @classmethod
    def parse(cls, arguments: str) -> Self:
        """Parse the arguments of a call, as the model wrote them. Raises `ToolError` for invalid ones."""
        if len(arguments) > MOST_CHARACTERS:
            raise ToolError(f"the arguments have {len(arguments)} characters; at most {MOST_CHARACTERS} are read")
        try:
            return cls.model_validate_json(arguments.strip() or "{}")
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise ToolError(": ".join([*map(str, first["loc"][:1]), first["msg"]])[:300]) from None


def build_turn(answer: Answer, number: int, most: int) -> tuple[dict[str, Any], list[ToolCall]]:
    """Return an answer as a message of the next request, and its first `most` tool calls, whose ids are unique. number: number of the answer."""
    calls = list[ToolCall]()
    for position, call in enumerate(answer.tool_calls[:most]):
        unique = call.id if call.id and call.id not in {earlier.id for earlier in calls} else f"call_{number}_{position}"
        calls.append(replace(call, id=unique))
    called = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": call.name if _NAME.fullmatch(call.name) else "unknown_tool",
                "arguments": _valid_arguments(call.arguments),
            },
            **call.signed,
        }
        for call in calls
    ]
    message = {"role": "assistant", "content": answer.content or None, **answer.thoughts, **({"tool_calls": called} if called else {})}
    return message, calls


def _valid_arguments(text: str) -> str:
    """Return the text if it is a JSON object; otherwise a JSON object that contains the text, which providers accept."""
    with suppress(ValueError, RecursionError):
        if isinstance(json.loads(text), dict):
            return text
    return json.dumps({"unreadable": text[:1000]} if text.strip() else {})
