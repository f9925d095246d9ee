"""The page on models: its entries load, and its statements on keys, prices and cutoffs are true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bellwether.models.model import Model
from bellwether.models.prices import price
from bellwether.models.providers import PROVIDERS
from bellwether.models.registry import models

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
EXAMPLES = [example for example in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "model =" in example]


@pytest.fixture
def registry(tmp_path: Path) -> dict[str, Model]:
    (tmp_path / "models.toml").write_text("\n".join(EXAMPLES), encoding="utf-8")
    return models(tmp_path)


def test_the_examples_load_and_the_first_takes_four_lines(registry: dict[str, Model]) -> None:
    assert len(EXAMPLES[0].strip().splitlines()) == 4
    assert registry["my-llama"].is_free
    careful = registry["gpt-4o-careful"]
    assert (careful.samples, careful.combine, careful.request_parameters) == (
        5,
        "median",
        {"temperature": 0.7, "max_tokens": 4096, "top_p": 0.9},
    )


def test_the_examples_name_every_field() -> None:
    named = set(re.findall(r"^(?:# )?(\w+) =", EXAMPLES[1], re.MULTILINE))
    assert named == set(Model.model_fields) - {"name"}


def test_the_table_of_keys_is_that_of_the_code() -> None:
    for provider in PROVIDERS:
        variables = ", ".join(f"`{name}`" for name in provider.variables)
        assert f"| `{provider.prefix}/` | {provider.name} | {variables} |" in PAGE


def test_the_models_without_a_price_are_named(registry: dict[str, Model]) -> None:
    unpriced = [name for name, one in registry.items() if price(one, 0) is None]
    listed = re.search(r"no price for (\d+) models.*?\((.*?)\)", PAGE, re.DOTALL)
    assert listed is not None
    assert (int(listed[1]), re.findall(r"`([^`]+)`", listed[2])) == (len(unpriced), unpriced)
