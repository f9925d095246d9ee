"""The store of verbatim pages."""

from __future__ import annotations

import errno
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from bellwether.errors import LakeError
from bellwether.lake.storage import Storage, open_storage
from bellwether.venues.http import pages
from bellwether.venues.http.page import Page
from bellwether.venues.http.pages import PageStore, StoredPull

PAGE = Page("GET /markets?limit=2", 200, datetime(2026, 3, 20, 8, 30, tzinfo=UTC), b'{ "markets":[],\n"cursor":"c1" }', 0)


@pytest.fixture(params=["folder", "object store"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "lake") if request.param == "folder" else f"memory://{tmp_path.name}")


@pytest.fixture
def store(storage: Storage) -> PageStore:
    return PageStore(storage)


def reopen(store: PageStore) -> StoredPull:
    return store.open("day", "2026-03-14", reuse=lambda note: True)


def stored(store: PageStore, *pages: Page) -> StoredPull:
    pull = reopen(store)
    for page in pages:
        pull.write("markets", page)
    return reopen(store)


def test_a_page_comes_back_as_it_was(store: PageStore):
    assert stored(store, PAGE).find("markets", 0) == PAGE


def test_a_page_that_was_not_stored_is_not_found(store: PageStore):
    assert stored(store, PAGE).find("markets", 1) is None
    assert stored(store, PAGE).find("events", 0) is None


def test_a_page_is_a_parquet_file_that_any_tool_reads(tmp_path: Path):
    pull = stored(PageStore(open_storage(str(tmp_path))), PAGE)
    file = tmp_path / "raw/kalshi_pages/day/2026-03-14/0001/markets/00000.parquet"
    assert pull.folder == "raw/kalshi_pages/day/2026-03-14/0001"
    found = pl.read_parquet(file).row(0, named=True)
    assert found == {
        "request": PAGE.request,
        "status": 200,
        "fetched_at": PAGE.fetched_at,
        "ordinal": 0,
        "sent": b"",
        "body": PAGE.body,
    }


def test_the_same_page_is_the_same_bytes(tmp_path: Path):
    for name in ("one", "two"):
        stored(PageStore(open_storage(str(tmp_path / name))), PAGE)
    files = [next((tmp_path / name).rglob("*.parquet")).read_bytes() for name in ("one", "two")]
    assert files[0] == files[1]


def test_an_unfinished_pull_is_gone_on_with(store: PageStore):
    first = stored(store, PAGE)
    assert first.note is None
    assert store.open("day", "2026-03-14", reuse=lambda note: False).folder == first.folder


def test_a_finished_pull_is_used_again_or_followed_by_the_next_and_never_changed(store: PageStore):
    first = stored(store, PAGE).finish({"markets": 1}, {"final": True})
    assert reopen(store).note == {"final": True, "pages": {"markets": 1}}
    assert [page.body for page in reopen(store).pages("markets")] == [PAGE.body]
    second = store.open("day", "2026-03-14", reuse=lambda note: False)
    assert (first.folder[-4:], second.folder[-4:], second.note, second.files) == ("0001", "0002", None, frozenset())


def test_pull_numbers_are_numbers(store: PageStore):
    pull = reopen(store)
    for _ in range(11):
        pull.write("markets", PAGE)
        pull.finish({"markets": 1}, {})
        pull = store.open("day", "2026-03-14", reuse=lambda note: False)
    assert pull.folder.endswith("/0012")


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: b"", lambda data: data[:40], lambda data: b"PAR1" + bytes(100) + b"PAR1"]
)
def test_a_damaged_page_is_fetched_again_or_reported(store: PageStore, storage: Storage, damage):  # type: ignore[no-untyped-def]
    pull = stored(store, PAGE)
    name = f"{pull.folder}/markets/00000.parquet"
    storage.put(name, damage(storage.read([name])[name]))
    assert pull.find("markets", 0) is None
    finished = pull.finish({"markets": 1}, {})
    with pytest.raises(LakeError, match=r"00000.parquet: it is gone or damaged; pull again with refresh"):
        list(finished.pages("markets"))


def test_the_pages_of_a_pull_that_is_not_finished_cannot_be_listed(store: PageStore):
    with pytest.raises(LakeError, match="not finished"):
        list(stored(store, PAGE).pages("markets"))


def test_a_note_that_is_none_is_reported(store: PageStore, storage: Storage):
    pull = stored(store, PAGE)
    storage.put(f"{pull.folder}/done.json", b"{")
    with pytest.raises(LakeError, match="no note of a finished pull"):
        reopen(store)


def test_a_full_disk_is_a_clear_error_and_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import os

    pull = stored(PageStore(open_storage(str(tmp_path))))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LakeError, match="No space left on device"):
        pull.write("markets", PAGE)
    assert not list(tmp_path.rglob("*.parquet*"))


def test_finished_lists_the_last_pull_of_every_partition(store: PageStore):
    for partition, done in (("a", True), ("b", False), ("c", True)):
        pull = store.open("archive", partition, reuse=lambda note: True)
        pull.write("markets", PAGE)
        if done:
            pull.finish({"markets": 1}, {"partition": partition})
    assert [pull.note and pull.note["partition"] for pull in store.finished("archive")] == ["a", "c"]


def test_pages_of_a_small_pull_are_not_read_back_and_the_last_word_counts(store: PageStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages, "HELD_BYTES", 100)
    pull = reopen(store)
    versions = [replace(PAGE, body=body) for body in (b"{}", b'{"a":1}', bytes(99), b"[]")]
    for page in versions:
        pull.write("markets", page)
        assert pull.finish({"markets": 1}, {}).page("markets", 0) == page
    pull.write("markets", replace(PAGE, body=bytes(95), ordinal=1))
    read: list[str] = []
    monkeypatch.setattr(pages, "_read", lambda storage, name: read.append(name))
    assert pull.finish({"markets": 2}, {}).page("markets", 0).body == b"[]"
    assert not read
    pull.write("markets", replace(PAGE, body=bytes(9), ordinal=2))
    with pytest.raises(LakeError, match="gone or damaged"):
        pull.finish({"markets": 3}, {}).page("markets", 2)
    assert len(read) == 1
