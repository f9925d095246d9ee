"""`bellwether models`: listed models with key status and price, without any key."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner

from bellwether.forecasting import forecasters
from bellwether.models.providers import PROVIDERS
from bellwether.settings import settings
from cli.models import ListedForecaster, list_forecasters, models

KEY = "sk-verysecret-0123456789abcdef"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS:
        for name in (*provider.variables, *provider.base_variables):
            monkeypatch.delenv(name, raising=False)


def listed() -> dict[str, ListedForecaster]:
    return {entry.name: entry for entry in list_forecasters()}


def test_lines_state_price_cutoff_and_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    everyone = listed()
    assert everyone.keys() == forecasters().keys()
    assert (everyone["gpt-4o"].input_price, everyone["gpt-4o"].output_price) == (Decimal("2.5"), 10)
    assert everyone["o1-mini"].input_price is None
    line = everyone["gpt-5.2-xhigh"]
    assert (line.knowledge_cutoff, line.model, line.provider) == ("2025-08-31", "openai/gpt-5.2", "openai")
    monkeypatch.setenv("BELLWETHER_WORLD", "live")
    settings.cache_clear()
    assert listed()["sandbox-calibrated"].key == "other world"


def test_a_key_that_is_set_makes_its_models_ready_and_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    everyone = listed()
    assert (everyone["gpt-4o"].key, everyone["gpt-4o"].variable) == ("ready", "OPENAI_API_KEY")
    assert (everyone["o1"].is_ready, everyone["kimi-k2"].is_ready, everyone["kimi-k2"].variable) == (True, False, "FIREWORKS_API_KEY")
    output = CliRunner().invoke(models).output
    assert "gpt-4o" in output and not any(KEY[first : first + 8] in output for first in range(len(KEY) - 7))


def test_a_model_of_ones_own_is_listed_with_its_endpoint_as_provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text('[mine]\nmodel = "openai/llama"\napi_base = "http://127.0.0.1:8000/v1"\n', encoding="utf-8")
    monkeypatch.setenv("BELLWETHER_REGISTRY", str(tmp_path))
    settings.cache_clear()
    mine = listed()["mine"]
    assert (mine.provider, mine.key, mine.input_price) == ("own", "ready", 0)


def test_the_table_fits_a_narrow_terminal_and_names_the_missing_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = subprocess.run(
        [sys.executable, "-c", "from cli.models import models; models([])"], capture_output=True, text=True, check=True
    ).stdout
    table, caption = output.split("forecasters,")
    assert "sandbox-overconfident" in table
    assert "together_ai" in table
    assert max(len(line) for line in table.splitlines()) <= 80
    assert "OPENAI_API_KEY" in caption
