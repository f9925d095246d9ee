"""Sending of model calls over an HTTP client that records each request and response.

The client sends one request per call, reads at most `LARGEST_BODY` bytes of the answer, and keeps its status, headers and body verbatim.

- Endpoints with OpenAI's chat completions receive messages and parameters of the call verbatim.
- For other providers LiteLLM builds the request and translates the answer. It gets the client through its public `client`, `aclient_session` and
  `in_memory_llm_clients_cache`.
- The provider's body is stored if it is in a form of OpenAI's (chat completions, Responses) or a failure. For other formats (anthropic, gemini,
  bedrock, …) LiteLLM's translation is stored, with the finish reason, model and id of the provider's body.
- A provider for which LiteLLM would send several requests, such as Replicate, cannot be used: only the first is sent.
- Search services get the client through their own packages (search.py).

Parameters are never dropped: a parameter that a provider rejects is a failure with the provider's message, and costs nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import ssl
import time
import warnings
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import httpx
import orjson

from bellwether.formatting import replace_surrogates
from bellwether.journal.values import Outcome
from bellwether.models.failures import strip_address, tidy_reason
from bellwether.models.prices import UNBILLED, build_usage, find_listing
from bellwether.models.providers import BY_PREFIX, SANDBOX, SEARCH, provider_name
from bellwether.models.response import AttemptResult, Message, RawReply, build_reply, classify, decode_body, read_finish_reason, read_reply
from bellwether.models.search import build_search_result, find_obstacle, send_search
from bellwether.venues.http.retry import ENCODINGS, OversizedBody, read_body

if TYPE_CHECKING:
    from bellwether.models.keys import Endpoint
    from bellwether.models.model import Model

#: Maximum bytes of a body; longer ones are not read.
LARGEST_BODY = 8 << 20
#: Bytes stored of a longer body.
_KEPT = 100_000
_CONNECT_SECONDS, _KEEP_ALIVE_SECONDS = 30.0, 30.0
_BEARER = "Bearer "
#: Parameters with another name in a provider's own interface. OpenAI's reasoning models reject `max_tokens`.
_RENAMED: Mapping[str, Mapping[str, str]] = {"openai": {"max_tokens": "max_completion_tokens"}, "mistral": {"seed": "random_seed"}}
#: Environment variables of LiteLLM: no price map or list of headers from the network, no .env file of the folder.
_ENVIRONMENT = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True", "LITELLM_MODE": "PRODUCTION"}
#: LiteLLM's prefix of a provider's message.
_WRAPPING = re.compile(r"^(?:litellm\.)?(?:\w+Error: (?:litellm\.)?)*(?:\w*(?:Exception|Error) - )?")


@dataclass(frozen=True, slots=True)
class ModelCall:
    """Content and address of one request to a provider.

    Attributes:
        model: the registry's entry; its id, prices and timeout are used.
        endpoint: address and key.
        messages: in OpenAI's form, sent verbatim.
        parameters: the model's `request_parameters`, and response_format, tools, … of this call.
    """

    model: Model
    endpoint: Endpoint
    messages: Sequence[Mapping[str, Any]]
    parameters: Mapping[str, Any] = field(default_factory=dict)


class Wire(Protocol):
    """Interface for sending calls to providers. An async context manager, used by one process or run."""

    async def send(self, call: ModelCall) -> AttemptResult:
        """Send `call` once and return the result. Faults of the provider are results, not exceptions; cancellation propagates."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None: ...


# --- the HTTP client below LiteLLM -------------------------------------------------------------------------------------


class _Exchange:
    """One HTTP request, and as much of its response as was read."""

    def __init__(self, http: httpx.AsyncClient, call: ModelCall) -> None:
        self._http, self._call = http, call
        self.url: str | None = None
        self.status: int | None = None
        self.error: Exception | None = None
        self.is_too_long = False
        self._headers: Mapping[str, str] = {}
        self._body = bytearray()
        self._started = time.perf_counter()
        self._latency_ms: int | None = None

    @property
    def connecting(self) -> float:
        """Timeout for connecting, in seconds."""
        return min(_CONNECT_SECONDS, self._call.model.timeout / 2)

    @property
    def raw(self) -> RawReply:
        """Status, headers and body of the response, as far as the client has read them."""
        latency_ms = self._milliseconds() if self._latency_ms is None else self._latency_ms
        return RawReply(self.status, self._headers, bytes(self._body[: _KEPT if self.is_too_long else None]), latency_ms)

    async def send(self, request: httpx.Request) -> None:
        """Send `request` and read the response. An exception is stored in `error` and not raised."""
        self.url, self._started = str(request.url), time.perf_counter()
        request.extensions = {"timeout": {"connect": self.connecting, "read": None, "write": None, "pool": None}}
        try:
            response = await self._http.send(request, stream=True)
            self.status, self._headers = response.status_code, _lower_names(response.headers)
            try:
                await read_body(response, LARGEST_BODY, self._body)
            finally:
                await response.aclose()
        except OversizedBody:
            self.is_too_long = True
        except Exception as error:
            self.error = error
        finally:
            self._latency_ms = self._milliseconds()

    def _milliseconds(self) -> int:
        return round((time.perf_counter() - self._started) * 1000)


#: Headers of every request.
_HEADERS = {"Accept": "application/json", "Accept-Encoding": ENCODINGS, "User-Agent": "bellwether"}
#: Exchange of the call of the current task.
_EXCHANGE: ContextVar[_Exchange | None] = ContextVar("exchange", default=None)


@cache
def _http_client() -> httpx.AsyncClient:
    """Return the HTTP client given to LiteLLM. It sends each request through the exchange of the call in progress, which records it."""

    class Recorder(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            exchange = _EXCHANGE.get()
            headers = {"Content-Type": "application/json", "x-should-retry": "false"}  # Respected by OpenAI's client.
            if exchange is None or exchange.url is not None:
                return httpx.Response(502, headers=headers, request=request)  # LiteLLM's retries are not sent.
            await exchange.send(request)
            if exchange.error is not None or exchange.is_too_long:
                return httpx.Response(502, headers=headers, request=request)
            return httpx.Response(exchange.raw.status or 502, headers=headers, content=exchange.raw.body, request=request)

    return httpx.AsyncClient(transport=Recorder(), headers=_HEADERS)


@cache
def _handler() -> Any:
    """Return `_http_client` in the wrapper that LiteLLM's own HTTP code expects."""
    load_litellm()
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

    handler = AsyncHTTPHandler()
    handler.client = _http_client()
    return handler


def _client_cache() -> Any:
    """Return LiteLLM's cache of HTTP clients with `_handler` for the providers for which LiteLLM ignores the argument `client`."""
    from litellm.caching.llm_caching_handler import LLMClientCache

    class Clients(LLMClientCache):
        def get_cache(self, key: str, **kwargs: Any) -> Any:
            is_recorded = _EXCHANGE.get() is not None and key.startswith("async_httpx_client")
            return _handler() if is_recorded else super().get_cache(key, **kwargs)

    return Clients()


@cache
def load_litellm() -> ModuleType:
    """Import LiteLLM on first use (about 2 seconds), without telemetry, callbacks and network access."""
    os.environ.update(_ENVIRONMENT)
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.drop_params = False
    litellm.modify_params = False
    litellm.num_retries = 0
    litellm.aclient_session = _http_client()
    litellm.in_memory_llm_clients_cache = _client_cache()
    for odd in ("Pydantic serializer warnings", "Item .* on TypedDict class"):  # Types of LiteLLM.
        warnings.filterwarnings("ignore", odd, UserWarning)
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


# --- one call ----------------------------------------------------------------------------------------------------------


class ProviderWire:
    """Sender of calls to providers. An async context manager for one event loop.

    connections: maximum number of connections over all models; the client limits the calls in progress.
    sandbox: transport to the application that answers for the sandbox's models; None for the network.
    """

    def __init__(self, *, connections: int = 256, sandbox: httpx.AsyncBaseTransport | None = None) -> None:
        self._connections = connections
        self._sandbox = sandbox
        self._clients: dict[bool, httpx.AsyncClient] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        while self._clients:
            await self._clients.popitem()[1].aclose()

    def _client(self, model: Model) -> httpx.AsyncClient:
        """Return the HTTP client for a model: of the sandbox in this process, or of the network."""
        in_process = self._sandbox is not None and model.provider == SANDBOX
        if in_process not in self._clients:
            limits = httpx.Limits(max_connections=self._connections, keepalive_expiry=_KEEP_ALIVE_SECONDS)
            self._clients[in_process] = httpx.AsyncClient(limits=limits, transport=self._sandbox if in_process else None)
        return self._clients[in_process]

    async def send(self, call: ModelCall) -> AttemptResult:
        """Send `call` once and return the result. Faults of the provider are results, not exceptions."""
        is_search = call.model.provider == SEARCH
        obstacle = find_obstacle(call.model, call.parameters, datetime.now(UTC)) if is_search else None
        if obstacle is not None:
            return replace(_build_lost_result(call.model, Outcome.PROVIDER_ERROR, obstacle, RawReply(), unsent=True), permanent=True)
        base = chat_completions(call.model, call.endpoint)
        if base is None and not is_search and not load_litellm.cache_info().currsize:
            await asyncio.to_thread(load_litellm)
        exchange = _Exchange(self._client(call.model), call)
        answer = error = None
        token = _EXCHANGE.set(exchange)
        try:
            async with asyncio.timeout(call.model.timeout):
                if is_search:
                    await send_search(call.model, call.messages, call.parameters, call.endpoint, _http_client())
                elif base is None:
                    answer = await load_litellm().acompletion(**_litellm_arguments(call))
                else:
                    await exchange.send(_build_request(call, base))
        except TimeoutError:
            reason = f"no whole answer in {call.model.timeout:g} seconds"
            return _build_lost_result(call.model, Outcome.TIMEOUT, reason, exchange.raw, secret=call.endpoint.api_key)
        except Exception as raised:
            error = raised
        finally:
            _EXCHANGE.reset(token)
        return _build_result(call, exchange, answer, error)


def chat_completions(model: Model, endpoint: Endpoint) -> str | None:
    """Return the base address for requests in OpenAI's chat format; None for a model whose requests LiteLLM translates.

    Models with `api_base` and the sandbox's models always do. The address of `endpoint` takes precedence; "" for the sandbox in this process.
    """
    provider = BY_PREFIX.get(model.provider)
    if model.api_base is not None or model.provider == SANDBOX:
        base = endpoint.api_base or model.api_base
    elif provider is None or provider.scheme != _BEARER or _needs_responses(model):
        return None
    else:
        base = endpoint.api_base or provider.base
    return base or ""


def _needs_responses(model: Model) -> bool:
    """Return True if OpenAI offers the model only through its Responses API, for which LiteLLM translates the request."""
    return model.provider == "openai" and find_listing(model.model).get("mode") == "responses"


def _build_request(call: ModelCall, base: str) -> httpx.Request:
    """Build the request to an OpenAI-compatible endpoint. base: its address."""
    renamed = _RENAMED.get(call.model.provider, {}) if call.model.api_base is None else {}
    parameters = {renamed.get(name, name): value for name, value in call.parameters.items() if value is not None}
    body = {"model": call.model.id, "messages": [dict(message) for message in call.messages], **parameters}
    url, headers = httpx.URL(f"{base.rstrip('/')}/chat/completions"), {**_HEADERS, "Content-Type": "application/json"}
    if call.endpoint.api_key is not None:
        url = url.copy_with(username=None, password=None)  # The key of the entry, not that in the address.
        headers["Authorization"] = f"{_BEARER}{call.endpoint.api_key}"
    return httpx.Request("POST", url, headers=headers, content=json.dumps(body))


def _litellm_arguments(call: ModelCall) -> dict[str, Any]:
    """Return LiteLLM's arguments for a provider whose format differs from OpenAI's."""
    provider = call.model.provider
    if provider == "azure" or (provider in load_litellm().openai_compatible_providers and provider != "azure_ai"):
        arguments: dict[str, Any] = dict(call.parameters)  # OpenAI's client, through `aclient_session`.
    else:
        arguments = {**call.parameters, "client": _handler()}
    return {
        **arguments,
        "model": call.model.model,
        "messages": [dict(message) for message in call.messages],
        "api_key": call.endpoint.api_key,
        "api_base": call.endpoint.api_base,
        "timeout": call.model.timeout,
        "num_retries": 0,
        "max_retries": 0,
        "drop_params": False,
        "no-log": True,
    }


def _build_result(call: ModelCall, exchange: _Exchange, answer: Any, error: Exception | None) -> AttemptResult:
    """Build the result of a call from the recorded response, or from LiteLLM's answer or an exception if nothing was recorded."""
    model, secret, raw = call.model, call.endpoint.api_key, exchange.raw
    if exchange.error is not None:
        return _broken_result(call, exchange, exchange.error)
    if exchange.is_too_long:
        reason = f"HTTP {raw.status} with a body of more than {LARGEST_BODY >> 20} MB, which was not read"
        return _build_lost_result(model, Outcome.MALFORMED, reason, raw, secret=secret)
    if model.provider == SEARCH and raw.status == 200:
        return build_search_result(model, raw.redact(secret))
    if raw.status is not None and (raw.status >= 300 or answer is None or not read_reply(raw.body).flaw):
        return classify(model, raw, secret=secret)
    if answer is not None:
        _restore_fields(answer, decode_body(raw.body))
        translation = answer.model_dump_json(exclude_none=True).encode()
        return classify(model, replace(raw, body=translation), secret=secret)
    assert error is not None
    return _classify_exception(call, exchange, error)


def _broken_result(call: ModelCall, exchange: _Exchange, error: Exception) -> AttemptResult:
    """Build the result of a request whose connection failed before the response was complete."""
    model, secret, url = call.model, call.endpoint.api_key, exchange.url or ""
    if isinstance(error, httpx.ConnectTimeout):
        cause = f"no connection in {exchange.connecting:g} seconds"
        return _build_unreachable_result(model, url, cause, exchange.raw, outcome=Outcome.TIMEOUT, secret=secret)
    if isinstance(error, (httpx.ConnectError, httpx.ProxyError, httpx.UnsupportedProtocol)):
        return _build_unreachable_result(model, url, _describe_cause(error), exchange.raw, outcome=Outcome.PROVIDER_ERROR, secret=secret)
    if isinstance(error, httpx.DecodingError):
        return _build_lost_result(
            model, Outcome.MALFORMED, f"HTTP {exchange.status} with a body that cannot be unpacked ({error})", exchange.raw, secret=secret
        )
    reason = f"the connection broke before the answer was whole ({_describe_cause(error)})"
    return _build_lost_result(model, Outcome.PROVIDER_ERROR, reason, exchange.raw, secret=secret)


def _build_lost_result(
    model: Model, outcome: Outcome, reason: str, raw: RawReply, *, secret: str | None = None, unsent: bool = False
) -> AttemptResult:
    """Build the result of an attempt without a complete response.
    The cost is unknown, or 0 if the model is free or the request was not sent (`unsent`).
    """
    usage = UNBILLED if unsent else build_usage(model)
    return AttemptResult(outcome, build_reply(raw.redact(secret), Message(), usage), tidy_reason(reason, secret))


def _build_unreachable_result(
    model: Model, url: str, cause: str, raw: RawReply, *, outcome: Outcome, secret: str | None = None
) -> AttemptResult:
    """Build the result of an attempt that could not connect, so that nothing was sent. url: address for the reason; cause: error of the connection."""
    reason = f"no connection to {strip_address(url)} ({cause})"
    return replace(_build_lost_result(model, outcome, reason, raw, secret=secret, unsent=True), unreachable=True)


def _describe_cause(error: BaseException) -> str:
    """Return the innermost cause of a connection error as text, without headers and addresses."""
    while (inner := error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__ or error.__context__) is not None:
        error = inner
    if isinstance(error, ssl.SSLError):
        return f"TLS: {getattr(error, 'verify_message', '') or error.reason or type(error).__name__}"
    if not isinstance(error, OSError) or error.errno is None:
        return type(error).__name__
    return (os.strerror(error.errno) if error.errno > 0 else error.strerror) or type(error).__name__


def _restore_fields(answer: Any, body: Any) -> None:
    """Replace in LiteLLM's answer what LiteLLM invents by what the decoded body states, or by None: id, model, finish reason, and reasoning
    tokens missing at Anthropic.
    """
    native = body if isinstance(body, Mapping) else {}
    for choice in answer.choices:
        choice.finish_reason = read_finish_reason(body)
    answer.id = native.get("id") or native.get("responseId") or ""
    answer.model = native.get("model") or native.get("modelVersion") or None
    details = getattr(getattr(answer, "usage", None), "completion_tokens_details", None)
    if native.get("type") == "message" and details is not None:
        details.reasoning_tokens = None


# --- exceptions of LiteLLM ----------------------------------------------------------------------------------------------


def _classify_exception(call: ModelCall, exchange: _Exchange, error: Exception) -> AttemptResult:
    """Build the result of a call that LiteLLM refused itself, or could not send."""
    model, secret = call.model, call.endpoint.api_key
    unsent = _connection_error(error)
    if unsent is not None:
        outcome = Outcome.TIMEOUT if isinstance(unsent, httpx.TimeoutException) else Outcome.PROVIDER_ERROR
        where = call.endpoint.api_base or provider_name(model.provider)
        return _build_unreachable_result(model, where, _describe_cause(unsent), exchange.raw, outcome=outcome, secret=secret)
    message, status = _WRAPPING.sub("", str(error).partition("\nTraceback")[0], count=1), getattr(error, "status_code", None)
    if isinstance(status, int) and 400 <= status < 500:
        stated = {"message": replace_surrogates(message), "type": type(error).__name__}
        return classify(model, RawReply(status, body=orjson.dumps({"error": stated})), secret=secret)
    return _build_lost_result(model, Outcome.PROVIDER_ERROR, f"no whole answer: {message}", exchange.raw, secret=secret)


def _connection_error(error: BaseException | None) -> BaseException | None:
    """Return the failed connection or invalid address that caused an exception; None if the request may have been sent."""
    unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol, httpx.InvalidURL)
    while error is not None and not isinstance(error, unsent):
        error = error.__cause__ or error.__context__
    return error


def _lower_names(headers: Mapping[Any, Any]) -> dict[str, str]:
    """Return headers with names in lower case."""
    return {str(name).lower(): str(value) for name, value in headers.items()}
