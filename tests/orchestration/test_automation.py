"""What follows by itself, and what must not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor

from assets.benchmark.automation import FOLLOW_UNASKED
from assets.replay.automation import FOLLOW_AGENTS
from orchestration import automation
from orchestration.orphans import Process

RELEASE = dg.StaticPartitionsDefinition(["r", "r@20"])
PAIR = dg.MultiPartitionsDefinition({"release": RELEASE, "forecaster": dg.StaticPartitionsDefinition(["free", "paid"])})


@dg.asset(key=["benchmark", "questions"], partitions_def=RELEASE)
def questions() -> None:
    """Questions of a release."""


@dg.asset(key=["benchmark", "forecasts"], deps=[questions], partitions_def=PAIR, automation_condition=FOLLOW_UNASKED)
def forecasts() -> None:
    """Forecasts on them."""


def requested(competitors: set[str], monkeypatch: pytest.MonkeyPatch, release: str = "r") -> set[str]:
    monkeypatch.setattr("bellwether.forecasting.competitors", lambda: dict.fromkeys(competitors))
    defs = dg.Definitions([questions, forecasts])
    with dg.DagsterInstance.ephemeral() as instance:
        first = dg.evaluate_automation_conditions(defs=defs, instance=instance)
        instance.report_runless_asset_event(dg.AssetMaterialization(["benchmark", "questions"], partition=release))
        then = dg.evaluate_automation_conditions(defs=defs, instance=instance, cursor=first.cursor)
    return {automation._named(found, "forecaster") for found in then.get_requested_partitions(forecasts.key)}


def test_new_questions_are_answered_by_who_takes_part_unasked_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert requested({"free"}, monkeypatch) == {"free"}


def test_a_model_that_the_settings_name_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    assert requested({"free", "paid"}, monkeypatch) == {"free", "paid"}


def test_a_subset_that_a_person_asked_for_is_answered_by_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    assert requested({"free", "paid"}, monkeypatch, release="r@20") == set()


@dg.asset(deps=[questions], partitions_def=RELEASE, automation_condition=automation.FOLLOW)
def analysis() -> None:
    """An analysis of a release's questions."""


@dg.asset(deps=[questions], automation_condition=automation.FOLLOW_ANY)
def summary() -> None:
    """A table over all releases."""


@pytest.mark.parametrize("asset", [analysis, summary])
def test_what_a_command_makes_is_followed_when_it_has_ended_unless_it_did_so_itself(asset: dg.AssetsDefinition, tmp_path: Path) -> None:
    """A command's next run may be the very one that would be requested while it works."""
    defs, partition = dg.Definitions([questions, asset]), "r" if asset is analysis else None

    def tick(cursor: AssetDaemonCursor | None) -> tuple[int, AssetDaemonCursor]:
        found = dg.evaluate_automation_conditions(defs=defs, instance=instance, cursor=cursor)
        return found.total_requested, found.cursor

    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        requests, cursor = tick(None)
        for is_made_by_the_command in (False, True):
            command = Process(instance)
            assert dg.materialize([questions], instance=instance, partition_key="r").success
            for _ in range(2):
                requests, cursor = tick(cursor)
                assert requests == 0, "the command is at work"
            if is_made_by_the_command:
                assert dg.materialize([asset], instance=instance, partition_key=partition, selection=[asset]).success
            command.close()
            requests, cursor = tick(cursor)
            assert requests == (0 if is_made_by_the_command else 1)
            assert dg.materialize([asset], instance=instance, partition_key=partition, selection=[asset]).success
            requests, cursor = tick(cursor)
            assert requests == 0


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
