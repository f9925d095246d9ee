"""What of Dagster's private modules the project uses: all of it is named here, and exists in the Dagster that is installed."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Private module of Dagster -> the names that are used of it. The version of Dagster is bounded for their sake.
PRIVATE = {
    "dagster._core.definitions.data_version": {"DATA_VERSION_IS_USER_PROVIDED_TAG", "DATA_VERSION_TAG"},
    "dagster._core.definitions.declarative_automation.serialized_objects": {"AutomationConditionEvaluationWithRunIds"},
    "dagster._core.definitions.repository_definition": {"SINGLETON_REPOSITORY_NAME"},
    "dagster._core.events": {"ASSET_CHECK_EVENTS", "ASSET_EVENTS", "DagsterEvent", "EVENT_TYPE_TO_PIPELINE_RUN_STATUS"},
    "dagster._core.events.log": {"EventLogEntry"},
    "dagster._core.execution.context.system": {"StepExecutionContext"},
    "dagster._core.remote_origin": {"ManagedGrpcPythonEnvCodeLocationOrigin", "RemoteJobOrigin", "RemoteRepositoryOrigin"},
    "dagster._core.storage.asset_check_execution_record": {"AssetCheckExecutionRecordStatus"},
    "dagster._core.storage.compute_log_manager": {"CapturedLogContext", "ComputeIOType"},
    "dagster._core.storage.local_compute_log_manager": {"IO_TYPE_EXTENSION", "LocalComputeLogManager"},
    "dagster._core.storage.dagster_run": {"FINISHED_STATUSES"},
    "dagster._core.storage.event_log.schema": {"AssetCheckExecutionsTable", "SqlEventLogStorageTable"},
    "dagster._core.storage.event_log.sqlite.sqlite_event_log": {
        "INDEX_SHARD_NAME",
        "SQLITE_BUSY_TIMEOUT_SECONDS",
        "SqliteEventLogStorage",
        "SqliteEventLogStorageWatchdog",
    },
    "dagster._core.storage.runs.sqlite.sqlite_run_storage": {"SqliteRunStorage"},
    "dagster._core.storage.schedules.schema": {"AssetDaemonAssetEvaluationsTable"},
    "dagster._core.storage.schedules.sqlite.sqlite_schedule_storage": {"SqliteScheduleStorage"},
    "dagster._core.types.loadable_target_origin": {"LoadableTargetOrigin"},
    "dagster._serdes": {"ConfigurableClassData", "serialize_value"},
}


def used() -> dict[str, set[str]]:
    """Private modules of Dagster that the sources import, with the names."""
    found: dict[str, set[str]] = {}
    for folder in ("cli", "assets", "orchestration", "resources", "bellwether"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dagster._"):
                    found.setdefault(node.module, set()).update(name.name for name in node.names)
    return found


def test_no_other_private_name_of_dagster_is_used() -> None:
    assert used() == PRIVATE


def test_the_private_names_exist() -> None:
    for module, names in PRIVATE.items():
        assert {name for name in names if not hasattr(import_module(module), name)} == set(), module
