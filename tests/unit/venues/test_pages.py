"""The store of verbatim pages."""

from __future__ import annotations

import errno
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from bellwether.errors import LakeError
from bellwether.lake.storage import Storage, open_storage
from bellwether.venues.http import pages
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.pages import PageStore, StoredPull

PAGE = VenuePage("GET /markets?limit=2", 200, datetime(2026, 3, 20, 8, 30, tzinfo=UTC), b'{ "markets":[],\n"cursor":"c1" }', 0)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "lake"))


@pytest.fixture
def store(storage: Storage) -> PageStore:
    return PageStore(storage)


def reopen(store: PageStore) -> StoredPull:
    """Open the day's pull as another process would."""
    StoredPull._loaded = "", {}
    return store.open("day", "2026-03-14", reuse=lambda note: True)


def stored(store: PageStore, *pages: VenuePage) -> StoredPull:
    pull = reopen(store)
    for page in pages:
        pull.write("markets", page)
    pull.flush()
    return reopen(store)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_the_pages_of_a_pull_are_parquet_files_that_any_tool_reads(tmp_path: Path):
    pull = stored(PageStore(open_storage(str(tmp_path))), PAGE, replace(PAGE, ordinal=1, body=b"{}", sent=b"[1]"))
    assert pull.folder == "raw/kalshi_pages/day/2026-03-14/0001"
    pull.finish({"markets": 2}, {})
    folder = tmp_path / pull.folder
    assert files(folder) == ["0000.parquet", "done.json"]
    first, second = pl.read_parquet(folder / "0000.parquet").iter_rows(named=True)
    fields = {name: getattr(PAGE, name) for name in ("request", "status", "fetched_at", "body", "ordinal", "sent")}
    assert first == {"step": "markets", **fields}
    assert (second["ordinal"], second["sent"], second["body"]) == (1, b"[1]", b"{}")


def test_pages_are_found_in_any_order_across_files_and_the_last_one_written_counts(store: PageStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages, "_FILE_BYTES", 100)
    many = [replace(PAGE, ordinal=ordinal, body=bytes([ordinal]) * 30) for ordinal in range(20)]
    pull = stored(store, replace(many[3], body=b"{}"), *many)
    pull.finish({"markets": 20}, {})
    for opened in (pull, reopen(store)):
        assert [page.body for page in opened.pages("markets")] == [page.body for page in many]
        assert [opened.page("markets", ordinal) for ordinal in (19, 0, 7)] == [many[19], many[0], many[7]]
        assert opened.find("events", 0) is None


def test_pages_wait_in_memory_until_they_are_large_or_old(store: PageStore, monkeypatch: pytest.MonkeyPatch):
    pull = reopen(store)
    pull.write("markets", PAGE)
    assert pull.find("markets", 0) == PAGE
    assert reopen(store).steps == set()
    monkeypatch.setattr(pages, "_WAIT", 0)
    pull.write("markets", replace(PAGE, ordinal=1))
    assert [reopen(store).find("markets", ordinal) for ordinal in range(2)] == [PAGE, replace(PAGE, ordinal=1)]


def test_a_finished_pull_is_used_again_or_followed_by_the_next_and_never_changed(store: PageStore):
    first = stored(store, PAGE)
    first.finish({"markets": 1}, {"final": True})
    assert reopen(store).note == {"final": True, "pages": {"markets": [0]}}
    assert [page.body for page in reopen(store).pages("markets")] == [PAGE.body]
    second = store.open("day", "2026-03-14", reuse=lambda note: False)
    assert (first.folder[-4:], second.folder[-4:], second.note, second.steps) == ("0001", "0002", None, set())


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: b"", lambda data: data[:40], lambda data: b"PAR1" + bytes(100) + b"PAR1"]
)
def test_damaged_pages_are_fetched_again_or_reported(store: PageStore, storage: Storage, damage):  # type: ignore[no-untyped-def]
    name = f"{stored(store, PAGE).folder}/0000.parquet"
    storage.put(name, damage(storage.read(name) or b""))
    pull = reopen(store)
    assert pull.find("markets", 0) is None
    with pytest.raises(LakeError, match=r"page 0 of markets is gone or damaged; pull again with --refresh"):
        pull.finish({"markets": 1}, {})
    pull.write("markets", PAGE)
    pull.finish({"markets": 1}, {})
    assert list(reopen(store).pages("markets")) == [PAGE]
    name = f"{pull.folder}/0001.parquet"
    storage.put(name, damage(storage.read(name) or b""))
    with pytest.raises(LakeError, match=r"0001.parquet: page 0 of markets is gone or damaged; pull again with --refresh"):
        list(reopen(store).pages("markets"))


def test_a_full_disk_is_a_clear_error_and_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import os

    pull = stored(PageStore(open_storage(str(tmp_path))), PAGE)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            pull.write("markets", replace(PAGE, ordinal=1))
            with pytest.raises(LakeError, match="No space left on device"):
                pull.finish({"markets": 2}, {})
        assert files(tmp_path) == ["0000.parquet"]


def pulls_of(store: PageStore, count: int) -> list[StoredPull]:
    made = []
    for _ in range(count):
        pull = store.open("day", "2026-03-14", reuse=lambda note: False)
        pull.write("markets", PAGE)
        pull.finish({"markets": 1}, {})
        made.append(pull)
    return made


def test_pulls_that_nothing_names_go_after_the_grace_period(tmp_path: Path):
    store = PageStore(open_storage(str(tmp_path)))
    first, second, third, _ = pulls_of(store, 4)
    week, now = timedelta(days=7), datetime.now(UTC)
    assert store.vacuum(week, now, keep=[second.folder]).files == ()
    removed = store.vacuum(week, now + timedelta(days=8), keep=[second.folder])
    assert {name.rsplit("/", 1)[0] for name in removed.files} == {first.folder, third.folder}
    assert removed.bytes > 0
    assert sorted(path.name for path in (tmp_path / "raw/kalshi_pages/day/2026-03-14").iterdir()) == ["0002", "0004"]
    assert list(reopen(store).pages("markets")) == [PAGE]
    assert store.open("day", "2026-03-14", reuse=lambda note: False).folder.endswith("0005")
    with pytest.raises(LakeError, match="is too short, a running writer"):
        store.vacuum(timedelta(0), now)
