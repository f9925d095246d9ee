"""The registry of models: built-in entries, user entries, and error messages."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from bellwether.errors import ConfigError
from bellwether.forecasting.registry import FILE as FORECASTERS_FILE
from bellwether.models.model import Model
from bellwether.models.prices import price
from bellwether.models.registry import FILE, model, models
from bellwether.registry import read
from bellwether.sandbox.models.personalities import PERSONALITIES
from bellwether.settings import World

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
    "claude-4-sonnet",
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


@pytest.fixture(scope="module")
def built_in() -> dict[str, Model]:
    return {name: entry.parse(Model) for name, entry in read(FILE).items()}


def published(built_in: dict[str, Model]) -> dict[str, Model]:
    return {name: one for name, one in built_in.items() if one.provider not in ("sandbox", "local")}


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
    automatic = {name for name, one in built_in.items() if one.automatic}
    assert automatic == {f"sandbox-{name}" for name in PERSONALITIES} - {"sandbox-slow"}
    assert all(built_in[name].worlds == (World.SANDBOX,) for name in automatic), "their prices are made up"


def test_every_personality_of_the_sandbox_is_there_and_only_there(built_in: dict[str, Model]) -> None:
    ours = {one.id: one for one in built_in.values() if one.provider == "sandbox"}
    assert ours.keys() == PERSONALITIES.keys()
    assert {one.worlds for one in ours.values()} == {(World.SANDBOX,)}
    cutoffs = {name: one.last_known_day for name, one in ours.items()}
    assert cutoffs == dict.fromkeys(PERSONALITIES, "2026-03-31") | {"overconfident": "2026-07-17", "noisy": "2026-07-05"}
    assert {(one.input_price, one.output_price) for one in ours.values()} == {(Decimal("0.25"), Decimal(2))}


def test_names_do_not_collide_with_those_of_the_other_forecasters(built_in: dict[str, Model]) -> None:
    assert not built_in.keys() & read(FORECASTERS_FILE).keys()


def test_names_are_the_keys_of_the_file_and_titles_differ(built_in: dict[str, Model]) -> None:
    written = tomllib.loads(files("bellwether.registry").joinpath(FILE).read_text(encoding="utf-8"))
    assert list(written) == list(built_in)
    assert len({one.title for one in built_in.values()}) == len(built_in)


def test_variants_of_one_model_are_one_family(built_in: dict[str, Model]) -> None:
    families: dict[str, set[str]] = {}
    for one in published(built_in).values():
        families.setdefault(one.family, set()).add(one.model)
    assert all(len(ids) == 1 for ids in families.values())
    assert {one.name for one in built_in.values() if one.family == "gpt-5.2"} == {"gpt-5.2", "gpt-5.2-low", "gpt-5.2-high", "gpt-5.2-xhigh"}


@pytest.mark.slow
def test_litellm_knows_the_provider_of_every_id(built_in: dict[str, Model], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    for one in built_in.values():
        if one.provider not in ("sandbox", "local"):
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


def test_a_price_can_be_given_for_an_endpoint_of_ones_own(tmp_path: Path) -> None:
    assert not model("my-llama", own(tmp_path, f"{OWN}input_price = 1\noutput_price = 2\n")).is_free


def test_an_unknown_model_is_an_error_with_the_names_that_come_close() -> None:
    with pytest.raises(ConfigError, match=r"'gpt-4-o'.*gpt-4o"):
        model("gpt-4-o")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f'{PAID}reasoning_effort = "huge"\n', ["reasoning_effort = 'huge'", "low"]),
        (f"{PAID}temperature = 2.5\n", ["temperature = 2.5", "less than or equal to 2"]),
        (f"{PAID}temperature = nan\n", ["temperature = nan"]),
        (f'{PAID}temperature = "0.7"\n', ["temperature = '0.7'"]),
        (f"{PAID}max_tokens = 0\n", ["max_tokens = 0"]),
        (f"{PAID}max_tokens = 1.5\n", ["max_tokens = 1.5"]),
        (f"{PAID}input_price = -1\noutput_price = 1\n", ["input_price = -1", "greater than or equal to 0"]),
        (f"{PAID}input_price = nan\noutput_price = 1\n", ["input_price = nan"]),
        (f"{PAID}input_price = 1\n", ["input_price and output_price are given both or neither"]),
        (f'{PAID}api_base = "127.0.0.1:8000"\n', ["api_base = '127.0.0.1:8000'", "http://127.0.0.1:8000/v1"]),
        (f'{PAID}api_base = "http://127.0.0.1:99999/v1"\n', ["api_base", "must be an address"]),
        ('[mine]\nmodel = "gpt-4o"\n', ["model = 'gpt-4o'", "provider/id"]),
        ('[mine]\nmodel = "openai/"\n', ["model = 'openai/'", "provider/id"]),
        ("[mine]\nmodel = 7\n", ["model = 7"]),
        ('[mine]\ntitle = "x"\n', ["model", "is missing"]),
        (f"{PAID}parameters = {{ temperature = 0.5 }}\n", ["parameters", "temperature has a field of its own"]),
        (f"{PAID}parameters = {{ response_format = 1 }}\n", ["parameters", "decided by elicitation"]),
        (f'{PAID}cutoff_source = "a blog"\n', ["cutoff_source is given without knowledge_cutoff"]),
        (f'{PAID}knowledge_cutoff = "2025"\n', ["knowledge_cutoff = '2025'", "without quotes"]),
        (f'{PAID}worlds = ["mars"]\n', ["worlds", "sandbox"]),
        (f'{PAID}horizon = "2h"\n', ["horizon = '2h'", "24h"]),
        (f'{PAID}combine = "mode"\n', ["combine = 'mode'", "median"]),
        (f"{PAID}samples = 0\n", ["samples = 0"]),
        (f"{PAID}concurrency = 0\n", ["concurrency = 0"]),
        (f"{PAID}timeout = 0\n", ["timeout = 0"]),
        (f"{PAID}tempature = 1\n", ["tempature = 1", "no such field", "temperature"]),
        ('[mine]\nmodel = "sandbox/noisy"\napi_base = "http://x/v1"\n', ["has its own address"]),
        ('["gpt-4o"]\nmodel = "openai/gpt-4o"\n', ["[gpt-4o]", "already defined"]),
    ],
)
def test_a_wrong_entry_is_named_with_file_entry_field_and_value(tmp_path: Path, text: str, found: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        models(own(tmp_path, text))
    for part in [str(tmp_path / FILE), *found]:
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (f'api_key = "{SECRET}"', "api_key"),
        (f'key_variable = "{SECRET}"', "key_variable"),
        ('key_variable = "verysecret0123456789"', "key_variable"),
        (f'parameters = {{ api_key = "{SECRET}" }}', "parameters.api_key"),
        ('parameters = { extra_headers = { Authorization = "verysecret0123456789" } }', "parameters.extra_headers"),
        (f'parameters = {{ metadata = [1, "{SECRET}"] }}', "parameters.metadata[1]"),
        ('api_base = "http://me:verysecret0123456789@host/v1"', "api_base"),
        ('api_base = "http://host/v1?key=verysecret0123456789"', "api_base"),
        (f'description = "my key is {SECRET}"', "description"),
    ],
)
def test_a_credential_in_an_entry_is_refused_and_not_shown(tmp_path: Path, line: str, field: str) -> None:
    with pytest.raises(ConfigError) as error:
        models(own(tmp_path, f"{PAID}{line}\n"))
    assert f"[mine] {field}: " in str(error.value)
    assert "key_variable" in str(error.value)
    assert "verysecret" not in str(error.value)


def test_a_model_cannot_be_changed(built_in: dict[str, Model]) -> None:
    changed: Any = built_in["gpt-4o"]
    with pytest.raises(ValueError, match="frozen"):
        changed.temperature = 0.1
