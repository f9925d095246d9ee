"""Providers with formats of their own, through LiteLLM: one attempt per call, no telemetry, no callbacks, nothing fetched on import."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from types import ModuleType
from typing import Any

import httpx
import orjson

from bellwether.journal.facts import Outcome
from bellwether.models.providers import provider_name
from bellwether.models.wire.call import Call, Result
from bellwether.models.wire.classify import RawReply, cause_of, classify, lost, unreachable
from bellwether.models.wire.message import decoded, flaw_of

#: What LiteLLM reads from the environment: no price map and no list of headers from the network, and no .env file of the folder.
_ENVIRONMENT = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True", "LITELLM_MODE": "PRODUCTION"}
#: Providers that LiteLLM asks over the client that it is handed, so that status, headers and body are raw as they came.
_TAKE_CLIENT = frozenset({"anthropic", "gemini", "vertex_ai"})
#: LiteLLM's own words around those of the provider.
_WRAPPING = re.compile(r"^(?:litellm\.)?(?:\w+Error: (?:litellm\.)?)*(?:\w*(?:Exception|Error) - )?")
_HIDDEN_HEADER = "llm_provider-"
_TIMEOUT_STATUS = 408
#: Errors of HTTP clients before anything is sent.
_UNCONNECTED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)


@cache
def load() -> ModuleType:
    """LiteLLM, imported once (2 seconds) and quiet; its price map is the one that comes with it."""
    os.environ.update(_ENVIRONMENT)
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.drop_params = False
    litellm.modify_params = False
    litellm.num_retries = 0
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    _repeat_nothing()
    return litellm


def _repeat_nothing() -> None:
    """For a dozen providers LiteLLM loses `max_retries` on the way, and OpenAI's client would send, and pay, a request three times by itself."""
    from litellm.llms.openai.openai import OpenAIChatCompletion as Chat

    made = Chat._get_openai_client

    def once(self: Any, *args: Any, **options: Any) -> Any:
        return made(self, *args, **{**options, "max_retries": 0})

    Chat._get_openai_client = once  # type: ignore[method-assign]


class _Exchange:
    """What has come of one call, as the provider sent it."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.body = b""
        self.is_whole = False
        self._started = time.perf_counter()

    @property
    def latency_ms(self) -> int:
        return round((time.perf_counter() - self._started) * 1000)

    @property
    def raw(self) -> RawReply:
        return RawReply(self.status, self.headers, self.body, self.latency_ms)


#: The exchange of the call that this task makes.
_EXCHANGE: ContextVar[_Exchange | None] = ContextVar("exchange", default=None)


async def _listen(response: httpx.Response) -> None:
    """Keep what the provider sent; LiteLLM hears it afterwards."""
    exchange = _EXCHANGE.get()
    if exchange is not None:
        exchange.status, exchange.headers = response.status_code, _lowered(response.headers)
        exchange.body = await response.aread()
        exchange.is_whole = True


def _client() -> Any:
    """An HTTP client of LiteLLM's that listens, and that sends nothing twice when a connection breaks."""
    load()
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

    class Once(AsyncHTTPHandler):
        async def single_connection_post_request(self, *args: Any, **kwargs: Any) -> Any:
            raise httpx.ReadError("the connection broke")

    return Once(event_hooks={"response": [_listen]})


class LiteLLM:
    """The transport. Close it in the event loop in which it was used."""

    def __init__(self) -> None:
        self._handler: Any = None

    async def close(self) -> None:
        """Close its connections."""
        if self._handler is not None:
            await self._handler.close()

    async def send(self, call: Call) -> Result:
        """Send `call`; see `Wire.send`."""
        if self._handler is None:
            await asyncio.to_thread(load)
            self._handler = self._handler or _client()
        exchange, secret = _Exchange(), call.endpoint.api_key
        held = _EXCHANGE.set(exchange)
        try:
            async with asyncio.timeout(call.model.timeout):
                answer = await load().acompletion(**self._arguments(call))
        except TimeoutError:
            return lost(call.model, Outcome.TIMEOUT, f"no whole answer in {call.model.timeout:g} seconds", exchange.raw, secret=secret)
        except Exception as error:
            return _failed(call, exchange, error)
        finally:
            _EXCHANGE.reset(held)
        if exchange.is_whole:
            _take_back(answer, exchange.body)
        raw = RawReply(
            exchange.status or 200,
            exchange.headers or _hidden(answer),
            answer.model_dump_json(exclude_none=True).encode(),
            exchange.latency_ms,
        )
        return classify(call.model, raw, secret=secret)

    def _arguments(self, call: Call) -> dict[str, Any]:
        client = {"client": self._handler} if call.model.provider in _TAKE_CLIENT else {}
        return {
            **call.parameters,
            **client,
            "model": call.model.litellm_id,
            "messages": [dict(message) for message in call.messages],
            "api_key": call.endpoint.api_key,
            "api_base": call.endpoint.api_base,
            "timeout": call.model.timeout,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": False,
            "no-log": True,
        }


def _take_back(answer: Any, body: bytes) -> None:
    """Replace what LiteLLM's answer does not have from the provider: the id, the model, and reasoning tokens that Anthropic does not report."""
    whole = decoded(body)
    native = whole if isinstance(whole, Mapping) else {}
    answer.id = native.get("id") or native.get("responseId") or ""
    answer.model = native.get("model") or native.get("modelVersion") or None
    details = getattr(getattr(answer, "usage", None), "completion_tokens_details", None)
    if native.get("type") == "message" and details is not None:
        details.reasoning_tokens = None


def _failed(call: Call, exchange: _Exchange, error: Exception) -> Result:
    """Meaning of LiteLLM's exception: by the provider's own response if it was raw, else by what the exception carries."""
    secret = call.endpoint.api_key
    if exchange.status is not None and exchange.status >= 300:
        return classify(call.model, exchange.raw, secret=secret)
    if exchange.status is not None and not exchange.is_whole:
        return lost(call.model, Outcome.PROVIDER_ERROR, "the connection broke before the answer was whole", exchange.raw, secret=secret)
    if exchange.status is not None:
        found = flaw_of(exchange.body) if decoded(exchange.body) is None else "an answer that is not in the provider's form"
        return lost(call.model, Outcome.MALFORMED, f"HTTP {exchange.status} with {found}", exchange.raw, secret=secret)
    return _without_response(call, exchange, error)


def _without_response(call: Call, exchange: _Exchange, error: Exception) -> Result:
    """Meaning of an exception that is all that is known of a call."""
    secret = call.endpoint.api_key
    unsent = _connection_error(error)
    if unsent is not None:
        outcome = Outcome.TIMEOUT if isinstance(unsent, httpx.TimeoutException) else Outcome.PROVIDER_ERROR
        return unreachable(call.model, _url(unsent, call), cause_of(unsent), exchange.raw, outcome=outcome, secret=secret)
    headers = _lowered(getattr(error, "litellm_response_headers", None) or {})
    status = getattr(error, "status_code", None)
    if status == _TIMEOUT_STATUS or isinstance(error, httpx.TimeoutException):
        return lost(call.model, Outcome.TIMEOUT, _words(error), exchange.raw, secret=secret)
    if headers or (isinstance(status, int) and 400 <= status < 500):
        raw = RawReply(status if isinstance(status, int) else 500, headers, _body(error), exchange.latency_ms)
        return classify(call.model, raw, secret=secret)
    return lost(call.model, Outcome.PROVIDER_ERROR, f"no whole answer: {_words(error)}", exchange.raw, secret=secret)


def _connection_error(error: BaseException | None) -> httpx.TransportError | None:
    """The error of the HTTP client below LiteLLM's if there was no connection, so that nothing was sent."""
    while error is not None and not isinstance(error, _UNCONNECTED):
        error = error.__cause__ or error.__context__
    return error


def _url(error: httpx.TransportError, call: Call) -> str:
    """The address that could not be connected to; the provider's name where the client does not know it."""
    try:
        return str(error.request.url)
    except RuntimeError:
        return call.endpoint.api_base or provider_name(call.model.provider)


def _words(error: Exception) -> str:
    """The provider's words, or LiteLLM's, without its own names and traces around them."""
    return _WRAPPING.sub("", str(error).partition("\nTraceback")[0].partition(" Handle with `litellm")[0], count=1)


def _body(error: Exception) -> bytes:
    """The error object that an exception carries: the provider's, where it is whole, else one of its words."""
    carried = getattr(error, "body", None)
    if isinstance(carried, Mapping):
        return orjson.dumps({"error": carried}, default=str)
    words = _words(error)
    within = words[words.find("{") :].encode("utf-8", "replace")
    if isinstance(decoded(within), Mapping):
        return within
    return orjson.dumps({"error": {"message": words.encode("utf-8", "replace").decode(), "type": type(error).__name__}})


def _hidden(answer: Any) -> Mapping[str, str]:
    """The provider's headers, as LiteLLM hands them on."""
    headers = (getattr(answer, "_hidden_params", None) or {}).get("additional_headers") or {}
    return {name.removeprefix(_HIDDEN_HEADER): value for name, value in _lowered(headers).items()}


def _lowered(headers: Mapping[Any, Any]) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in headers.items()}
