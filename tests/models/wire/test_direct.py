"""What is sent directly, to where and with which key, and bodies of every size."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from types import MappingProxyType
from typing import Any

import pytest

from bellwether.errors import ConfigError
from bellwether.journal import Outcome
from bellwether.models.keys import Endpoint
from bellwether.models.model import Model
from bellwether.models.wire import Call, ProviderWire, Result
from bellwether.models.wire.direct import LARGEST_BODY
from bellwether.models.wire.routes import direct
from tests.models.wire.bodies import KEY, chat
from tests.models.wire.stub import Stub, http

MESSAGES = [{"role": "user", "content": "rain?"}]


def made(**fields: Any) -> Model:
    return Model.model_validate({"name": "one", "model": "openai/gpt-4o", **fields})


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    async with Stub(http(200, chat(content="0.4"))) as server:
        yield server


async def send(model: Model, endpoint: Endpoint, messages: Any = MESSAGES, **parameters: Any) -> Result:
    async with ProviderWire() as wire:
        return await wire.send(Call(model, endpoint, messages, parameters))


async def test_the_request_is_what_the_call_says_and_nothing_else(stub: Stub) -> None:
    await send(made(), Endpoint(stub.root + "/v1/", KEY), temperature=0.7, seed=3, top_p=None)
    asked = stub.asked[0]
    assert asked.line == "POST /v1/chat/completions HTTP/1.1"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.json == {"model": "gpt-4o", "messages": MESSAGES, "temperature": 0.7, "seed": 3}


async def test_without_a_key_none_is_sent(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    await send(made(api_base=stub.root), Endpoint(stub.root))
    assert "authorization" not in stub.asked[0].headers


@pytest.mark.parametrize(
    ("fields", "parameters"),
    [
        ({"model": "openai/gpt-5.2"}, {"max_completion_tokens": 100, "seed": 1}),
        ({"model": "openai/llama", "api_base": "http://127.0.0.1:1/v1"}, {"max_tokens": 100, "seed": 1}),
        ({"model": "together_ai/meta-llama/Llama"}, {"max_tokens": 100, "seed": 1}),
        ({"model": "mistral/mistral-large-latest"}, {"max_tokens": 100, "random_seed": 1}),
    ],
)
async def test_parameters_have_the_names_of_the_interface(stub: Stub, fields: dict[str, Any], parameters: dict[str, Any]) -> None:
    await send(made(**fields), Endpoint(stub.root, KEY), max_tokens=100, seed=1)
    sent = stub.asked[0].json
    assert {name: sent[name] for name in sent if name not in ("model", "messages")} == parameters
    assert sent["model"] == fields["model"].partition("/")[2]


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({"model": "openai/gpt-4o"}, "https://api.openai.com/v1/chat/completions"),
        ({"model": "together_ai/Qwen/Qwen3"}, "https://api.together.xyz/v1/chat/completions"),
        ({"model": "fireworks_ai/accounts/fireworks/models/x"}, "https://api.fireworks.ai/inference/v1/chat/completions"),
        ({"model": "openrouter/openai/gpt-4o"}, "https://openrouter.ai/api/v1/chat/completions"),
        ({"model": "anthropic/claude-x", "api_base": "http://127.0.0.1:1/v1"}, "http://127.0.0.1:1/v1/chat/completions"),
        ({"model": "anthropic/claude-x"}, None),
        ({"model": "gemini/gemini-x"}, None),
        ({"model": "cohere/command-r"}, None),
        ({"model": "openai/o3-pro"}, None),
    ],
)
def test_each_model_takes_its_transport(fields: dict[str, Any], url: str | None) -> None:
    model = made(**fields)
    route = direct(model, Endpoint(model.api_base))
    assert (route.url if route else None) == url


def test_the_direct_providers_are_those_for_which_litellm_too_uses_openais_form() -> None:
    from bellwether.models.providers import PROVIDERS
    from bellwether.models.wire.litellm import load

    litellm = load()

    def speaks_openai(provider: str) -> bool:
        config = litellm.utils.ProviderConfigManager.get_provider_chat_config("some-model", litellm.LlmProviders(provider))
        return isinstance(config, litellm.OpenAIGPTConfig)

    taken = {one.prefix for one in PROVIDERS if direct(made(model=f"{one.prefix}/some-model"), Endpoint(None))}
    assert taken == {one.prefix for one in PROVIDERS if speaks_openai(one.prefix)}
    assert len(taken) >= 9


async def test_an_answer_of_a_megabyte_passes(stub: Stub) -> None:
    text = "long " * 210_000
    stub.response = http(200, chat(content=text))
    result = await send(made(), Endpoint(stub.root, KEY))
    assert (result.outcome, result.reply.content) == (Outcome.OK, text)


async def test_a_body_without_end_is_cut_off(stub: Stub) -> None:
    stub.response = http(200, b"x" * (LARGEST_BODY + 100_000), length=1 << 40)
    result = await send(made(), Endpoint(stub.root, KEY))
    assert result.outcome is Outcome.MALFORMED
    assert "more than 8 MB" in result.reason
    assert len(result.reply.body) == 100_000


async def test_what_came_of_a_cut_body_is_kept_as_it_came(stub: Stub) -> None:
    whole = json.dumps(chat(content="0.4")).encode()
    stub.response = http(200, whole[:50], length=len(whole))
    result = await send(made(), Endpoint(stub.root, KEY))
    assert (result.outcome, result.reply.body, result.reply.http_status) == (Outcome.PROVIDER_ERROR, whole[:50], 200)
    assert "broke" in result.reason


async def test_the_body_of_an_answer_is_kept_byte_for_byte(stub: Stub) -> None:
    body = b' {"choices" : [{"message": {"content": "0.4\\u00e9"}}], "usage":null}\n'
    stub.response = http(200, body)
    assert (await send(made(), Endpoint(stub.root, KEY))).reply.body == body


async def test_a_key_is_not_carried_to_where_a_redirect_points(stub: Stub) -> None:
    async with Stub(http(200, chat(content="0.4"))) as other:
        stub.response = http(307, b"", {"Location": other.root})
        result = await send(made(), Endpoint(stub.root, KEY))
        assert (result.outcome, result.permanent, other.asked) == (Outcome.PROVIDER_ERROR, True, [])


@pytest.mark.parametrize("base", ["http://127.0.0.1:1", "http://no-such-host.invalid/v1", "ftp://127.0.0.1/v1", "nonsense"])
async def test_an_address_where_nobody_answers_is_a_provider_error(base: str) -> None:
    result = await send(made(), Endpoint(base, KEY))
    assert (result.outcome, result.reply.usage.cost) == (Outcome.PROVIDER_ERROR, 0)


async def test_untrusted_text_is_sent_whatever_signs_it_has(stub: Stub) -> None:
    odd = "a lone \ud83d surrogate, a \x00 and </script>"
    result = await send(made(), Endpoint(stub.root, KEY), [MappingProxyType({"role": "user", "content": odd})])
    assert result.outcome is Outcome.OK
    assert stub.asked[0].json["messages"][0]["content"] == odd


async def test_what_is_no_json_is_the_callers_mistake(stub: Stub) -> None:
    with pytest.raises(ConfigError, match="asking one: the request is no JSON"):
        await send(made(), Endpoint(stub.root, KEY), odd=object())


async def test_connections_are_used_again() -> None:
    from aiohttp import web

    ports = []

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        ports.append(request.transport.get_extra_info("peername")[1])
        return web.json_response(chat(content="0.4"))

    app = web.Application()
    app.router.add_post("/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with ProviderWire() as wire:
        for _ in range(3):
            assert (await wire.send(Call(made(), Endpoint(base, KEY), MESSAGES))).outcome is Outcome.OK
    await runner.cleanup()
    assert len(set(ports)) == 1


async def test_cancelling_is_passed_on(stub: Stub) -> None:
    import asyncio

    stub.delay = 30.0
    task = asyncio.create_task(send(made(), Endpoint(stub.root, KEY)))
    while not stub.asked:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_proxy_of_the_environment_is_used(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", stub.root)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    await send(made(), Endpoint("http://models.example/v1", KEY))
    assert stub.asked[0].line == "POST http://models.example/v1/chat/completions HTTP/1.1"


def test_importing_the_wire_loads_neither_aiohttp_nor_litellm() -> None:
    code = "import sys, bellwether.models.wire, bellwether.models.prices as p; p.price_map_version(); print({'aiohttp','litellm'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "set()"


@pytest.mark.slow
def test_litellm_is_loaded_quietly_and_without_a_network() -> None:
    code = """
import socket, sys
def refused(*args, **kwargs): raise AssertionError("LiteLLM wants the network")
socket.getaddrinfo = socket.create_connection = refused
from bellwether.models.wire.litellm import load
litellm = load()
from bellwether.models.prices import price_map
assert litellm.model_cost["gpt-4o"]["input_cost_per_token"] == price_map()["gpt-4o"]["input_cost_per_token"]
assert (litellm.telemetry, litellm.drop_params, litellm.success_callback) == (False, False, [])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
