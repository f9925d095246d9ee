"""Files and folders on an object store: complete or absent, with local copies for programs that need a folder."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bellwether.errors import BellwetherError, ConfigError
from bellwether.files import atomic_file, atomic_folder, create, folders, local_copy, replace_version, version
from bellwether.places import filesystem, place
from bellwether.settings import Settings, settings
from cli.main import main
from tests.lake.s3_server import SLOW_DOWN, Answer, S3Server, truncate_body


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


def test_a_store_that_starts_within_seconds_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.send_error(404)

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    servers: list[HTTPServer] = []

    def start() -> None:
        servers.append(HTTPServer(("127.0.0.1", port), Empty))
        servers[0].serve_forever()

    starting = threading.Timer(5, start)
    starting.start()
    try:
        assert folders(place("s3://late/episodes"), "last") == {}
        assert servers
    finally:
        starting.cancel()
        if servers:
            servers[0].shutdown()


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


def test_unchanged_files_are_left_as_they_are(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = place(f"{bucket}/site")
    put(target, first="1", other="same", last="1")
    fs, _ = filesystem(target)
    sent: list[str] = []
    call = fs._call_s3

    async def noted(method: str, *args: Any, **more: Any) -> Any:
        sent.append(f"{method} {more.get('Key', '')}")
        return await call(method, *args, **more)

    monkeypatch.setattr(fs, "_call_s3", noted)
    put(target, first="1", other="same", last="1")
    assert [one for one in sent if "put" in one or "delete" in one] == []
    put(target, first="1", other="same", last="2")
    assert [(one.split()[0], one.rpartition("/")[2]) for one in sent if "put" in one or "delete" in one] == [("put_object", "last")]


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


def test_readers_of_a_folder_that_is_replaced_again_and_again_see_one_version(bucket: str) -> None:
    target = place(f"{bucket}/episodes/one")
    put(target, first="0", other="0", last="0")
    ended, torn, seen = threading.Event(), [], set()

    def look() -> None:
        while not ended.is_set():
            found = set(read(local_copy(target, "last")).values())
            seen.update(found)
            if len(found) != 1:
                torn.append(found)

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(1, 12):
        put(target, first=str(number), other=str(number), last=str(number))
        time.sleep(0.2)
    ended.set()
    reader.join()
    assert torn == []
    assert len(seen) > 1


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


def test_what_is_not_there_or_does_not_answer_is_named(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BellwetherError, match=r"reading s3://.*/none/last: there is no such folder"):
        local_copy(f"{bucket}/none", "last")
    with pytest.raises(BellwetherError, match=r"writing s3://no-such-bucket/file"), atomic_file(place("s3://no-such-bucket/file")) as draft:
        draft.touch()
    with pytest.raises(ConfigError, match=r"opening nosuch://bucket.*Install the package"):
        place("nosuch://bucket")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("BELLWETHER_EPISODES", f"{bucket}/episodes")
    settings.cache_clear()
    done = CliRunner().invoke(main, ["episode", "list"])
    assert (done.exit_code, done.output.startswith("Error: reaching the object store: ")) == (1, True)


def test_a_store_holds_every_place_but_those_of_one_machine(bucket: str, tmp_path: Path) -> None:
    config = Settings(home=tmp_path, store=f"{bucket}/all/")
    stored = {
        name: getattr(config, f"{name}_path") for name in ("episodes", "recordings", "submissions", "evaluations", "trajectories", "site")
    }
    assert {name: str(path) for name, path in stored.items()} == {name: f"{bucket}/all/sandbox/{name}" for name in stored}
    assert str(config.data_docs_path) == f"{bucket}/all/sandbox/data-docs"
    for name in ("recorder_path", "tapes_path", "cache_path", "dagster_home", "alarms_path"):
        assert getattr(config, name).is_relative_to(tmp_path)
    elsewhere = Settings(home=tmp_path, store=f"{bucket}/all", episodes=str(tmp_path / "mine"), site="s3://pages/here")
    assert elsewhere.episodes_path == tmp_path / "mine"
    assert str(elsewhere.data_docs_path) == "s3://pages/data-docs"
    assert Settings(home=tmp_path).recordings_path == Settings(home=tmp_path).recorder_path == tmp_path / "sandbox" / "recordings"
