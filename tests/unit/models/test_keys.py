"""Endpoints and keys of models: no key is shown, or sent to another endpoint."""

from __future__ import annotations

import pytest

from bellwether.errors import ConfigError
from bellwether.models.keys import SANDBOX_KEY, Endpoint, endpoint, status
from bellwether.models.model import Model
from bellwether.models.registry import model
from bellwether.settings import World

KEY = "sk-verysecret-0123456789abcdef"
WORLD = "http://127.0.0.1:1/v1"
OWN = {"name": "mine", "model": "openai/llama", "api_base": "http://127.0.0.1:8000/v1"}


def make_model(**fields: object) -> Model:
    return Model.model_validate({"name": "mine", "model": "openai/gpt-4o", **fields})


def test_a_models_key_is_its_providers_and_stays_out_of_the_repr() -> None:
    found = endpoint(model("gpt-4o"), WORLD, environment={"OPENAI_API_KEY": f" {KEY}\n"})
    assert (found.api_base, found.api_key) == (None, KEY)
    assert "verysecret" not in repr(found)


def test_the_second_name_of_a_key_serves_and_the_first_wins() -> None:
    gemini = model("gemini-2.5-pro")
    assert endpoint(gemini, None, environment={"GOOGLE_API_KEY": "b"}).api_key == "b"
    assert endpoint(gemini, None, environment={"GOOGLE_API_KEY": "b", "GEMINI_API_KEY": "a"}).api_key == "a"


def test_another_address_of_the_provider_is_honoured() -> None:
    environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://me:verysecret@proxy/v1"}
    found = endpoint(model("gpt-4o"), None, environment=environment)
    assert found.api_base == "http://me:verysecret@proxy/v1"
    assert "verysecret" not in repr(found)


def test_a_missing_key_is_an_error_that_names_the_variable() -> None:
    with pytest.raises(ConfigError, match=r"calling gpt-4o: OPENAI_API_KEY is not set; set it to your key for OpenAI"):
        endpoint(model("gpt-4o"), None, environment={"OPENAI_API_KEY": "  "})
    assert str(status(model("gpt-4o"), environment={})) == "key missing: OPENAI_API_KEY"


@pytest.mark.parametrize("key", ["sk-verysecret one", "sk-verysecret\nx", "sk-verysecret-ключ"])
def test_what_cannot_be_a_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY contains blanks") as error:
        endpoint(model("gpt-4o"), None, environment={"OPENAI_API_KEY": key})
    assert "verysecret" not in str(error.value)


def test_an_endpoint_of_ones_own_gets_no_key_of_a_provider() -> None:
    own = Model.model_validate(OWN)
    assert endpoint(own, WORLD, environment={"OPENAI_API_KEY": KEY}) == Endpoint("http://127.0.0.1:8000/v1", None)
    assert status(own, environment={}).is_ready


def test_an_endpoint_of_ones_own_gets_the_key_of_its_own_variable() -> None:
    own = Model.model_validate({**OWN, "key_variable": "VLLM_KEY"})
    assert endpoint(own, WORLD, environment={"VLLM_KEY": "abc", "OPENAI_API_KEY": KEY}).api_key == "abc"
    with pytest.raises(ConfigError, match="VLLM_KEY is not set"):
        endpoint(own, WORLD, environment={"OPENAI_API_KEY": KEY})


def test_an_address_of_a_provider_is_not_used_for_an_endpoint_of_ones_own() -> None:
    environment = {"OPENAI_API_BASE": "http://elsewhere/v1"}
    assert endpoint(Model.model_validate(OWN), None, environment=environment).api_base == OWN["api_base"]


def test_a_provider_that_the_table_does_not_have_is_asked_with_a_key_named_after_it() -> None:
    cohere = make_model(model="cohere/command-a")
    assert status(cohere, environment={}).variable == "COHERE_API_KEY"
    assert endpoint(cohere, None, environment={"COHERE_API_KEY": "abc"}).api_key == "abc"


def test_the_sandboxs_models_are_asked_in_their_world_alone() -> None:
    noisy = model("sandbox-noisy")
    assert endpoint(noisy, WORLD) == Endpoint(WORLD, SANDBOX_KEY)
    assert status(noisy, world=World.LIVE).readiness == "other world"
    with pytest.raises(ConfigError, match=r"sandbox-noisy.*BELLWETHER_WORLD=sandbox"):
        endpoint(noisy, None)
