"""First view of the UI: descriptions and links of assets, forecasters without a key, selections, and failing checks."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.benchmark.partitions import forecaster_list, forecasters
from bellwether import checks
from bellwether.checks.rule import rules_for
from bellwether.forecasting import without_key
from bellwether.settings import World, settings
from bellwether.tables import table
from orchestration.checks import _result
from orchestration.definitions import build_defs
from orchestration.server import _serve_site
from tests.orchestration import conftest

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "TOGETHERAI_API_KEY", "FIREWORKS_API_KEY")


@pytest.fixture(scope="module")
def defs() -> dg.Definitions:
    return build_defs()


def test_every_asset_has_three_lines_an_owner_and_a_page(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert len((node.description or "").split("\n\n")) == 3, key
        assert list(node.owners) == ["team:bellwether"], key
        page = node.metadata["page"]
        assert isinstance(page, dg.UrlMetadataValue) and (page.url or "").endswith(".html"), key


def test_pages_are_linked_at_the_address_of_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    from orchestration.asset_declarations import site_link

    monkeypatch.setenv("BELLWETHER_SITE_URL", "https://bellwether.example.com/")
    settings.cache_clear()
    assert site_link("data/index.html").url == "https://bellwether.example.com/data/index.html"
    monkeypatch.delenv("BELLWETHER_SITE_URL")
    settings.cache_clear()
    assert str(site_link("data/index.html").url).startswith("file://")


def test_the_ui_serves_the_site_and_explains_a_missing_page(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("home")
    with _serve_site(tmp_path) as address:
        with urllib.request.urlopen(f"{address}/index.html") as answer:
            assert answer.read() == b"home"
        with pytest.raises(urllib.error.HTTPError) as failure:
            urllib.request.urlopen(f"{address}/data/index.html")
        assert b"bellwether site" in failure.value.read()


def test_tables_of_rankings_are_materialized_one_by_one(defs: dg.Definitions) -> None:
    """The UI asks for confirmation if a step builds more than the selection. Only pulls and backtests should do that."""
    graph = defs.resolve_asset_graph()
    together = {key.to_user_string() for key in graph.get_all_asset_keys() if len(graph.get(key).execution_set_asset_keys) > 1}
    assert {name.split("/")[0] for name in together} == {"raw", "replay"}
    assert not together & {"replay/summary", "replay/results", "benchmark/leaderboard", "arena/leaderboard", "arena/rankings"}


def test_forecasters_that_need_a_key_are_listed_last_by_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in KEYS:
        monkeypatch.delenv(variable, raising=False)
    missing = without_key()
    order = [missing.get(name, "") for name in forecasters()]
    assert order == sorted(order) and order[0] == "" and "key missing: OPENAI_API_KEY" in order
    lines = forecaster_list().splitlines()
    assert lines[0].startswith("- ready: ") and "`always-half`" in lines[0]
    assert any(line.startswith("- key missing: OPENAI_API_KEY: ") and "`gpt-4o`" in line for line in lines)


def test_a_forecaster_without_its_key_is_refused_with_the_variable(monkeypatch: pytest.MonkeyPatch, evaluated: conftest.World) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    evaluated.instance.add_dynamic_partitions("forecaster", ["gpt-4o"])
    result = evaluated.defs.resolve_job_def("evaluate").execute_in_process(
        instance=evaluated.instance,
        partition_key=dg.MultiPartitionKey({"release": "sandbox-2026", "forecaster": "gpt-4o"}),
        asset_selection=[dg.AssetKey(["benchmark", "forecasts"])],
        raise_on_error=False,
    )
    (failure,) = result.get_step_failure_events()
    assert "calling gpt-4o: stopped: OPENAI_API_KEY is not set" in str(failure.step_failure_data.user_failure_data)


def test_the_gap_of_the_demo_is_expected_in_the_sandbox_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = table("raw/recording_gaps")
    (rule,) = [one for one in rules_for(declared.name) if one.name == "nothing_lost"]
    rows = pl.DataFrame({"recording": ["r"], "gap": [0], "kind": ["lost"]})
    outcomes = checks.validate(declared, rows, [rule])
    result = _result(declared, outcomes, rule.expected if rule.is_expected else "")
    assert result.passed and str(result.description).startswith("Expected in the sandbox: ")
    monkeypatch.setattr("bellwether.checks.rule.settings", lambda: settings().model_copy(update={"world": World.LIVE}))
    assert not _result(declared, outcomes, rule.expected if rule.is_expected else "").passed


def test_models_that_fail_on_purpose_do_not_fail_the_coverage() -> None:
    declared = table("benchmark/forecasts")
    (rule,) = [one for one in rules_for(declared.name) if one.name == "coverage"]
    for name, passed in (("sandbox-malformed", True), ("sandbox-calibrated", False)):
        rows = pl.DataFrame({"release": "r", "forecaster": name, "question_id": ["1", "2"], "sample": 0, "p_yes": [None, 0.5]})
        assert checks.validate(declared, rows, [rule])[0].passed is passed
