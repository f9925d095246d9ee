"""The registry of models: built-in entries, user entries, errors, keys, and the page about it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bellwether.errors import ConfigError
from bellwether.forecasting.registry import FILE as FORECASTERS_FILE
from bellwether.models.keys import SANDBOX_KEY, Endpoint, endpoint, status
from bellwether.models.model import FILE, Model, model, models
from bellwether.models.prices import price
from bellwether.registry import read
from bellwether.settings import World
from tests.unit.models.stub import Stub, chat, http

OWN = '[my-llama]\nmodel = "openai/llama"\napi_base = "http://127.0.0.1:8000/v1"\nknowledge_cutoff = 2025-01-01\n'
PAID = '[mine]\nmodel = "openai/gpt-4o"\n'
SECRET = "sk-proj-verysecret0123456789"

#: Keys of the published registry by (temperature, max_tokens, reasoning_effort).
PUBLISHED = {
    (1.0, 32768, "medium"): "gpt-5.2 gpt-5.1-medium",
    (1.0, 32768, "low"): "gpt-5.2-low",
    (1.0, 32768, "high"): "gpt-5.2-high gpt-5.1-high",
    (1.0, 32768, "xhigh"): "gpt-5.2-xhigh",
    (1.0, 32768, None): "gpt-5-mini gpt-5-nano o1 o1-mini o3-mini",
    (0.7, 32768, None): "gpt-5.1 claude-opus-4.5 claude-sonnet-4.5 claude-4-sonnet claude-4-5-haiku qwen-2.5-72b qwen-2.5-7b qwen-qwq-32b "
    "qwen3-235b qwen3-235b-thinking qwen3-32b llama-3.3-70b llama-3.1-405b llama-3.1-8b mistral-large gemini-3-pro gemini-3-flash gemini-2.5-pro",
    (0.7, 16384, None): "gpt-4o gpt-4o-mini",
    (0.7, 8192, None): "claude-3-5-sonnet claude-3-5-haiku gemini-2.0-flash",
    (0.7, 4096, None): "deepseek-v3 deepseek-v3.1 deepseek-v3.2 deepseek-r1 kimi-k2",
}
#: Models missing from LiteLLM's price map: retired, or never listed under this id.
UNPRICED = {
    "o1-mini",
    "claude-3-5-sonnet",
    "claude-3-5-haiku",
    "qwen-qwq-32b",
    "qwen3-235b",
    "qwen3-235b-thinking",
    "qwen3-32b",
    "llama-3.1-405b",
    "mistral-large",
    "gemini-3-pro",
    "gemini-2.0-flash",
}


@pytest.fixture
def built_in() -> dict[str, Model]:
    return {name: entry.parse(Model) for name, entry in read(FILE).items()}


def published(built_in: dict[str, Model]) -> dict[str, Model]:
    return {name: one for name, one in built_in.items() if one.provider != "sandbox"}


def own(folder: Path, text: str) -> Path:
    (folder / FILE).write_text(text, encoding="utf-8")
    return folder


# --- what ships --------------------------------------------------------------------------------------------------------


def test_the_39_published_models_are_there_with_what_is_sent_to_them(built_in: dict[str, Model]) -> None:
    expected = {name: sent for sent, names in PUBLISHED.items() for name in names.split()}
    assert len(expected) == 39
    assert {name: (one.temperature, one.max_tokens, one.reasoning_effort) for name, one in published(built_in).items()} == expected


def test_every_published_model_has_a_cutoff_and_its_source(built_in: dict[str, Model]) -> None:
    for one in published(built_in).values():
        assert one.knowledge_cutoff is not None
        assert one.cutoff_source is not None
        assert "https://" in one.cutoff_source or "unverified" in one.cutoff_source


def test_a_documented_cutoff_is_taken_instead_of_the_published_one(built_in: dict[str, Model]) -> None:
    assert {built_in[name].last_known_day for name in ("gpt-5.2", "gpt-5.2-low", "gpt-5.2-high", "gpt-5.2-xhigh")} == {"2025-08-31"}
    assert "platform.openai.com" in (built_in["gpt-5.2"].cutoff_source or "")


def test_nobody_is_asked_for_money_without_being_named(built_in: dict[str, Model]) -> None:
    automatic = {one.worlds for one in built_in.values() if one.automatic}
    assert automatic == {(World.SANDBOX,)}, "their prices are made up"


def test_names_do_not_collide_with_those_of_the_other_forecasters(built_in: dict[str, Model]) -> None:
    assert not built_in.keys() & read(FORECASTERS_FILE).keys()


def test_variants_of_one_model_are_one_family(built_in: dict[str, Model]) -> None:
    families: dict[str, set[str]] = {}
    for one in published(built_in).values():
        families.setdefault(one.family, set()).add(one.model)
    assert all(len(ids) == 1 for ids in families.values())
    assert {one.name for one in built_in.values() if one.family == "gpt-5.2"} == {"gpt-5.2", "gpt-5.2-low", "gpt-5.2-high", "gpt-5.2-xhigh"}


@pytest.mark.nightly
def test_litellm_knows_the_provider_of_every_id(built_in: dict[str, Model], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    for one in built_in.values():
        if one.provider != "sandbox":
            bare, provider, *_ = litellm.get_llm_provider(one.model)
            assert (bare, provider) == (one.id, one.provider)


def test_the_models_without_a_price_are_the_known_ones(built_in: dict[str, Model]) -> None:
    assert {name for name, one in built_in.items() if price(one, 0) is None} == UNPRICED


def test_no_model_is_asked_for_more_tokens_than_the_price_map_says_it_gives(built_in: dict[str, Model]) -> None:
    from bellwether.models.prices import find_listing

    for one in built_in.values():
        assert one.max_tokens <= (find_listing(one.model).get("max_output_tokens") or one.max_tokens)


# --- your own ----------------------------------------------------------------------------------------------------------


def test_four_lines_add_a_model_on_an_endpoint_of_ones_own(tmp_path: Path) -> None:
    mine = model("my-llama", own(tmp_path, OWN))
    assert (mine.title, mine.family, mine.id) == ("my-llama", "llama", "llama")
    assert mine.knowledge_cutoff == datetime(2025, 1, 2, tzinfo=UTC)
    assert mine.cutoff_source == "stated in your registry"
    assert mine.is_free
    assert not mine.automatic
    assert mine.request_parameters == {"max_tokens": 4096}


def test_what_is_sent_is_what_determines_the_answer(tmp_path: Path) -> None:
    text = f'{PAID}temperature = 0\nmax_tokens = 5\nreasoning_effort = "low"\nparameters = {{ top_p = 0.5, seed = 7 }}\ntimeout = 5\n'
    sent = model("mine", own(tmp_path, text)).request_parameters
    assert sent == {"temperature": 0, "max_tokens": 5, "reasoning_effort": "low", "top_p": 0.5, "seed": 7}


def test_prices_of_ones_own_are_exact(tmp_path: Path) -> None:
    mine = model("mine", own(tmp_path, f"{PAID}input_price = 0.15\noutput_price = 0.6\n"))
    assert (mine.input_price, mine.output_price, mine.is_free) == (Decimal("0.15"), Decimal("0.6"), False)


def test_an_unknown_model_is_an_error_with_the_names_that_come_close() -> None:
    with pytest.raises(ConfigError, match=r"'gpt-4-o'.*gpt-4o"):
        model("gpt-4-o")


def test_a_wrong_entry_is_named_with_file_entry_field_and_value(tmp_path: Path) -> None:
    for text, found in [
        (f'{PAID}reasoning_effort = "huge"\n', ["reasoning_effort = 'huge'", "low"]),
        (f"{PAID}temperature = 2.5\n", ["temperature = 2.5", "less than or equal to 2"]),
        (f'{PAID}temperature = "0.7"\n', ["temperature = '0.7'"]),
        (f"{PAID}max_tokens = 0\n", ["max_tokens = 0"]),
        (f"{PAID}input_price = -1\noutput_price = 1\n", ["input_price = -1", "greater than or equal to 0"]),
        (f"{PAID}input_price = 1\n", ["input_price and output_price are given both or neither"]),
        (f'{PAID}api_base = "http://127.0.0.1:8000/v1/chat/completions/"\n', ["api_base", "must end before /chat/completions"]),
        (f'{PAID}api_base = "127.0.0.1:8000"\n', ["api_base = '127.0.0.1:8000'", "http://127.0.0.1:8000/v1"]),
        ('[mine]\nmodel = "gpt-4o"\n', ["model = 'gpt-4o'", "provider/id"]),
        ('[mine]\ntitle = "x"\n', ["model", "is missing"]),
        (f"{PAID}parameters = {{ temperature = 0.5 }}\n", ["parameters", "temperature has a field of its own"]),
        (f"{PAID}parameters = {{ response_format = 1 }}\n", ["parameters", "decided by elicitation"]),
        (f'{PAID}cutoff_source = "a blog"\n', ["cutoff_source is given without knowledge_cutoff"]),
        (f'{PAID}knowledge_cutoff = "2025"\n', ["knowledge_cutoff = '2025'", "without quotes"]),
        (f'{PAID}horizon = "2h"\n', ["horizon = '2h'", "24h"]),
        (f'{PAID}combine = "mode"\n', ["combine = 'mode'", "median"]),
        (f"{PAID}tempature = 1\n", ["tempature = 1", "no such field", "temperature"]),
        ('["gpt-4o"]\nmodel = "openai/gpt-4o"\n', ["[gpt-4o]", "already defined"]),
    ]:
        with pytest.raises(ConfigError) as error:
            models(own(tmp_path, text))
        for part in [str(tmp_path / FILE), *found]:
            assert part in str(error.value)


def test_a_credential_in_an_entry_is_refused_and_not_shown(tmp_path: Path) -> None:
    for line, field in [
        (f'api_key = "{SECRET}"', "api_key"),
        (f'key_variable = "{SECRET}"', "key_variable"),
        ('key_variable = "verysecret0123456789"', "key_variable"),
        (f'parameters = {{ api_key = "{SECRET}" }}', "parameters.api_key"),
        ('parameters = { extra_headers = { Authorization = "verysecret0123456789" } }', "parameters.extra_headers"),
        (f'parameters = {{ metadata = [1, "{SECRET}"] }}', "parameters.metadata[1]"),
        ('api_base = "http://me:verysecret0123456789@host/v1"', "api_base"),
        ('api_base = "http://host/v1?key=verysecret0123456789"', "api_base"),
        (f'description = "my key is {SECRET}"', "description"),
    ]:
        with pytest.raises(ConfigError) as error:
            models(own(tmp_path, f"{PAID}{line}\n"))
        assert f"[mine] {field}: " in str(error.value)
        assert "key_variable" in str(error.value)
        assert "verysecret" not in str(error.value)


# --- the page about it -------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "models.md").read_text(encoding="utf-8")


def test_the_entries_of_the_page_load_and_name_every_field(tmp_path: Path) -> None:
    examples = [example for example in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "model =" in example]
    registry = models(own(tmp_path, "\n".join(examples)))
    assert len(examples[0].strip().splitlines()) == 4
    assert registry["my-llama"].is_free
    careful = registry["gpt-4o-careful"]
    assert (careful.samples, careful.combine) == (5, "median")
    assert careful.request_parameters == {"temperature": 0.7, "max_tokens": 4096, "top_p": 0.9}
    assert set(re.findall(r"^(?:# )?(\w+) =", examples[1], re.MULTILINE)) == set(Model.model_fields) - {"name"}


async def test_the_program_of_the_page_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    async with Stub(http(200, chat(content="The probability is 0.4."))) as server:
        code = example[1]
        for old, new in {"/srv/bellwether": str(tmp_path), "endpoints(None)": "located"}.items():
            assert old in code
            code = code.replace(old, new)
        names: dict[str, Any] = {"located": lambda entry: Endpoint(server.root, None)}
        exec(code, names)
        await names["main"]()
    assert "robability" in capsys.readouterr().out


# --- keys ---------------------------------------------------------------------------------------------------------------


KEY = "sk-verysecret-0123456789abcdef"
WORLD = "http://127.0.0.1:1/v1"
SERVED = {"name": "mine", "model": "openai/llama", "api_base": "http://127.0.0.1:8000/v1"}


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
    own = Model.model_validate(SERVED)
    assert endpoint(own, WORLD, environment={"OPENAI_API_KEY": KEY}) == Endpoint("http://127.0.0.1:8000/v1", None)
    assert status(own, environment={}).is_ready


def test_an_endpoint_of_ones_own_gets_the_key_of_its_own_variable() -> None:
    own = Model.model_validate({**SERVED, "key_variable": "VLLM_KEY"})
    assert endpoint(own, WORLD, environment={"VLLM_KEY": "abc", "OPENAI_API_KEY": KEY}).api_key == "abc"
    with pytest.raises(ConfigError, match="VLLM_KEY is not set"):
        endpoint(own, WORLD, environment={"OPENAI_API_KEY": KEY})


def test_an_address_of_a_provider_is_not_used_for_an_endpoint_of_ones_own() -> None:
    environment = {"OPENAI_API_BASE": "http://elsewhere/v1"}
    assert endpoint(Model.model_validate(SERVED), None, environment=environment).api_base == SERVED["api_base"]


def test_a_provider_that_the_table_does_not_have_is_asked_with_a_key_named_after_it() -> None:
    cohere = make_model(model="cohere/command-a")
    assert status(cohere, environment={}).variable == "COHERE_API_KEY"
    assert endpoint(cohere, None, environment={"COHERE_API_KEY": "abc"}).api_key == "abc"


def test_the_sandboxs_models_are_asked_in_their_world_alone() -> None:
    sandboxed = model("sandbox-calibrated")
    assert endpoint(sandboxed, WORLD) == Endpoint(WORLD, SANDBOX_KEY)
    assert status(sandboxed, world=World.LIVE).readiness == "other world"
    with pytest.raises(ConfigError, match=r"BELLWETHER_WORLD=sandbox"):
        endpoint(sandboxed, None)


def test_a_changed_copy_of_an_entry_has_parameters_and_costs_of_its_own() -> None:
    """The arena asks registered models with parameters and prices of their families."""
    original = Model.model_validate({"name": "one", "model": "openai/gpt-4o", "input_price": 1, "output_price": 2})
    assert (original.provider, original.is_free, original.request_parameters) == ("openai", False, {"max_tokens": 4096})
    changes = {"model": "xai/grok", "max_tokens": 9, "input_price": Decimal(0), "output_price": Decimal(0)}
    changed = original.model_copy(update=changes)
    assert (changed.provider, changed.id, changed.is_free, changed.request_parameters) == ("xai", "grok", True, {"max_tokens": 9})
