"""Parts of tests on the demo home: rows and files of its lake, ticks of its sensors, and an instance without its history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import polars as pl
import pytest

from bellwether.replay import registry
from bellwether.tables import TABLES, table
from tests.demo_home import AGENTS, EVENT, FIRST, FORECASTERS, LAST, RELEASE, World, open_world, selected, stock_storage
from tests.unit.publish.rows import questions

if TYPE_CHECKING:
    from bellwether.lake import Manifest

DAYS = [(FIRST + timedelta(days=offset)).isoformat() for offset in range((LAST - FIRST).days + 1)]


def rows(world: World, name: str) -> pl.DataFrame:
    return world.lake.slice(table(name)).read()


def files(world: World) -> dict[tuple[str, tuple[str, ...]], str]:
    """Return the SHA-256 of every partition of the lake."""
    return {
        (name, partition): found.digest for name, declared in TABLES.items() for partition, found in world.lake.manifests(declared).items()
    }


def manifest(world: World, name: str, *partition: str) -> Manifest:
    found = world.lake.manifest(table(name), partition)
    assert found is not None
    return found


def location(world: World, name: str, *partition: str) -> Path:
    """Return the file of a partition."""
    return Path(world.lake.storage.location(manifest(world, name, *partition).file))


def change(world: World, name: str, partition: tuple[str, ...], column: str, value: object) -> None:
    """Store a partition with another value in a column, as if its step had written it."""
    declared, made = table(name), manifest(world, name, *partition)
    before = world.lake.slice(declared, [partition]).read()
    changed = before.with_columns(pl.lit(value, declared.schema[column]).alias(column))
    assert not changed.equals(before)
    world.lake.write(declared, partition, changed, run_id="changed", inputs=made.inputs, code_version=made.code_version)


@contextmanager
def without_history(world: World, folder: Path) -> Iterator[World]:
    """Open a world with an instance that knows its partitions, but no runs and events."""
    partitions = {"release": [RELEASE], "forecaster": FORECASTERS, "recording": [EVENT], "episode": [EVENT], "agent": AGENTS}
    with dg.DagsterInstance.local_temp(str(folder), overrides=stock_storage(str(folder))) as instance:
        for name, keys in partitions.items():
            instance.add_dynamic_partitions(name, list(keys))
        yield replace(world, instance=instance)


def restrict_automation(patch: pytest.MonkeyPatch) -> None:
    """Let no other forecasters and agents than those of the demo home run without a request."""
    agents = registry.competitors()
    patch.setattr("bellwether.forecasting.competitors", lambda *_: dict.fromkeys(FORECASTERS))
    patch.setattr(registry, "competitors", lambda *_: {name: agents[name] for name in AGENTS})


def resource(world: World, name: str) -> Any:
    return (world.defs.resources or {})[name]


def tick(world: World, sensor: dg.SensorDefinition, cursor: str | None = None) -> Any:
    """Evaluate one tick of a sensor. Returns its run requests, partition requests and skip message."""
    resources = {name: resource(world, name) for name in sensor.required_resource_keys}
    with dg.build_sensor_context(
        instance=world.instance, definitions=world.defs, resources=resources, sensor_name=sensor.name, cursor=cursor
    ) as context:
        return sensor.evaluate_tick(context)


def execute(world: World, job: str, *assets: str, checks: bool = True, **options: Any) -> dg.ExecuteInProcessResult:
    """Execute a job, or only these of its assets, with or without their checks. The error of a step is not raised."""
    definition = world.defs.resolve_job_def(job)
    if assets:
        chosen = {dg.AssetKey(name.split("/")) for name in assets}
        definition = definition.get_subset(asset_selection=chosen, asset_check_selection=None if checks else set())
    return definition.execute_in_process(instance=world.instance, raise_on_error=False, **options)


@contextmanager
def home_with_questions(folder: Path, release: str, *forecasters: str, count: int = 30) -> Iterator[World]:
    """Open a home that has the questions of a release and nothing else, selected in the environment."""
    with selected(folder):
        world = open_world(folder)
        with world.instance:
            world.lake.write(table("benchmark/questions"), (release,), questions(count, release=release), run_id="made")
            world.instance.add_dynamic_partitions("release", [release])
            world.instance.add_dynamic_partitions("forecaster", list(forecasters))
            yield world
