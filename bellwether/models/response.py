"""Parser of model responses in OpenAI's forms (chat completions, also as a stream of events, and Responses), and the answers returned to callers.

Any body can be parsed; faults are described, not raised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

import orjson

from bellwether.journal.request import CallKey
from bellwether.journal.values import NO_USAGE, NOT_STATED, Outcome, Served, Usage
from bellwether.models.prices import NO_TOKENS, Tokens
from bellwether.registry.model_names import is_requested
from bellwether.untrusted_text import redact

_THOUGHT = re.compile(r"\s*<(think|thinking)>")
_LARGEST = 2**62
#: Fields sent back within a turn of tool calls: reasoning (DeepSeek, Moonshot; OpenRouter; Anthropic) and signatures of calls (Google).
_THOUGHTS = ("reasoning_content", "reasoning_details", "thinking_blocks")
_SIGNATURES = ("extra_content", "provider_specific_fields")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's request to call a tool. arguments: text of the arguments, usually JSON. The tool is not called here.

    signed: further fields of the call that the provider requires back with its result.
    """

    id: str
    name: str
    arguments: str
    signed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """Contents of a response body.

    Attributes:
        content: the answer's text, verbatim, a leading <think> block included; None without text.
        reasoning: from a separate field, or from that block.
        refusal: text of a refusal in a separate field.
        finish_reason: why the model stopped, in the provider's spelling.
        tool_calls: tools that the model calls.
        thoughts: fields with reasoning that the provider requires back with the results of these tools.
        tokens: token counts.
        usage: the usage object, verbatim.
        error: the error object, if any.
        flaw: description of an invalid body; "" if it has a message.
        request_id: the body's own id.
        model, system_fingerprint, provider: of the served model, as stated by the body.
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
    def has_answer(self) -> bool:
        """True if there is a tool call, or text besides the reasoning."""
        return bool(self.tool_calls) or bool(_split_thought(self.content or "")[1].strip())


def read_reply(body: bytes) -> Message:
    """Parse the body of a response, received now or stored earlier."""
    whole = decode_body(body)
    if not isinstance(whole, Mapping):
        return Message(flaw=describe_flaw(body))
    if "choices" not in whole and isinstance(whole.get("output"), list):
        whole = _convert_response(whole)
    usage = _mapping(whole.get("usage"))
    common: dict[str, Any] = {"usage": usage, "tokens": _tokens(usage), "request_id": _text(whole.get("id"))}
    common |= {name: _text(whole.get(name)) for name in ("model", "system_fingerprint", "provider")}
    choices = whole.get("choices")
    choice = _mapping(choices[0]) if isinstance(choices, list) and choices else {}
    error = whole.get("error") or choice.get("error")
    if not choice:
        return Message(**common, error=error, flaw="an error" if error else "no choices")
    message = _mapping(choice.get("message"))
    content, thoughts = _content(message.get("content"))
    return Message(
        **common,
        error=error,
        flaw="" if message else "a choice without a message",
        content=content,
        reasoning=_reasoning(message) or thoughts or _split_thought(content or "")[0].strip() or None,
        refusal=_text(message.get("refusal")) or _text(_mapping(message.get("provider_specific_fields")).get("refusal")),
        finish_reason=_finish_reason(choice),
        tool_calls=tuple(_tool_calls(message.get("tool_calls"))),
        thoughts=_select_fields(message, _THOUGHTS),
    )


def _finish_reason(choice: Mapping[str, Any]) -> str | None:
    """Return why the answer ended: `finish_reason`, or OpenRouter's `native_finish_reason` if only the latter is informative."""
    reason, native = _text(choice.get("finish_reason")), _text(choice.get("native_finish_reason"))
    endings = parse_ending(reason), parse_ending(native)
    is_inexact = endings[0] is Ending.UNKNOWN or (endings[0] is Ending.NORMAL and endings[1] is not Ending.NORMAL)
    return native if native is not None and is_inexact else reason


#: Names of the finish reason in the formats of the providers.
_REASONS = ("finish_reason", "finishReason", "stop_reason", "stopReason", "done_reason", "completionReason", "completion_reason")


def read_finish_reason(body: Any) -> str | None:
    """Return why an answer ended as stated by a decoded body in any provider's format; None if the body does not state it."""
    whole = _mapping(_first(body))
    for part in (whole, *(_mapping(_first(value)) for value in whole.values())):
        for reason in map(part.get, _REASONS):
            if text := _text(reason) or _text(_mapping(reason).get("reason")):
                return text
    return "content_filter" if _mapping(whole.get("promptFeedback")).get("blockReason") else None


def _first(value: Any) -> Any:
    return next(iter(value), None) if isinstance(value, list) else value


def decode_body(body: bytes) -> Any:
    """Parse a body as JSON, or as a stream of events with JSON, which some servers send without a request for it; None for any other body.

    Lone surrogates, control characters and NaN are accepted, because the answer was paid for.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        text = body.decode("utf-8", "replace")
    return _join_events(text) if text.lstrip().startswith(("data:", "event:", "id:", ":")) else _load_json(text)


def _load_json(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _join_events(text: str) -> Mapping[str, Any] | None:
    """Return the body that a stream of events amounts to, of a chat completion or of Responses; None for a stream without JSON objects."""
    events = [event for line in text.splitlines() if line.startswith("data:") and isinstance(event := _load_json(line[5:]), Mapping)]
    if not events:
        return None
    if isinstance(response := events[-1].get("response"), Mapping):
        return response
    whole = {name: value for event in events for name, value in event.items() if value is not None}
    choices = [choice for event in events for choice in map(_mapping, _list(event.get("choices"))) if not choice.get("index")]
    if choices:
        reason = next((reason for choice in reversed(choices) if (reason := choice.get("finish_reason"))), None)
        message = _join_deltas(_mapping(choice.get("delta") or choice.get("message")) for choice in choices)
        whole["choices"] = [{"message": message, "finish_reason": "error" if whole.get("error") else reason}]
    return whole


def _join_deltas(deltas: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the parts of a message: texts of the same name, and the arguments of each tool call."""
    texts: dict[str, str] = {}
    calls: dict[str, dict[str, Any]] = {}
    for delta in deltas:
        for name, value in delta.items():
            if isinstance(value, str):
                texts[name] = texts.get(name, "") + value
        for part in map(_mapping, _list(delta.get("tool_calls"))):
            call = calls.setdefault(str(part.get("index")), {"function": {"name": "", "arguments": ""}})
            for name in ("name", "arguments"):
                call["function"][name] += _text(_mapping(part.get("function")).get(name)) or ""
            call |= {name: value for name, value in part.items() if name != "function" and value}
    return {**texts, "tool_calls": list(calls.values())}


def _convert_response(whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert a body of OpenAI's Responses interface to a chat completion."""
    items = [_mapping(item) for item in whole["output"]]
    parts = [_mapping(part) for item in items if item.get("type") == "message" for part in _list(item.get("content"))]
    thoughts = [
        _mapping(part)
        for item in items
        if item.get("type") == "reasoning"
        for name in ("summary", "content")
        for part in _list(item.get(name))
    ]
    message = {
        "content": _join_texts(_text(part.get("text")) for part in parts),
        "refusal": _join_texts(_text(part.get("refusal")) for part in parts),
        "reasoning_content": _join_texts(_text(part.get("text")) for part in thoughts),
        "tool_calls": [{"id": item.get("call_id"), "function": item} for item in items if item.get("type") == "function_call"],
    }
    usage = _mapping(whole.get("usage"))
    counts = {f"{chat}_tokens{suffix}": usage.get(f"{own}_tokens{suffix}") for chat, own in _COUNTS for suffix in ("", "_details")}
    reason = _text(_mapping(whole.get("incomplete_details")).get("reason"))
    status = _text(whole.get("status"))
    if status == "incomplete" and parse_ending(reason) not in (Ending.NORMAL, Ending.UNKNOWN):
        status = reason
    return {**whole, "choices": [{"message": message, "finish_reason": status}], "usage": {**usage, **counts}}


#: Names of token counts in chat completions and in Responses.
_COUNTS = (("prompt", "input"), ("completion", "output"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def describe_flaw(body: bytes) -> str:
    """Describe in a few words what a body is that is not a JSON object, such as a web page."""
    if not body.strip():
        return "an empty body"
    return "a web page (HTML)" if body.lstrip().startswith(b"<") else f"a body of {len(body)} bytes that is no JSON object"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


# --- finish reasons -------------------------------------------------------------------------------------------------


class Ending(Enum):
    """Reason why an answer ended, in the same terms for all providers.

    NORMAL: ended by the model, or with a tool call. CUT: at a limit of tokens, context or time.
    FILTERED: withheld by a filter, or refused. BROKEN: by an error of the provider. UNKNOWN: no reason, or an undocumented one.
    """

    NORMAL = auto()
    CUT = auto()
    FILTERED = auto()
    BROKEN = auto()
    UNKNOWN = auto()


_NORMAL = """
stop eos eos_token stop_token stop_sequence stop_sequences stop_criteria_met end_turn end_of_turn end_of_text endoftext complete completed finish finished done
tool_calls tool_call tool_use function_call function_calls
"""
_CUT = """
length max_tokens max_token max_length max_len max_new_tokens max_output_tokens max_completion_tokens max_tokens_reached model_length token_limit
token_limit_reached output_limit limit incomplete not_finished pause_turn truncated
max_context context_length context_length_exceeded model_context_window_exceeded context_window_exceeded error_limit time_limit max_time
"""
_FILTERED = """
content_filter content_filtered content_filter_error refusal refused safety sensitive recitation blocklist blocked prohibited_content spii image_safety
guardrail_intervened guardrails error_toxic
"""
_BROKEN = """
error failed abort aborted cancelled canceled user_cancel timeout network_error insufficient_system_resource
malformed_function_call malformed_tool_use malformed_model_output malformed_response unexpected_tool_call
"""
_ENDINGS: Final = {
    reason: ending
    for ending, reasons in ((Ending.NORMAL, _NORMAL), (Ending.CUT, _CUT), (Ending.FILTERED, _FILTERED), (Ending.BROKEN, _BROKEN))
    for reason in reasons.split()
}
#: Names of enumerations, which some gateways put before a reason.
_PREFIXES = ("finish_reason_", "finishreason.", "stop_reason_", "stopreason.", "reason_")


def parse_ending(reason: str | None) -> Ending:
    """Return the meaning of a provider's finish reason, in any spelling; UNKNOWN for None."""
    name = (reason or "").strip().lower().replace("-", "_").replace(" ", "_")
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return _ENDINGS.get(name, Ending.UNKNOWN)


# --- answers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer, as stored in the journal.

    Attributes:
        key: of the call.
        content: the answer's text; "" if the model only calls tools.
        reasoning: its reasoning, if the provider shows it.
        finish_reason: why it stopped, in the provider's spelling; see `ended`.
        usage, latency_ms: of the attempt with the answer.
        attempts: the number of that attempt, from 1.
        spent: usage of all attempts of the call, including failed ones; a sum is None if any part is unknown.
        reused: whether it was taken from the journal without payment.
        tool_calls: tools that the model calls.
        thoughts: fields that the provider requires back in the message with these calls.
        served: served model, as stated by the response.
    """

    key: CallKey
    content: str
    reasoning: str | None = field(default=None, repr=False)
    finish_reason: str | None = None
    usage: Usage = NO_USAGE
    latency_ms: int | None = None
    attempts: int = 1
    reused: bool = False
    tool_calls: tuple[ToolCall, ...] = ()
    thoughts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    spent: Usage = NO_USAGE
    served: Served = NOT_STATED

    @property
    def ended(self) -> bool:
        """True if the model itself ended the text; False if a limit cut it, or if the finish reason is unknown."""
        return parse_ending(self.finish_reason) is Ending.NORMAL

    @property
    def cut(self) -> bool:
        """True if a limit ended the text, according to the finish reason."""
        return parse_ending(self.finish_reason) is Ending.CUT


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A call without an answer, and the reason.

    Attributes:
        key: of the call.
        outcome, reason: of the last attempt.
        attempts, usage: of all its attempts so far, in this run and earlier ones.
        final: whether the failure is final; otherwise the next run retries the call.
        reused: whether the final failure was taken from the journal.
    """

    key: CallKey
    outcome: Outcome
    reason: str
    attempts: int
    usage: Usage = NO_USAGE
    final: bool = False
    reused: bool = False

    @property
    def without_text(self) -> bool:
        """True if the model responded without usable text (empty, or reasoning only), so that another request may bring it."""
        return self.final and self.outcome in (Outcome.MALFORMED, Outcome.TRUNCATION)


# --- texts -------------------------------------------------------------------------------------------------------------


def _content(content: Any) -> tuple[str | None, str | None]:
    """Split a message's content into text and reasoning. content: a text, or a list of blocks (Mistral's reasoning models)."""
    if not isinstance(content, list):
        return (content if isinstance(content, str) else None), None
    parts = [_mapping(part) for part in content]
    text = "".join(_text(part.get("text")) or "" for part in parts if part.get("type") in ("text", "output_text"))
    return text or None, _join_texts(_thinking(part) for part in parts)


def _thinking(part: Mapping[str, Any]) -> str | None:
    """Return the reasoning in one block of content, in the form of Anthropic, Mistral or OpenRouter; None for a block without reasoning."""
    thinking = part.get("thinking")
    if isinstance(thinking, list):
        return _join_texts(_text(_mapping(item).get("text")) for item in thinking)
    if str(part.get("type", "")).startswith("reasoning"):
        return _text(part.get("text")) or _text(part.get("summary"))
    return _text(thinking)


def _reasoning(message: Mapping[str, Any]) -> str | None:
    """Return the reasoning in a message's separate fields; None without such fields."""
    named = _text(message.get("reasoning_content")) or _text(message.get("reasoning"))
    if named:
        return named
    blocks = message.get("thinking_blocks") or message.get("reasoning_details")
    return _join_texts(_thinking(_mapping(block)) for block in blocks) if isinstance(blocks, list) else None


def _split_thought(content: str) -> tuple[str, str]:
    """Split a content that starts with a <think> block into reasoning and text. A block without an end is text, which may end with an answer."""
    opened = _THOUGHT.match(content)
    if opened is None:
        return "", content
    thought, closing, rest = content[opened.end() :].partition(f"</{opened[1]}>")
    return (thought, rest) if closing else ("", content)


def _join_texts(texts: Iterable[str | None]) -> str | None:
    return "\n".join(text for text in texts if text) or None


def _tool_calls(calls: Any) -> Iterable[ToolCall]:
    for call in _list(calls):
        function = _mapping(_mapping(call).get("function"))
        name = _text(function.get("name"))
        if name is None:
            continue
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments if arguments is not None else {}, ensure_ascii=False)
        yield ToolCall(_text(call.get("id")) or "", name, text, _select_fields(call, _SIGNATURES))


def _select_fields(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if fields.get(name)}


# --- usage -------------------------------------------------------------------------------------------------------------


def _parse_count(value: Any) -> int | None:
    """Return a number of tokens; None if the value is not a count."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST else None


def _first_integer(*values: Any) -> int | None:
    return next((count for value in values if (count := _parse_count(value)) is not None), None)


def _tokens(usage: Mapping[str, Any]) -> Tokens:
    prompt, completion, total = (_parse_count(usage.get(f"{name}_tokens")) for name in ("prompt", "completion", "total"))
    prompt_details, completion_details = _mapping(usage.get("prompt_tokens_details")), _mapping(usage.get("completion_tokens_details"))
    reasoning = _first_integer(completion_details.get("reasoning_tokens"), usage.get("reasoning_tokens"))
    if prompt is not None and completion is not None and total is not None and total > prompt + completion:
        completion = total - prompt  # xAI and Google count reasoning separately from the completion, but charge the same price.
    return Tokens(
        prompt=prompt,
        completion=completion,
        reasoning=reasoning,
        cached=_first_integer(
            prompt_details.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cache_read_input_tokens")
        )
        or 0,
        written=_first_integer(
            prompt_details.get("cache_write_tokens"), prompt_details.get("cache_creation_tokens"), usage.get("cache_creation_input_tokens")
        )
        or 0,
    )


# --- served model ---------------------------------------------------------------------------------------------------

#: Response headers that name the model: Cloudflare's, ngrok's and Kong's AI gateways, and LiteLLM's proxy (its group after a fallback).
MODEL_HEADERS = ("cf-aig-model", "ngrok-aig-model", "x-kong-llm-model", "x-litellm-model-group")
#: Response headers that name the provider or deployment behind a gateway: LiteLLM's proxy, Cloudflare.
ROUTE_HEADERS = ("x-litellm-model-id", "cf-aig-provider")
_LONGEST = 200


def read_served(message: Message, headers: Mapping[str, str] | None = None, requested: str | None = None) -> Served:
    """Return which model and provider sent a response, as stated in the body and in the headers (names in lower case).

    A model that contradicts `requested` takes precedence.
    """
    headers = headers or {}
    names = [name for name in (message.model, *map(headers.get, MODEL_HEADERS)) if name and not name.endswith("/*")]
    others = (name for name in names if requested is not None and not is_requested(requested, name))
    routes = (message.provider, *map(headers.get, ROUTE_HEADERS))
    return Served(
        _clean_text(next(others, None) or next(iter(names), None)),
        _clean_text(message.system_fingerprint),
        _clean_text(next(filter(None, routes), None)),
    )


def _clean_text(text: str | None) -> str | None:
    """Return a short text with only printable characters and without credentials; None if nothing is left."""
    return redact("".join(sign for sign in text if sign.isprintable()).strip()[:_LONGEST]) or None if text else None
