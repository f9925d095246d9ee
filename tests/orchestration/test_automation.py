"""What follows by itself, and what must not."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from assets.benchmark.automation import FOLLOW_UNASKED
from assets.replay.automation import FOLLOW_AGENTS
from orchestration import automation

RELEASE = dg.StaticPartitionsDefinition(["r"])
PAIR = dg.MultiPartitionsDefinition({"release": RELEASE, "forecaster": dg.StaticPartitionsDefinition(["free", "paid"])})


@dg.asset(key=["benchmark", "questions"], partitions_def=RELEASE)
def questions() -> None:
    """Questions of a release."""


@dg.asset(key=["benchmark", "forecasts"], deps=[questions], partitions_def=PAIR, automation_condition=FOLLOW_UNASKED)
def forecasts() -> None:
    """Forecasts on them."""


def requested(competitors: set[str], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    monkeypatch.setattr("bellwether.forecasting.competitors", lambda: dict.fromkeys(competitors))
    defs = dg.Definitions([questions, forecasts])
    with dg.DagsterInstance.ephemeral() as instance:
        first = dg.evaluate_automation_conditions(defs=defs, instance=instance)
        instance.report_runless_asset_event(dg.AssetMaterialization(["benchmark", "questions"], partition="r"))
        then = dg.evaluate_automation_conditions(defs=defs, instance=instance, cursor=first.cursor)
    return {automation._named(found, "forecaster") for found in then.get_requested_partitions(forecasts.key)}


def test_new_questions_are_answered_by_who_takes_part_unasked_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert requested({"free"}, monkeypatch) == {"free"}


def test_a_model_that_the_settings_name_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    assert requested({"free", "paid"}, monkeypatch) == {"free", "paid"}


EPISODE_AGENT = dg.MultiPartitionsDefinition(
    {"episode": dg.StaticPartitionsDefinition(["e"]), "agent": dg.StaticPartitionsDefinition(["rule", "paid-model"])}
)


@dg.asset(key=["replay", "episodes"], partitions_def=dg.StaticPartitionsDefinition(["e"]))
def episodes() -> None:
    """An episode."""


@dg.asset(key=["replay", "backtests"], deps=[episodes], partitions_def=EPISODE_AGENT, automation_condition=FOLLOW_AGENTS)
def backtests() -> None:
    """What agents earn in it."""


def test_a_new_episode_is_traded_by_agents_that_cost_nothing_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bellwether.replay.registry.competitors", lambda: {"rule": None})
    defs = dg.Definitions([episodes, backtests])
    with dg.DagsterInstance.ephemeral() as instance:
        first = dg.evaluate_automation_conditions(defs=defs, instance=instance)
        instance.report_runless_asset_event(dg.AssetMaterialization(["replay", "episodes"], partition="e"))
        then = dg.evaluate_automation_conditions(defs=defs, instance=instance, cursor=first.cursor)
    assert {automation._named(found, "agent") for found in then.get_requested_partitions(backtests.key)} == {"rule"}


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ({"run_id": "one"}, "one"),
        ({"run_id": "two", "root_run_id": "one", "parent_run_id": "one"}, "one"),
        ({"run_id": "two", "tags": {"dagster/backfill": "many"}}, "many"),
    ],
)
def test_runs_of_a_backfill_and_repetitions_of_a_run_share_a_budget(run: dict[str, Any], expected: str) -> None:
    from resources.models import payer

    assert payer(dg.DagsterRun(job_name="evaluate", **run)) == expected
