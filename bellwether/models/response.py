"""Parser of model responses in OpenAI's forms (chat completions, also as a stream of events, and Responses), and the result of an attempt.

Any body can be parsed; faults are described, not raised. Failures are classified in failures.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

import orjson

from bellwether.journal.values import Outcome, Reply, Served, Usage
from bellwether.models.failures import (
    SHORTEST_SECRET,
    Classification,
    ProviderError,
    Stop,
    classify_error,
    classify_failure,
    classify_redirect,
    retry_after,
    tidy_reason,
)
from bellwether.models.prices import NO_TOKENS, UNBILLED, Tokens, build_usage

if TYPE_CHECKING:
    from bellwether.models.model import Model

_THOUGHT = re.compile(r"\s*<(think|thinking)>")
_LARGEST = 2**62
#: Fields sent back within a turn of tool calls: reasoning (DeepSeek, Moonshot; OpenRouter; Anthropic) and signatures of calls (Google).
_THOUGHTS = ("reasoning_content", "reasoning_details", "thinking_blocks")
_SIGNATURES = ("extra_content", "provider_specific_fields")
#: Providers that charge only for successful responses (Google's billing pages; OpenRouter's zero completion insurance).
_CHARGES_SUCCESS_ONLY = frozenset({"gemini", "vertex_ai", "openrouter"})
_REQUEST_IDS = ("x-request-id", "request-id", "x-generation-id", "cf-ray")
#: Maximum characters of a name that a response states.
_LONGEST_NAME = 200


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


# --- results ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RawReply:
    """HTTP response as received: status and headers (names in lower case) if they arrived, and the part of the body that was read."""

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    latency_ms: int | None = None

    def redact(self, secret: str | None) -> RawReply:
        """Return the response with the API key `secret` removed from the body."""
        if secret is None or len(secret) < SHORTEST_SECRET or secret.encode() not in self.body:
            return self
        return replace(self, body=self.body.replace(secret.encode(), b"***"))


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """Result of one attempt at a model call, successful or not.

    Attributes:
        outcome: `OK`, or why there is no usable answer.
        reply: body, texts, usage and cost as far as known; also for failures.
        reason: of a failure, one line of at most 300 characters, without credentials; "" for `OK`.
        retry_after: seconds to wait as requested by the provider; None without a request.
        tool_calls: tools that the model calls.
        stop: set when no further call of this model can succeed.
        permanent: whether the same request would be rejected again, as an invalid one; always with `stop`.
        unreachable: whether no connection to the endpoint was made, so that nothing was sent.
    """

    outcome: Outcome
    reply: Reply
    reason: str = ""
    retry_after: float | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    stop: Stop | None = None
    permanent: bool = False
    unreachable: bool = False


def classify(model: Model, raw: RawReply, *, secret: str | None = None) -> AttemptResult:
    """Classify a complete response. Never raises, even for a malformed body. secret: API key to remove from the body."""
    raw = raw.redact(secret)
    status = raw.status or 200
    message = read_reply(raw.body)
    if 300 <= status < 400 and (target := raw.headers.get("location")):
        kind = classify_redirect(model, status, target)
    else:
        kind = _classify_rejection(status, raw.body, message) if status >= 300 else _classify_answer(message)
    reply = build_reply(raw, message, _compute_usage(model, status, message, kind))
    return AttemptResult(
        kind.outcome,
        reply,
        tidy_reason(kind.reason, secret) if kind.reason else "",
        None if kind.outcome is Outcome.OK else retry_after(raw.status, raw.headers, raw.body),
        message.tool_calls,
        kind.stop,
        kind.permanent or kind.stop is not None,
    )


def build_reply(raw: RawReply, message: Message, usage: Usage) -> Reply:
    """Build the journal's record of a response. message: its parsed body; usage: its tokens and cost."""
    request_id = next(filter(None, map(raw.headers.get, _REQUEST_IDS)), None) or message.request_id
    return Reply(
        body=raw.body,
        content=message.content,
        reasoning=message.reasoning,
        finish_reason=message.finish_reason,
        usage=usage,
        http_status=raw.status,
        request_id=_clean_name(request_id),
        latency_ms=raw.latency_ms,
        served=Served(_clean_name(message.model), _clean_name(message.system_fingerprint), _clean_name(message.provider)),
    )


def _compute_usage(model: Model, status: int, message: Message, kind: Classification) -> Usage:
    """Return tokens and cost of a response. The cost is 0 if the provider does not bill it."""
    free = kind.unbilled or (status >= 300 and model.api_base is None and model.provider in _CHARGES_SUCCESS_ONLY)
    return UNBILLED if free and not message.usage else build_usage(model, message.tokens, message.usage)


def _classify_rejection(status: int, body: bytes, message: Message) -> Classification:
    """Classify a response with an error status. Some providers send a filtered completion as its body."""
    if parse_ending(message.finish_reason) is Ending.FILTERED or message.refusal:
        return Classification(
            Outcome.REFUSAL, f"HTTP {status}: the provider withheld the answer: {message.refusal or message.finish_reason}", permanent=True
        )
    return classify_failure(status, ProviderError.from_body(decode_body(body), describe_flaw(body)))


def _classify_answer(message: Message) -> Classification:
    """Classify the content of a response with status 200."""
    if message.error and not message.has_answer:
        return classify_error(message.error)
    if message.flaw:
        return Classification(Outcome.MALFORMED, f"HTTP 200 with {message.flaw}")
    return _classify_ending(message) or _classify_empty(message) or Classification(Outcome.OK)


def _classify_ending(message: Message) -> Classification | None:
    """Classify an answer that a limit, a filter or an error of the provider ended; None for other answers."""
    ending = parse_ending(message.finish_reason)
    if ending is Ending.BROKEN:
        return Classification(Outcome.PROVIDER_ERROR, f"the provider ended the answer: {message.finish_reason}")
    if ending is Ending.FILTERED:
        return Classification(Outcome.REFUSAL, f"the provider withheld the answer: {message.refusal or message.finish_reason}")
    if ending is Ending.CUT:
        used = message.tokens.completion
        return Classification(Outcome.TRUNCATION, f"the answer was cut at its limit of tokens ({'unknown' if used is None else used} used)")
    return None


def _classify_empty(message: Message) -> Classification | None:
    """Classify a message with neither text nor tool calls, such as a refusal; None for other messages."""
    if message.has_answer:
        return None
    if message.refusal:
        return Classification(Outcome.REFUSAL, f"the model refused: {message.refusal}")
    problem = "reasoning without an answer" if message.reasoning else "an answer without text"
    return Classification(Outcome.MALFORMED, f"{problem} (finish reason: {message.finish_reason or 'none'})")


def _clean_name(text: str | None) -> str | None:
    """Return a short text with only printable characters; None if nothing is left."""
    return "".join(sign for sign in text if sign.isprintable()).strip()[:_LONGEST_NAME] or None if text else None


# --- next step ------------------------------------------------------------------------------------------------------


class NextStep(Enum):
    """Next action of the client after an attempt.

    ANSWER: store it as the answer; also a truncated or filtered text, in which the parser may find the forecast.
    FINAL: the model's final output without an answer (refused, filtered, or reasoning only): stored and never requested again.
    AGAIN: failure of the connection or the provider: retry now, and in the next run.
    REFUSED: the provider rejects this request without billing it: retry in the next run only.
    STOP: no call of this model can succeed.
    """

    ANSWER = auto()
    FINAL = auto()
    AGAIN = auto()
    REFUSED = auto()
    STOP = auto()


_FINAL_OUTCOMES = frozenset({Outcome.OK, Outcome.REFUSAL, Outcome.TRUNCATION})


def decide_next_step(result: AttemptResult) -> NextStep:
    """Decide what the client does after an attempt with this result."""
    reply = result.reply
    if result.stop is not None:
        return NextStep.STOP
    if result.outcome in _FINAL_OUTCOMES:
        has_text = bool((reply.content or "").strip())
        return NextStep.ANSWER if has_text or (result.outcome is Outcome.OK and result.tool_calls) else NextStep.FINAL
    if result.permanent:
        return NextStep.REFUSED
    has_output = reply.finish_reason is not None or bool(reply.usage.completion_tokens)
    return NextStep.FINAL if result.outcome is Outcome.MALFORMED and has_output else NextStep.AGAIN
