"""Out-of-date partitions, determined from manifests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path

import polars as pl
import pytest

from bellwether.lake import Lake, staleness
from bellwether.lake.partitions import Partition
from bellwether.lake.staleness import LoadedLake, Staleness, TableInputs, describe_delays, find_delays
from bellwether.settings import settings
from bellwether.tables.schema import TEXT, Column, Table, external_table
from tests.sizes import EXAMPLES

TODAY = date(2026, 3, 9)
DAY, VALUE = Column("day", TEXT, "day"), Column("value", pl.Int64(), "value")


def by_day(name: str, **how: object) -> Table:
    return Table(name, "A row.", (DAY, VALUE), key=("day", "value"), partitioned_by=("day",), **how)  # type: ignore[arg-type]


RAW, CLEAN, LIVE = by_day("t/raw"), by_day("t/clean"), by_day("t/live", often=True)
LATER = by_day("t/later", history=("t/raw",))
PAIR = Table("t/pair", "A row.", (DAY, Column("name", TEXT, "name"), VALUE), key=("day", "name"), partitioned_by=("day", "name"))
TOTAL = Table("t/total", "A row.", (VALUE,), key=("value",))
REPORT = external_table("t/report", "day")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    seconds = count()
    return Lake(str(tmp_path), clock=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(seconds)))


def write(lake: Lake, table: Table, partition: Partition, value: int, recipe: TableInputs | None = None, **how: object) -> None:
    values = dict(zip(table.partitioned_by, partition, strict=True))
    made = {"inputs": Staleness(lake, TODAY).versions(recipe, partition), "code_version": recipe.code} if recipe else {}
    lake.write(table, partition, table.frame([{**values, "value": value}]), **{"run_id": "run", **made, **how})  # type: ignore[arg-type]


def due(lake: Lake, recipe: TableInputs, *partitions: Partition) -> list[Partition]:
    return Staleness(lake, TODAY).find_outdated(recipe, partitions, sound=True)


def test_a_partition_is_due_when_its_own_input_has_other_rows(lake: Lake) -> None:
    recipe = TableInputs(CLEAN, (RAW,))
    for day in ("1", "2"):
        write(lake, RAW, (day,), 1)
        write(lake, CLEAN, (day,), 1, recipe)
    assert due(lake, recipe, ("1",), ("2",), ("3",)) == [("3",)]
    write(lake, RAW, ("2",), 1, run_id="again")
    assert due(lake, recipe, ("1",), ("2",)) == [], "the same rows"
    write(lake, RAW, ("2",), 2)
    assert due(lake, recipe, ("1",), ("2",)) == [("2",)]
    write(lake, RAW, ("2",), 1)
    assert due(lake, recipe, ("1",), ("2",)) == [], "made from these rows"


def test_a_table_of_all_partitions_is_due_when_one_is_added_or_changed(lake: Lake) -> None:
    recipe = TableInputs(TOTAL, (RAW, LIVE))
    write(lake, RAW, ("1",), 1)
    write(lake, TOTAL, (), 1, recipe)
    assert due(lake, recipe, ()) == []
    write(lake, RAW, ("2",), 1)
    assert due(lake, recipe, ()) == [()]
    write(lake, TOTAL, (), 2, recipe)
    write(lake, LIVE, (TODAY.isoformat(),), 1)
    assert due(lake, recipe, ()) == [], "the day in progress changes with every mark"
    write(lake, LIVE, ("2026-03-08",), 1)
    assert due(lake, recipe, ()) == [()]


def test_partitions_that_share_a_dimension_belong_together(lake: Lake) -> None:
    of_pair, of_day = TableInputs(PAIR, (RAW,)), TableInputs(CLEAN, (PAIR,))
    write(lake, RAW, ("1",), 1)
    for name in ("a", "b"):
        write(lake, PAIR, ("1", name), 1, of_pair)
    write(lake, CLEAN, ("1",), 1, of_day)
    write(lake, PAIR, ("2", "a"), 1)
    assert due(lake, of_day, ("1",)) == []
    write(lake, PAIR, ("1", "b"), 2, of_pair)
    assert due(lake, of_day, ("1",)) == [("1",)]
    write(lake, RAW, ("1",), 2)
    assert due(lake, of_pair, ("1", "a"), ("1", "b")) == [("1", "a"), ("1", "b")]


def test_a_history_is_due_when_an_earlier_partition_changes(lake: Lake) -> None:
    recipe = TableInputs(LATER, (RAW,))
    for day in ("1", "2", "3"):
        write(lake, RAW, (day,), 1)
    for day in ("1", "2", "3"):
        write(lake, LATER, (day,), 1, recipe)
    write(lake, RAW, ("2",), 2)
    assert due(lake, recipe, ("1",), ("2",), ("3",)) == [("2",), ("3",)]


def test_ignored_inputs_and_code(lake: Lake) -> None:
    recipe = TableInputs(by_day("t/other", ignored=("t/live",)), (RAW, LIVE), code="1")
    write(lake, RAW, ("1",), 1)
    write(lake, recipe.table, ("1",), 1, recipe)
    write(lake, LIVE, ("1",), 1)
    assert due(lake, recipe, ("1",)) == []
    assert due(lake, TableInputs(recipe.table, (RAW,), code="2"), ("1",)) == [("1",)]


def test_a_mark_is_no_result_of_the_graph(lake: Lake) -> None:
    write(lake, RAW, ("1",), 1)
    write(lake, LIVE, ("1",), 2, inputs={})
    assert due(lake, TableInputs(LIVE, (RAW,)), ("1",)) == [("1",)]


def test_lost_and_damaged_files_are_due(lake: Lake) -> None:
    recipe = TableInputs(CLEAN, (RAW,))
    write(lake, RAW, ("1",), 1)
    for day in ("1", "2", "3"):
        write(lake, CLEAN, (day,), 1, recipe)
    files = {day: Path(lake.uri) / lake.manifest(CLEAN, (day,)).file for day in ("1", "2")}  # type: ignore[union-attr]
    files["1"].unlink()
    whole = files["2"].read_bytes()
    files["2"].write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert due(lake, recipe, ("1",), ("2",), ("3",)) == [("1",), ("2",)]


def test_files_outside_the_lake_are_due_as_tables_are(lake: Lake) -> None:
    recipe = TableInputs(REPORT, (RAW,))
    write(lake, RAW, ("1",), 1)
    assert due(lake, recipe, ("1",)) == [("1",)]
    lake.record_inputs(REPORT, ("1",), run_id="run", inputs=Staleness(lake, TODAY).versions(recipe, ("1",)))
    assert due(lake, recipe, ("1",)) == []
    write(lake, RAW, ("1",), 2)
    assert due(lake, recipe, ("1",)) == [("1",)]


def test_only_partitions_with_inputs_can_be_made(lake: Lake) -> None:
    write(lake, RAW, ("1",), 1)
    write(lake, RAW, ("2",), 1)
    write(lake, LIVE, ("2",), 1)
    state = Staleness(lake, TODAY)
    assert state.find_buildable(TableInputs(CLEAN, (RAW, LIVE))) == {("2",)}
    assert state.find_buildable(TableInputs(TOTAL, (RAW, CLEAN))) == {()}
    assert state.find_buildable(TableInputs(TOTAL, (CLEAN,))) == set()


class Run:
    """A run that reads its input at its beginning or later, and writes that input when it ends."""

    def __init__(self, lake: Lake, name: str, *, loads: bool) -> None:
        self.lake, self.name, self.base = lake, name, lake.catalog.head()
        self.loaded = {RAW.name: {one.partition: one for one in lake.slice(RAW).manifests}} if loads else {}
        self.value = sum(lake.slice(RAW).read()["value"])

    def end(self, recipe: TableInputs) -> int:
        state = LoadedLake(self.lake, TODAY, self.loaded, base=self.base, run_id=self.name)
        write(self.lake, TOTAL, (), self.value, run_id=self.name, inputs=state.versions(recipe, ()))
        return self.value


def test_delays_are_those_of_a_table_and_of_everything_that_it_is_computed_from(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    days, total = TableInputs(CLEAN, (RAW,)), TableInputs(TOTAL, (CLEAN,))
    monkeypatch.setattr(staleness, "TABLES", {table.name: table for table in (RAW, CLEAN, TOTAL)})
    for day in ("1", "2"):
        write(lake, RAW, (day,), 1)
        write(lake, CLEAN, (day,), 1, days)
    write(lake, TOTAL, (), 2, total)
    assert find_delays(lake, [TOTAL, CLEAN, RAW]) == {}
    assert describe_delays({}) == ""

    write(lake, RAW, ("2",), 2)
    failed = lake.manifest(CLEAN, ("2",)).written_at  # type: ignore[union-attr]
    assert find_delays(lake, [TOTAL]) == {"t/clean": failed}, "the total is of the rows that the failed rebuild left"
    write(lake, CLEAN, ("2",), 2, days)
    assert list(find_delays(lake, [TOTAL])) == ["t/total"]
    assert find_delays(lake, [CLEAN]) == {}
    write(lake, RAW, ("1",), 5)
    late = find_delays(lake, [TOTAL])
    assert list(late) == ["t/total", "t/clean"], "the shown table first"
    assert describe_delays(late).startswith(
        "Out of date, because a rebuild failed or is overdue: t/total of 2026-01-01 00:00 UTC, t/clean of 2026"
    )
    assert describe_delays({str(number): failed for number in range(5)}).endswith("and 2 other tables.")


def test_a_table_older_than_its_schedule_is_delayed_where_time_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    daily = replace(RAW, max_age=timedelta(hours=36))
    lake = Lake(str(tmp_path / "lake"), clock=lambda: now)
    write(lake, daily, ("1",), 1)
    for hours, world, delayed in ((36, "live", False), (37, "live", True), (37, "sandbox", False)):
        monkeypatch.setenv("BELLWETHER_WORLD", world)
        settings.cache_clear()
        later = Lake(str(tmp_path / "lake"), clock=lambda hours=hours: now + timedelta(hours=hours))  # type: ignore[misc]
        assert find_delays(later, [daily]) == ({"t/raw": now} if delayed else {}), (hours, world)


def test_no_update_is_lost_and_no_run_is_in_vain(tmp_path: Path) -> None:
    for seed in range(EXAMPLES):
        check_updates(random.Random(seed), Lake(str(tmp_path / str(seed))))


def check_updates(draw: random.Random, lake: Lake) -> None:
    """Change the input at random while runs begin, end and fail, and check the total at the end."""
    recipe, names, under_way = TableInputs(TOTAL, (RAW,)), count(), list[Run]()
    runs = changes = 0
    held: dict[str, int] = {}

    def look() -> Iterator[Run]:
        if not under_way and held and due(lake, recipe, ()):
            yield Run(lake, f"run{next(names)}", loads=draw.random() < 0.5)

    for _ in range(14):
        action = draw.choice(("arrive", "arrive", "look", "end", "fail"))
        if action == "arrive":
            day, value = draw.choice("123"), draw.choice((1, 2))
            changes += held.get(day) != value
            held[day] = value
            write(lake, RAW, (day,), value, run_id="pull")
        elif action == "look":
            under_way += (new := list(look()))
            runs += len(new)
        elif under_way:
            run = under_way.pop()
            if action == "end":
                run.end(recipe)
            else:
                runs -= 1
    for run in under_way:
        run.end(recipe)
    under_way.clear()
    for run in look():
        runs += 1
        run.end(recipe)
    assert runs <= 2 * changes
    assert not due(lake, recipe, ()) or not held
    assert not held or lake.slice(TOTAL).read()["value"].to_list() == [sum(held.values())]
