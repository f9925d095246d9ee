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


@pytest.fixture(params=["folder", "object store"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "lake") if request.param == "folder" else f"memory://{tmp_path.name}")


@pytest.fixture
def store(storage: Storage) -> PageStore:
    return PageStore(storage)


def reopen(store: PageStore) -> StoredPull:
    return store.open("day", "2026-03-14", reuse=lambda note: True)


def stored(store: PageStore, *pages: VenuePage) -> StoredPull:
    pull = reopen(store)
    for page in pages:
        pull.write("markets", page)
    return reopen(store)


def finished(pull: StoredPull, **pages: int) -> StoredPull:
    return pull.finish(pages, {})


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_the_pages_of_a_finished_pull_are_one_parquet_file_that_any_tool_reads(tmp_path: Path):
    pull = stored(PageStore(open_storage(str(tmp_path))), PAGE, replace(PAGE, ordinal=1, body=b"{}", sent=b"[1]"))
    assert pull.folder == "raw/kalshi_pages/day/2026-03-14/0001"
    finished(pull, markets=2)
    folder = tmp_path / pull.folder
    assert sorted(path.name for path in folder.iterdir()) == ["done.json", "pages.parquet"]
    first, second = pl.read_parquet(folder / "pages.parquet").iter_rows(named=True)
    assert first == {
        "step": "markets",
        "request": PAGE.request,
        "status": 200,
        "fetched_at": PAGE.fetched_at,
        "ordinal": 0,
        "sent": b"",
        "body": PAGE.body,
    }
    assert (second["ordinal"], second["sent"], second["body"]) == (1, b"[1]", b"{}")


def test_pages_of_a_finished_pull_are_found_in_any_order_across_row_groups(store: PageStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bellwether.venues.http.page_files._ROW_GROUP", 100)
    monkeypatch.setattr(pages, "CACHED_BYTES", 0)
    many = [replace(PAGE, ordinal=ordinal, body=bytes([ordinal]) * 30) for ordinal in range(20)]
    pull = finished(stored(store, *many), markets=20)
    again = reopen(store)
    for opened in (pull, again):
        assert [page.body for page in opened.pages("markets")] == [page.body for page in many]
        assert [opened.page("markets", ordinal) for ordinal in (19, 0, 7)] == [many[19], many[0], many[7]]
        assert opened.find("events", 0) is None


def test_a_pull_killed_between_its_one_file_and_its_end_keeps_its_pages(store: PageStore, storage: Storage):
    pull = stored(store, PAGE)
    done = finished(pull, markets=1)
    storage.delete(f"{done.folder}/done.json")
    again = reopen(store)
    assert again.note is None
    assert again.find("markets", 0) == PAGE
    assert list(finished(again, markets=1).pages("markets")) == [PAGE]
    assert list(reopen(store).pages("markets")) == [PAGE]


def test_a_finished_pull_is_used_again_or_followed_by_the_next_and_never_changed(store: PageStore):
    first = stored(store, PAGE).finish({"markets": 1}, {"final": True})
    assert reopen(store).note == {"final": True, "pages": {"markets": 1}}
    assert [page.body for page in reopen(store).pages("markets")] == [PAGE.body]
    second = store.open("day", "2026-03-14", reuse=lambda note: False)
    assert (first.folder[-4:], second.folder[-4:], second.note, second.files) == ("0001", "0002", None, frozenset())


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: b"", lambda data: data[:40], lambda data: b"PAR1" + bytes(100) + b"PAR1"]
)
def test_a_damaged_page_is_fetched_again_or_reported(store: PageStore, storage: Storage, damage):  # type: ignore[no-untyped-def]
    pull = stored(store, PAGE)
    name = f"{pull.folder}/markets/00000.page"
    storage.put(name, damage(storage.read([name])[name]))
    assert pull.find("markets", 0) is None
    with pytest.raises(LakeError, match=r"00000.page: page 0 of markets is gone or damaged; pull again with --refresh"):
        reopen(store).finish({"markets": 1}, {})
    pull.write("markets", PAGE)
    name = f"{finished(pull, markets=1).folder}/pages.parquet"
    storage.put(name, damage(storage.read([name])[name]))
    with pytest.raises(LakeError, match=r"pages.parquet: page 0 of markets is gone or damaged; pull again with --refresh"):
        list(reopen(store).pages("markets"))


def test_a_full_disk_is_a_clear_error_and_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import os

    pull = stored(PageStore(open_storage(str(tmp_path))), PAGE)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(LakeError, match="No space left on device"):
            pull.write("markets", replace(PAGE, ordinal=1))
    assert files(tmp_path) == ["00000.page"]
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LakeError, match="No space left on device"):
        finished(pull, markets=1)
    assert files(tmp_path) == ["00000.page"]


def pulls_of(store: PageStore, count: int) -> list[StoredPull]:
    made = []
    for _ in range(count):
        pull = store.open("day", "2026-03-14", reuse=lambda note: False)
        pull.write("markets", PAGE)
        made.append(finished(pull, markets=1))
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
