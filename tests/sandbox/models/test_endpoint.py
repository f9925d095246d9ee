"""The endpoint follows OpenAI's protocol: shapes, keys, length limits, errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from bellwether.sandbox import Clock
from bellwether.sandbox.models import PERSONALITIES, ModelEndpoint, Truth
from bellwether.sandbox.world.model import Market
from bellwether.sandbox.worlds import build_generated

LATER = datetime(2025, 9, 1, tzinfo=UTC)
HELLO = [{"role": "user", "content": "Will it rain tomorrow in Utopia?"}]


class Provider:
    """Calls the endpoint in process."""

    def __init__(self, truth: Truth, runner: asyncio.Runner) -> None:
        self.slept: list[float] = []
        self._runner = runner
        endpoint = ModelEndpoint(truth, Clock(LATER), delay=2.5, sleep=self._sleep)
        app = Starlette(routes=[Mount("/v1", routes=endpoint.routes())])
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://sandbox/v1")

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def get(self, path: str, key: str | None = "sandbox-key") -> httpx.Response:
        return self._runner.run(self._http.get(path, headers={"Authorization": f"Bearer {key}"} if key else {}))

    def post(self, body: Any, key: str | None = "sandbox-key") -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return self._runner.run(self._http.post("/chat/completions", content=content, headers=headers))

    def chat(self, model: str = "calibrated", messages: Any = None, **more: Any) -> dict[str, Any]:
        answer = self.post({"model": model, "messages": messages or HELLO, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def provider(truth: Truth, runner: asyncio.Runner) -> Provider:
    return Provider(truth, runner)


# --- shape ---------------------------------------------------------------------------------------------------------


def test_a_completion_has_the_shape_that_clients_expect(
    provider: Provider, market_messages: Callable[[Market], Any], settled: list[Market]
) -> None:
    body = provider.chat(messages=market_messages(settled[0]))
    assert body["id"].startswith("chatcmpl-")
    assert (body["object"], body["model"], body["created"]) == ("chat.completion", "calibrated", int(LATER.timestamp()))
    [choice] = body["choices"]
    assert (choice["index"], choice["finish_reason"], choice["message"]["role"]) == (0, "stop", "assistant")
    assert "<answer>" in choice["message"]["content"]
    assert "reasoning_content" not in choice["message"]
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens"] > 100
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 0}


def test_reasoning_personalities_think_in_a_field_of_their_own_that_is_paid_for(provider: Provider) -> None:
    for model in ("overconfident", "slow"):
        body = provider.chat(
            model, messages=[{"role": "user", "content": "Rain? <answer>yes or no</answer> <confidence>0-100</confidence>"}]
        )
        message, usage = body["choices"][0]["message"], body["usage"]
        assert message["reasoning_content"]
        assert "<think>" not in message["content"]
        assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]


def test_the_same_request_gives_the_same_bytes(provider: Provider) -> None:
    body = {"model": "noisy", "messages": HELLO, "seed": 1}
    assert provider.post(body).content == provider.post(body).content
    assert provider.chat(**body)["choices"] != provider.chat(**{**body, "seed": 2})["choices"]
    assert provider.chat(**{**body, "model": "sandbox/noisy"})["choices"] == provider.chat(**body)["choices"]


def test_the_slow_one_is_late_and_calibrated(provider: Provider) -> None:
    slow, calibrated = provider.chat("slow"), provider.chat("calibrated")
    assert provider.slept == [2.5]
    assert slow["choices"][0]["message"]["content"] == calibrated["choices"][0]["message"]["content"]


# --- length --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_an_answer_is_cut_where_its_tokens_end(provider: Provider, name: str) -> None:
    whole, short = provider.chat(), provider.chat(**{name: 5})
    assert short["choices"][0]["finish_reason"] == "length"
    assert short["choices"][0]["message"]["content"] == whole["choices"][0]["message"]["content"][:20]
    assert short["usage"]["completion_tokens"] == 5
    assert provider.chat(**{name: 4000})["choices"] == whole["choices"]


# --- keys and errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "status", "code"),
    [
        (None, 401, "invalid_api_key"),
        ("", 401, "invalid_api_key"),
        ("sk-somebody-elses-secret", 401, "invalid_api_key"),
        ("sandbox-expired", 401, "expired_api_key"),
        ("sandbox-broke", 402, "insufficient_credits"),
    ],
)
def test_keys(provider: Provider, key: str | None, status: int, code: str) -> None:
    for answer in (provider.post({"model": "calibrated", "messages": HELLO}, key), provider.get("/models", key)):
        assert answer.status_code == status
        error = answer.json()["error"]
        assert (set(error), error["code"]) == ({"message", "type", "param", "code"}, code)
        assert not key or key not in answer.text


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"[]", None),
        ({"model": "calibrated", "messages": []}, "messages"),
        ({"model": "calibrated", "messages": ["hello"]}, "messages"),
        ({"messages": HELLO}, "model"),
        ({"model": "calibrated", "messages": HELLO, "max_tokens": "many"}, "max_tokens"),
        ({"model": "calibrated", "messages": HELLO, "response_format": {"type": "json_schema"}}, None),
        ({"model": "calibrated", "messages": HELLO, "tools": [{"type": "function"}]}, None),
    ],
)
def test_a_wrong_request_is_a_400_that_names_the_parameter(provider: Provider, body: Any, param: str | None) -> None:
    answer = provider.post(body)
    assert answer.status_code == 400
    assert answer.json()["error"] | {"message": ""} == {"message": "", "type": "invalid_request_error", "param": param, "code": None}


def test_models_are_listed_and_an_unknown_one_is_a_404(provider: Provider) -> None:
    assert [model["id"] for model in provider.get("/models").json()["data"]] == list(PERSONALITIES)
    unknown = provider.post({"model": "gpt-9", "messages": HELLO})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")


def test_all_applications_of_a_seed_index_its_questions_once(runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    questions = Truth._of_world

    def counted(truth: Truth, home: int) -> Iterator[tuple[str, str]]:
        read.append(home)
        return questions(truth, home)

    monkeypatch.setattr(Truth, "_of_world", counted)
    for _ in range(2):
        transport = httpx.ASGITransport(build_generated(4711, datetime(2025, 1, 10, tzinfo=UTC)))
        http = httpx.AsyncClient(transport=transport, base_url="http://sandbox/v1", headers={"Authorization": "Bearer sandbox-key"})
        assert runner.run(http.post("/chat/completions", json={"model": "calibrated", "messages": HELLO})).status_code == 200
    assert read
    assert len(read) == len(set(read))
