"""Runs launched by users have priority, and the number of concurrent runs is that of processors."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
import yaml

from orchestration.definitions import defs
from orchestration.home import settings_file
from orchestration.run_priority import AUTOMATIC, AUTOMATION, LAUNCHED_BY, runs_at_once


@pytest.mark.parametrize(("processors", "runs"), [(1, (3, 1)), (2, (3, 1)), (8, (9, 7))])
def test_one_place_is_left_for_a_run_that_a_person_launches(processors: int, runs: tuple[int, int]) -> None:
    assert runs_at_once(processors) == runs


def test_the_settings_of_a_new_home_fit_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestration.home.runs_at_once", lambda: (6, 5))
    (tmp_path / "dagster.yaml").write_text(settings_file())
    written = yaml.safe_load(settings_file())
    written.pop("event_log_storage")  # is below DAGSTER_HOME, which this instance lacks
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(written))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        config = instance.get_concurrency_config().run_queue_config
        assert config is not None
        assert config.max_concurrent_runs == 6
        assert config.tag_concurrency_limits == [{"key": LAUNCHED_BY, "value": AUTOMATION, "limit": 5}]


def test_no_job_gives_a_persons_run_the_tags_of_automation() -> None:
    assert not [job.name for job in defs.resolve_all_job_defs() if job.tags.keys() & AUTOMATIC.keys()]
