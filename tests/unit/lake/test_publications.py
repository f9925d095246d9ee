"""The warehouse on an object store: one object per publication, a pointer to the latest, and local copies for readers."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bellwether.errors import BellwetherError, LakeError
from bellwether.lake import Lake, publications, warehouse
from bellwether.lake.publications import POINTER, Pointer, StorePlace
from bellwether.lake.warehouse import publish, query, tables_written_since
from bellwether.settings import Settings, settings
from tests.s3_server import SLOW_DOWN, Answer, S3Server, lose_answer, truncate_body
from tests.sizes import NIGHTLY
from tests.unit.lake.frames import FORECASTS, PRICES, SERIES, forecasts, prices, series

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("duckdb_extension_httpfs") is None, reason="duckdb-extension-httpfs is not installed"
)
CHOSEN = (SERIES, PRICES, FORECASTS)
DENIED: Answer = (
    "403 Forbidden",
    [("Content-Type", "application/xml")],
    b"<Error><Code>AccessDenied</Code><Message>denied</Message></Error>",
)


@pytest.fixture
def store(bucket: str) -> Any:
    """Files of the bucket."""
    import s3fs

    return s3fs.S3FileSystem(use_listings_cache=False)


@pytest.fixture
def place(bucket: str) -> str:
    return f"{bucket}/some/prefix"


@pytest.fixture
def lake(bucket: str, store: Any, tmp_path: Path) -> Lake:
    lake = Lake(f"{bucket}/lake", catalog=tmp_path / "catalog.db")
    lake.write(PRICES, ("2025-09-01",), prices(), run_id="r1")
    lake.write(SERIES, (), series(), run_id="r1")
    return lake


def pointer(store: Any, place: str) -> dict[str, Any]:
    return json.loads(store.cat_file(f"{place}/{POINTER}"))


def objects(store: Any, place: str) -> list[str]:
    return sorted(name.rpartition("/")[2] for name in store.find(place) if name.endswith(".duckdb"))


def cached() -> list[Path]:
    return sorted(settings().cache_path.rglob("*.duckdb"))


def other_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Continue with an empty home."""
    monkeypatch.setenv("BELLWETHER_HOME", str(folder))
    settings.cache_clear()


def test_another_machine_reads_what_was_published(
    lake: Lake, store: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = publish(lake, place, tables=CHOSEN)
    assert (done.path, done.partitions, done.rows) == (place, 2, 9)
    other_machine(tmp_path / "other", monkeypatch)
    assert query(place, "FROM clean.prices").equals(prices())
    assert query(place, "SELECT place FROM meta.publication").item() == place
    files = query(place, "SELECT file FROM meta.partitions")["file"].to_list()
    assert f"{lake.uri}/raw/kalshi_series/r1.parquet" in files
    (copy,) = cached()
    assert copy.is_relative_to(tmp_path / "other")
    stored = store.cat_file(f"{place}/{pointer(store, place)['object']}")
    assert copy.read_bytes() == stored
    assert pointer(store, place)["sha256"] == copy.stem == hashlib.sha256(stored).hexdigest()


def test_a_second_publication_leaves_the_object_of_the_first_one(
    lake: Lake, store: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(lake, place, tables=CHOSEN)
    other_machine(tmp_path / "other", monkeypatch)
    lake.write(FORECASTS, ("2025q3", "a/b"), forecasts(forecaster="a/b"), run_id="r1")
    done = publish(lake, place, tables=CHOSEN)
    assert (done.partitions, done.rows) == (3, 13)
    assert query(place, "FROM benchmark.forecasts").equals(forecasts(forecaster="a/b"))
    assert query(place, "FROM clean.prices").equals(prices())
    assert len(objects(store, place)) == 2
    assert len(cached()) == 1, "of the publisher, without a download"


def test_a_reader_keeps_what_it_opened(lake: Lake, store: Any, place: str) -> None:
    publish(lake, place, tables=CHOSEN)
    with warehouse.connect(place) as reader:
        lake.write(SERIES, (), series(rows=7), run_id="r2")
        publish(lake, place, tables=CHOSEN)
        assert query(place, "SELECT count(*) FROM raw.kalshi_series").item() == 7
        assert len(cached()) == 2
        assert reader.execute("SELECT count(*) FROM raw.kalshi_series").fetchall() == [(3,)]
        assert reader.execute("SELECT rows FROM meta.tables WHERE table_name = 'raw.kalshi_series'").fetchall() == [(3,)]


@pytest.mark.nightly
def test_the_faster_of_two_publishers_without_a_common_lock_is_built_upon(
    lake: Lake, store: Any, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(lake, place, tables=CHOSEN)
    switch, races = StorePlace._switch_pointer, []

    def late(self: StorePlace, new: Pointer, tag: str | None) -> bool:
        """Publish on another machine between the upload and the switch of the first attempt."""
        if not races:
            races.append(new.object)
            lake.write(FORECASTS, ("2025q3", f"m{len(races)}"), forecasts(forecaster=f"m{len(races)}"), run_id="r1")
            with monkeypatch.context() as other:
                other.setattr(StorePlace, "_switch_pointer", switch)
                other_machine(tmp_path / "other", other)
                publish(lake, place, tables=CHOSEN)
            settings.cache_clear()
        return switch(self, new, tag)

    monkeypatch.setattr(StorePlace, "_switch_pointer", late)
    lake.write(SERIES, (), series(rows=5), run_id="r2")
    publish(lake, place, tables=CHOSEN)
    assert len(races) == 1
    assert pointer(store, place)["object"] not in races
    assert query(place, "SELECT count(DISTINCT forecaster) FROM benchmark.forecasts").item() == 1
    assert query(place, "SELECT count(*) FROM raw.kalshi_series").item() == 5


def is_switch(environ: dict[str, Any]) -> bool:
    return environ["REQUEST_METHOD"] == "PUT" and environ["PATH_INFO"].endswith(POINTER)


def test_a_failed_switch_leaves_the_previous_publication(lake: Lake, store: Any, place: str, s3_server: S3Server) -> None:
    publish(lake, place, tables=CHOSEN)
    before = pointer(store, place)
    s3_server.fault = lambda environ, _: DENIED if is_switch(environ) else None
    with pytest.raises(BellwetherError, match=r"writing s3://bucket-\d+/some/prefix/pointer.json: .*denied"):
        publish(lake, place, tables=CHOSEN)
    assert pointer(store, place) == before
    assert query(place, "FROM clean.prices").equals(prices())


def test_requests_follow_what_has_changed(lake: Lake, place: str, s3_server: S3Server) -> None:
    found = []
    for count in (2, 4) if NIGHTLY else (2,):
        for day in range(count):
            lake.write(PRICES, (f"2025-10-0{day + 1}",), prices(f"2025-10-0{day + 1}"), run_id=f"r{count}")
        publish(lake, place, tables=CHOSEN)
        lake.write(PRICES, ("2025-10-01",), prices("2025-10-01", seed=count), run_id="new")
        with s3_server.counting() as looking:
            assert tables_written_since(lake, place, CHOSEN) == [PRICES]
        assert looking == {"GET": 1}
        with s3_server.counting() as publishing:
            publish(lake, place, tables=CHOSEN)
        found.append(publishing.total())
        with s3_server.counting() as asking:
            assert query(place, "SELECT count(*) FROM clean.prices").item() == (count + 1) * 6
        assert asking.total() <= 1 + count + 1 + 1
        assert "HEAD" not in asking
    assert found[0] == found[-1] <= 12


def test_superseded_objects_stay_for_the_grace_period_and_abandoned_uploads_too(
    lake: Lake, store: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(lake, place, tables=CHOSEN)
    store.pipe_file(f"{place}/abandoned.duckdb", b"of a publisher that was killed")
    store.pipe_file(f"{place}/notes.txt", b"of a user")
    publish(lake, place, tables=CHOSEN)
    assert len(objects(store, place)) == 3
    monkeypatch.setattr(publications, "GRACE", timedelta(0))
    publish(lake, place, tables=CHOSEN)
    assert objects(store, place) == [pointer(store, place)["object"]]
    assert store.exists(f"{place}/notes.txt")


def test_a_damaged_pointer_is_one_clear_error_until_the_next_publication(lake: Lake, store: Any, place: str) -> None:
    store.pipe_file(f"{place}/{POINTER}", b'{"object": ')
    for attempt in (lambda: query(place, "SELECT 1"), lambda: tables_written_since(lake, place)):
        with pytest.raises(LakeError, match=r"reading s3://bucket-\d+/some/prefix/pointer.json: it is damaged"):
            attempt()
    publish(lake, place, tables=CHOSEN)
    assert query(place, "FROM clean.prices").equals(prices())


def test_places_by_the_settings(tmp_path: Path) -> None:
    def uri(**given: Any) -> str:
        return Settings(home=tmp_path, **given).warehouse_uri

    assert uri() == str(tmp_path / "sandbox" / "warehouse.duckdb")
    assert uri(store=str(tmp_path / "shared")) == str(tmp_path / "shared" / "sandbox" / "warehouse.duckdb")
    assert uri(store="s3://bucket/all/") == "s3://bucket/all/sandbox/warehouse"
    assert uri(store="s3://bucket/all", warehouse="s3://other/warehouse/") == "s3://other/warehouse"
    assert uri(store="s3://bucket/all", warehouse="here.duckdb") == str(Path("here.duckdb").absolute())


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone", "changed copy"])
def test_an_object_that_is_not_as_it_was_published_is_refused_and_published_again(lake: Lake, store: Any, place: str, damage: str) -> None:
    publish(lake, place, tables=CHOSEN)
    if damage == "changed copy":
        (copy,) = cached()
        copy.write_bytes(b"changed")
        assert query(place, "FROM clean.prices").equals(prices()), "it is downloaded again"
        return
    path = f"{place}/{pointer(store, place)['object']}"
    data = store.cat_file(path)
    if damage == "gone":
        store.rm_file(path)
    else:
        at = random.Random(1).randrange(len(data))
        store.pipe_file(path, data[:at] if damage == "cut" else data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    for copy in cached():
        copy.unlink()
    with pytest.raises(LakeError, match="publish it again: `bellwether warehouse`"):
        query(place, "SELECT 1")
    assert cached() == []
    publish(lake, place, tables=CHOSEN)
    assert query(place, "FROM clean.prices").equals(prices())


def test_a_faulty_store_shows_no_wrong_row(lake: Lake, place: str, s3_server: S3Server) -> None:
    """With slow-downs, truncated bodies and lost answers, a reader gets the rows of the latest publication or an error."""
    rng, rows, failures = random.Random(1), 3, 0

    def fault(environ: dict[str, Any], serve: Callable[[], Answer]) -> Answer | None:
        if "/some/prefix/" not in environ["PATH_INFO"] or rng.random() > 0.3:
            return None
        kind = rng.choice(["slow", "torn", "lost"])
        if kind == "slow":
            return SLOW_DOWN
        return lose_answer(serve) if kind == "lost" else truncate_body(serve(), silently=rng.random() < 0.5)

    publish(lake, place, tables=CHOSEN)
    s3_server.fault = fault
    for number in range(2):
        lake.write(SERIES, (), series(rows=number + 4), run_id=f"r{number}")
        try:
            publish(lake, place, tables=CHOSEN)
        except LakeError:
            failures += 1
        for copy in cached():
            copy.unlink()
        try:
            found = query(place, "SELECT count(*) FROM raw.kalshi_series").item()
        except LakeError:
            failures += 1
        else:
            assert found in {rows, number + 4}
            rows = found
    assert failures < 4
    s3_server.fault = None
    publish(lake, place, tables=CHOSEN)
    assert query(place, "SELECT count(*) FROM raw.kalshi_series").item() == 5
