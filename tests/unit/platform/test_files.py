"""Files and folders, also on an object store: complete or absent, with local copies for programs that need a folder."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bellwether.errors import BellwetherError, ConfigError
from bellwether.files import atomic_file, atomic_folder, create, folders, local_copy, replace_version, version
from bellwether.places import filesystem, place
from bellwether.settings import settings
from cli.main import main
from tests.s3_server import SLOW_DOWN, Answer, S3Server, truncate_body
from tests.stores import close_store, requests_of


def test_a_target_that_a_killed_process_had_moved_away_is_moved_back(tmp_path: Path) -> None:
    for kind, text in (("old", "before"), ("tmp", "after")):
        folder = tmp_path / f".site.{kind}-0123abcd"
        folder.mkdir()
        (folder / "file").write_text(text)
    with atomic_folder(tmp_path / "other", "file") as draft:
        (draft / "file").touch()
    assert (tmp_path / "site" / "file").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "site"]


def test_a_failed_block_leaves_the_old_folder(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "file").write_text("before")
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "site", "file") as draft:
        (draft / "file").write_text("after")
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    assert (tmp_path / "site" / "file").read_text() == "before"


def test_folders_of_other_names_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".mine.tmp-notes").mkdir()
    with atomic_folder(tmp_path / "site", "file") as draft:
        os.mkdir(draft / "x")
    assert (tmp_path / ".mine.tmp-notes").is_dir()


def put(target: Path, **files: str) -> None:
    """Replace a folder whose marker file is `last`."""
    with atomic_folder(target, "last") as draft:
        for name, text in files.items():
            (draft / "below").mkdir(exist_ok=True)
            (draft / ("below/first" if name == "first" else name)).write_text(text)


def read(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_file_is_stored_when_its_block_ends_and_not_when_it_fails(bucket: str) -> None:
    target = place(f"{bucket}/some/report.json")
    with atomic_file(target) as draft:
        draft.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    with pytest.raises(RuntimeError), atomic_file(target) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert target.read_text() == "whole"
    assert not draft.exists()


def test_a_folder_is_replaced_and_its_copy_with_it(bucket: str) -> None:
    target = place(f"{bucket}/episodes/one")
    put(target, first="1", gone="1", last="1")
    before = local_copy(target, "last")
    assert read(before) == {"below/first": "1", "gone": "1", "last": "1"}
    assert local_copy(str(target), "last") == before
    put(target, first="2", last="2")
    after = local_copy(target, "last")
    assert read(after) == {"below/first": "2", "last": "2"}
    assert read(before) == {"below/first": "1", "gone": "1", "last": "1"}
    assert before.parent == after.parent == settings().cache_path / "folders"


def test_an_interrupted_upload_is_no_folder_until_it_is_made_again(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = place(f"{bucket}/episodes/one")
    put(target, first="1", other="1", last="1")
    fs, _ = filesystem(target)
    with monkeypatch.context() as patch, pytest.raises(BellwetherError, match="it cannot be written"):
        patch.setattr(fs, "put", lambda *_: (_ for _ in ()).throw(OSError("the network is gone")))
        put(target, first="2", other="2", last="2")
    monkeypatch.setattr("bellwether.files.time.sleep", lambda _: None)
    with pytest.raises(
        BellwetherError, match=r"s3://.*/episodes/one/last: it is being replaced, or its upload was interrupted; make it again"
    ):
        local_copy(target, "last")
    assert folders(place(f"{bucket}/episodes"), "last") == {}
    put(target, first="2", other="2", last="2")
    assert read(local_copy(target, "last")) == {"below/first": "2", "other": "2", "last": "2"}
    assert folders(place(f"{bucket}/episodes"), "last").keys() == {target}


def test_a_store_that_fails_at_random_gives_no_torn_copy(bucket: str, s3_server: S3Server) -> None:
    target, listings, draw = place(f"{bucket}/episodes/one"), list[Answer](), random.Random(7)

    def fault(request: dict[str, Any], serve: Callable[[], Answer]) -> Answer | None:
        """Refuse some requests, truncate some bodies silently, and return some earlier listings."""
        chance, is_listing = draw.random(), request["QUERY_STRING"].startswith("list-type")
        if chance < 0.1:
            return SLOW_DOWN
        if is_listing:
            listings.append(serve())
            return draw.choice(listings[-2:]) if chance < 0.4 else listings[-1]
        return truncate_body(serve(), silently=True) if request["REQUEST_METHOD"] == "GET" and chance < 0.2 else None

    for number in range(8):
        with atomic_folder(target, "last") as draft:
            for name in ("first", "other", "last"):
                (draft / name).write_text(str(number) * 100)
        s3_server.fault = fault
        found = read(local_copy(target, "last"))
        s3_server.fault = None
        assert found in [dict.fromkeys(("first", "other", "last"), str(one) * 100) for one in range(number + 1)]
        assert read(local_copy(target, "last"))["last"] == str(number) * 100


def test_of_two_writers_of_a_file_one_is_refused(bucket: str) -> None:
    path = place(f"{bucket}/submissions/mine.parquet")
    assert version(path) is None
    assert create(path, b"1")
    assert not create(path, b"2")
    known = version(path)
    assert replace_version(path, b"3", known)
    assert not replace_version(path, b"4", known)
    assert not replace_version(path, b"5", None)
    assert path.read_bytes() == b"3"


def test_unchanged_files_are_left_as_they_are(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = place(f"{bucket}/site")
    put(target, first="1", other="same", last="1")
    sent = requests_of(target, monkeypatch)
    put(target, first="1", other="same", last="1")
    assert [one for one in sent if "put" in one or "delete" in one] == []
    put(target, first="1", other="same", last="2")
    assert [one for one in sent if "put" in one or "delete" in one] == ["put_object last"]


def test_readers_of_a_folder_that_is_replaced_again_and_again_see_one_version(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, pause = place(f"{bucket}/episodes/one"), time.sleep
    put(target, first="0", other="0", last="0")
    monkeypatch.setattr("bellwether.files.time.sleep", lambda _: pause(0.01))
    versions: list[set[str]] = [set(read(local_copy(target, "last")).values())]

    def look() -> None:
        for _ in range(20):
            with suppress(BellwetherError):  # replaced during every attempt
                versions.append(set(read(local_copy(target, "last")).values()))

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(1, 6):
        put(target, first=str(number), other=str(number), last=str(number))
    reader.join()
    versions.append(set(read(local_copy(target, "last")).values()))
    assert (versions[0], versions[-1]) == ({"0"}, {"5"})
    assert all(len(version) == 1 for version in versions)


def test_a_missing_folder_and_an_unknown_scheme_are_named(bucket: str) -> None:
    with pytest.raises(BellwetherError, match=r"reading s3://.*/none/last: there is no such folder"):
        local_copy(f"{bucket}/none", "last")
    with pytest.raises(BellwetherError, match=r"writing s3://no-such-bucket/file"), atomic_file(place("s3://no-such-bucket/file")) as draft:
        draft.touch()
    with pytest.raises(ConfigError, match=r"opening nosuch://bucket"):
        place("nosuch://bucket")


@pytest.mark.parametrize("failure", ["dead endpoint", "wrong keys"])
def test_a_store_that_cannot_be_reached_is_one_line(bucket: str, monkeypatch: pytest.MonkeyPatch, failure: str) -> None:
    from botocore.exceptions import ClientError

    monkeypatch.setenv("BELLWETHER_EPISODES", f"{bucket}/episodes")
    settings.cache_clear()
    if failure == "dead endpoint":
        close_store(monkeypatch)
    else:
        refused = ClientError({"Error": {"Code": "AccessDenied", "Message": "Access Denied"}}, "ListObjectsV2")

        def deny(*_: object, **__: object) -> None:
            raise PermissionError("Access Denied") from refused

        monkeypatch.setattr(filesystem(settings().episodes_path)[0], "find", deny)
    done = CliRunner().invoke(main, ["episode"])
    assert done.exit_code == 1
    assert done.output.startswith("Error: reaching the object store: ")
    assert len(done.output.splitlines()) == 1
