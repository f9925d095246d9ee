"""Reads the body of a chat completion in OpenAI's form, as providers really write it; never raises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from bellwether.models.ending import Ending, ending_of
from bellwether.models.prices import NO_TOKENS, Tokens
from bellwether.models.wire.call import ToolCall

_THOUGHT = re.compile(r"\s*<(think|thinking)>")
_LARGEST = 2**62
#: Reasoning that is sent back within a turn of tool calls (DeepSeek, Moonshot; OpenRouter; Anthropic), and signatures of calls (Google).
_THOUGHTS = ("reasoning_content", "reasoning_details", "thinking_blocks")
_SIGNATURES = ("extra_content", "provider_specific_fields")


@dataclass(frozen=True, slots=True)
class Message:
    """What a body says.

    Attributes:
        content: the answer's text, as it came, a leading <think> block included; None where there is none.
        reasoning: from a field of its own, or from that block.
        refusal: the words of a refusal in a field of its own.
        finish_reason: why the model stopped, in the provider's word.
        tool_calls: tools that the model asks for.
        thoughts: fields with the reasoning as the provider wants them back, together with the results of these tools.
        tokens: what was used.
        usage: the usage object as it came.
        error: the error object, where the body has one.
        flaw: what is wrong with the body; "" where it has a message.
        request_id: the body's own id.
        model, system_fingerprint, provider: what served it, as the body states.
    """

    content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    finish_reason: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    thoughts: Mapping[str, Any] = field(default_factory=dict)
    tokens: Tokens = NO_TOKENS
    usage: Mapping[str, Any] = field(default_factory=dict)
    error: Any = None
    flaw: str = ""
    request_id: str | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    provider: str | None = None

    @property
    def answers(self) -> bool:
        """Whether there is an answer: text beyond the reasoning, or a call of a tool."""
        return bool(self.tool_calls) or bool(_parted(self.content or "")[1].strip())


def read_reply(body: bytes) -> Message:
    """What a body says, of a new answer or of a stored one."""
    whole = decoded(body)
    if not isinstance(whole, Mapping):
        return Message(flaw=flaw_of(body))
    usage = _mapping(whole.get("usage"))
    known: dict[str, Any] = {"usage": usage, "tokens": _tokens(usage), "request_id": _text(whole.get("id"))}
    known |= {name: _text(whole.get(name)) for name in ("model", "system_fingerprint", "provider")}
    choices = whole.get("choices")
    choice = _mapping(choices[0]) if isinstance(choices, list) and choices else {}
    error = whole.get("error") or choice.get("error")
    if not choice:
        return Message(**known, error=error, flaw="an error" if error else "no choices")
    message = _mapping(choice.get("message"))
    content, thoughts = _content(message.get("content"))
    return Message(
        **known,
        error=error,
        flaw="" if message else "a choice without a message",
        content=content,
        reasoning=_reasoning(message) or thoughts or _thought(content),
        refusal=_text(message.get("refusal")) or _text(_mapping(message.get("provider_specific_fields")).get("refusal")),
        finish_reason=_finish_reason(choice),
        tool_calls=tuple(_tool_calls(message.get("tool_calls"))),
        thoughts=_kept(message, _THOUGHTS),
    )


def _finish_reason(choice: Mapping[str, Any]) -> str | None:
    """The gateway's word; or the provider's own beside it (OpenRouter), where only that one says how the answer ended."""
    said, native = _text(choice.get("finish_reason")), _text(choice.get("native_finish_reason"))
    unsaid = ending_of(said) is Ending.UNKNOWN or (ending_of(said) is Ending.NORMAL and ending_of(native) is Ending.CUT)
    return native if native is not None and unsaid else said


def decoded(body: bytes) -> Any:
    """The body as JSON; None where it is none. Lone surrogates, control characters and NaN in it are let pass: the answer was paid for."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(body.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None


def flaw_of(body: bytes) -> str:
    """What a body is that is no JSON object."""
    if not body.strip():
        return "an empty body"
    return "a web page (HTML)" if body.lstrip().startswith(b"<") else f"a body of {len(body)} bytes that is no JSON object"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


# --- texts -------------------------------------------------------------------------------------------------------------


def _content(content: Any) -> tuple[str | None, str | None]:
    """The text and the reasoning of a content that is a text or a list of parts (Mistral's reasoning models)."""
    if not isinstance(content, list):
        return (content if isinstance(content, str) else None), None
    parts = [_mapping(part) for part in content]
    said = "".join(_text(part.get("text")) or "" for part in parts if part.get("type") in ("text", "output_text"))
    return said or None, _joined(_thinking(part) for part in parts)


def _thinking(part: Mapping[str, Any]) -> str | None:
    """The reasoning in one block: Anthropic's `thinking`, Mistral's list of texts, OpenRouter's `reasoning.text` and `reasoning.summary`."""
    thinking = part.get("thinking")
    if isinstance(thinking, list):
        return _joined(_text(_mapping(one).get("text")) for one in thinking)
    if str(part.get("type", "")).startswith("reasoning"):
        return _text(part.get("text")) or _text(part.get("summary"))
    return _text(thinking)


def _reasoning(message: Mapping[str, Any]) -> str | None:
    named = _text(message.get("reasoning_content")) or _text(message.get("reasoning"))
    if named:
        return named
    blocks = message.get("thinking_blocks") or message.get("reasoning_details")
    return _joined(_thinking(_mapping(block)) for block in blocks) if isinstance(blocks, list) else None


def _thought(content: str | None) -> str | None:
    return _parted(content or "")[0].strip() or None


def _parted(content: str) -> tuple[str, str]:
    """The text of a <think> block with which the content begins, and what follows it; a block that never ends goes to the end."""
    opened = _THOUGHT.match(content)
    if opened is None:
        return "", content
    thought, _, rest = content[opened.end() :].partition(f"</{opened[1]}>")
    return thought, rest


def _joined(texts: Iterable[str | None]) -> str | None:
    return "\n".join(text for text in texts if text) or None


def _tool_calls(calls: Any) -> Iterable[ToolCall]:
    for call in calls if isinstance(calls, list) else ():
        function = _mapping(_mapping(call).get("function"))
        name = _text(function.get("name"))
        if name is None:
            continue
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments if arguments is not None else {}, ensure_ascii=False)
        yield ToolCall(_text(call.get("id")) or "", name, text, _kept(call, _SIGNATURES))


def _kept(found: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: found[name] for name in names if found.get(name)}


# --- usage -------------------------------------------------------------------------------------------------------------


def _count(value: Any) -> int | None:
    """A number of tokens; None for what is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST else None


def _first(*values: Any) -> int | None:
    return next((count for value in values if (count := _count(value)) is not None), None)


def _tokens(usage: Mapping[str, Any]) -> Tokens:
    prompt, completion, total = (_count(usage.get(f"{name}_tokens")) for name in ("prompt", "completion", "total"))
    put_in, put_out = _mapping(usage.get("prompt_tokens_details")), _mapping(usage.get("completion_tokens_details"))
    reasoning = _first(put_out.get("reasoning_tokens"), usage.get("reasoning_tokens"))
    if prompt is not None and completion is not None and total is not None and total > prompt + completion:
        completion = total - prompt  # xAI and Google count the reasoning beside the completion, but charge it alike
    return Tokens(
        prompt=prompt,
        completion=completion,
        reasoning=reasoning,
        cached=_first(put_in.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cache_read_input_tokens")) or 0,
        written=_first(put_in.get("cache_write_tokens"), put_in.get("cache_creation_tokens"), usage.get("cache_creation_input_tokens"))
        or 0,
    )
