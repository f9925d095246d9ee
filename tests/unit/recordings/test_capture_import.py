"""Import of captures in three formats gives the files of the own recorder."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from bellwether.errors import ConfigError, LakeError
from bellwether.recordings import capture_import
from bellwether.recordings.capture_import import import_captures
from bellwether.recordings.captures import find_captures
from bellwether.recordings.gap_summary import build_gap_report
from bellwether.recordings.recording import Recording, RecordingStatus
from tests.unit.recordings.book_replay import check_books
from tests.venues.stream.peer import A, B, delta, snapshot, trade

Json = dict[str, Any]


def compact(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def lines(path: Path, *frames: Json | bytes) -> Path:
    """Write a file with a blank line after each line, compressed according to its name."""
    text = b"".join((frame if isinstance(frame, bytes) else compact(frame)) + b"\n\n" for frame in frames)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def at(second: int) -> Json:
    return {"ts": f"2026-03-18T19:36:{second:02d}.5Z"}


def bodies(recording: Recording) -> list[bytes]:
    return [frame.data for frame in recording.frames()]


# --- a file per market -----------------------------------------------------------------------------------------------


def test_files_of_markets_are_merged_by_number_and_kept_as_they_came(tmp_path: Path) -> None:
    one = [snapshot(A, 9), delta(A, 12, **at(1)), trade(A, 3) | {"odd": 1.50}, delta(A, 15, **at(4))]
    two = [snapshot(B, 10), delta(B, 11, **at(0)), delta(B, 14, **at(3)), trade(B, 5), delta(B, 16, **at(5))]
    lines(tmp_path / "in" / "a.ndjson.gz", *one)
    lines(tmp_path / "in" / "b.ndjson", *two)
    (tmp_path / "in" / "INDEX.csv").write_text("a,b\n")
    [recording] = import_captures(tmp_path / "out", tmp_path / "in")
    found = [json.loads(data) for data in bodies(recording)]
    assert [frame["seq"] for frame in found if frame["sid"] == 1] == [9, 10, 11, 12, 14, 15, 16]
    assert [frame["seq"] for frame in found if frame["sid"] == 2] == [3, 5]
    assert [frame for frame in found if frame["msg"]["market_ticker"] == A] == one
    assert [frame for frame in found if frame["msg"]["market_ticker"] == B] == two
    assert sorted(bodies(recording)) == sorted(map(compact, [*one, *two]))
    assert {frame.received_at for frame in recording.frames()} == {None}
    about = recording.about
    assert (recording.name, recording.status, about.partial) == ("KXONE-26NOV21", RecordingStatus.FINISHED, True)
    assert (about.events, about.tickers, about.channels) == (("KXONE-26NOV21",), (A, B), ("orderbook_delta", "trade"))
    assert about.started_at == "2026-03-18T19:36:00.500000+00:00"


@pytest.mark.parametrize("seed", range(8))
def test_any_split_of_a_stream_over_its_markets_merges_into_its_order(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    markets = [f"KXONE-26NOV21-M{number}" for number in range(rng.randint(1, 5))]
    stream, numbers = [], {1: 0, 2: 0}
    for second in range(60):
        sid = rng.choice([1, 1, 2])
        numbers[sid] += 1
        market = rng.choice(markets)
        stream.append(delta(market, numbers[1], **at(second)) if sid == 1 else trade(market, numbers[2]))
    for market in markets:
        if held := [frame for frame in stream if frame["msg"]["market_ticker"] == market]:
            lines(tmp_path / "in" / f"{market}.ndjson", *held)
    [recording] = import_captures(tmp_path / "out", tmp_path / "in")
    found = [json.loads(data) for data in bodies(recording)]
    for sid in (1, 2):
        assert [frame for frame in found if frame["sid"] == sid] == [frame for frame in stream if frame["sid"] == sid]
    assert build_gap_report(recording).absent == 0


def test_numbers_that_begin_anew_are_a_new_connection(tmp_path: Path) -> None:
    lines(
        tmp_path / "in" / "a.ndjson", snapshot(A, 1), delta(A, 2, **at(1)), trade(A, 7), snapshot(A, 1), trade(A, 1), delta(A, 3, **at(9))
    )
    lines(tmp_path / "in" / "b.ndjson", snapshot(B, 3), delta(B, 4, **at(2)), snapshot(B, 2))
    [recording] = import_captures(tmp_path / "out", tmp_path / "in")
    found = [(frame.connection, json.loads(frame.data)["sid"], json.loads(frame.data)["seq"]) for frame in recording.frames()]
    assert [(sid, seq) for connection, sid, seq in found if connection == 1 and sid == 1] == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert [(sid, seq) for connection, sid, seq in found if connection == 2 and sid == 1] == [(1, 1), (1, 2), (1, 3)]
    assert [connection for connection, _, _ in found] == sorted(connection for connection, _, _ in found)


def test_a_line_that_stands_twice_or_too_late_in_a_file_begins_no_connection(tmp_path: Path) -> None:
    said = [snapshot(A, 9), delta(A, 12, **at(1)), delta(A, 15, **at(2)), delta(A, 14, **at(3)), snapshot(A, 9), delta(A, 20, **at(4))]
    lines(tmp_path / "in" / "a.ndjson", *said)
    lines(tmp_path / "in" / "b.ndjson", snapshot(B, 10), delta(B, 21, **at(5)))
    [recording] = import_captures(tmp_path / "out", tmp_path / "in")
    assert {frame.connection for frame in recording.frames()} == {1}
    found = [json.loads(data) for data in bodies(recording)]
    assert [frame for frame in found if frame["msg"]["market_ticker"] == A] == said


def test_files_of_several_events_make_a_recording_each_and_one_name_does_not_do(tmp_path: Path) -> None:
    lines(tmp_path / "in" / "a.ndjson", snapshot(A, 1))
    lines(tmp_path / "in" / "b.ndjson", snapshot("KXTWO-26NOV22-A", 2))
    with pytest.raises(ConfigError, match="one name is given for 2 captures"):
        import_captures(tmp_path / "out", tmp_path / "in", name="both")
    assert [recording.name for recording in import_captures(tmp_path / "out", tmp_path / "in")] == ["KXONE-26NOV21", "KXTWO-26NOV22"]
    [named] = import_captures(tmp_path / "out", tmp_path / "in" / "a.ndjson", name="one")
    assert named.name == "one"


@pytest.mark.parametrize("same", [True, False])
def test_a_recording_that_another_process_made_meanwhile_is_taken_where_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    lines(tmp_path / "in" / "a.ndjson", snapshot(A, 9), delta(A, 12, **at(1)))
    lines(tmp_path / "other" / "a.ndjson", snapshot(A, 9), delta(A, 12, **at(1 if same else 2)))
    [theirs] = import_captures(tmp_path / "theirs", tmp_path / "other")
    rename = capture_import.os.rename

    def second(draft: Path, target: Path) -> None:
        if not target.exists():
            shutil.copytree(tmp_path / "theirs" / theirs.name, target)
        rename(draft, target)

    monkeypatch.setattr(capture_import.os, "rename", second)
    if same:
        [found] = import_captures(tmp_path / "out", tmp_path / "in")
        assert bodies(found) == bodies(theirs)
    else:
        with pytest.raises(ConfigError, match="the name KXONE-26NOV21 is taken by another recording; choose another one"):
            import_captures(tmp_path / "out", tmp_path / "in")
    assert not list((tmp_path / "out" / ".importing").iterdir())


def test_a_file_that_is_cut_off_is_named(tmp_path: Path) -> None:
    path = lines(tmp_path / "in" / "a.ndjson.gz", *[delta(A, seq, **at(seq % 60)) for seq in range(1, 3000)])
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(LakeError, match=r"a\.ndjson\.gz: the file is truncated"):
        import_captures(tmp_path / "out", tmp_path / "in")
    assert not (tmp_path / "out" / "KXONE-26NOV21").exists()
    assert list((tmp_path / "out" / ".importing").iterdir()) == []


# --- wrapped events --------------------------------------------------------------------------------------------------


def wrapped(kind: str, ns: int, payload: Json, *, number: int | None = None, channel: str = "orderbook_delta", tag: str = "set-1") -> Json:
    return {
        "channel": channel,
        "dataset_tag": tag,
        "event_type": kind,
        "local_recv_ns": ns,
        "payload_json": payload,
        "sequence_number": number,
    }


def subscribed(channel: str, sid: int) -> Json:
    return {"id": 1, "msg": {"channel": channel, "sid": sid}, "type": "subscribed"}


def wrapped_capture(folder: Path) -> Path:
    book, change = snapshot(A, 0)["msg"], delta(A, 0, **at(1))["msg"]
    lines(folder / "raw" / "type=ws_connected" / "p.ndjson", wrapped("ws_connected", 10, {"m": 1}), wrapped("ws_connected", 60, {"m": 2}))
    lines(
        folder / "raw" / "type=ws_subscribed" / "p.ndjson",
        wrapped("ws_subscribed", 20, subscribed("ticker", 1)),
        wrapped("ws_subscribed", 21, subscribed("orderbook_delta", 2)),
        wrapped("ws_subscribed", 70, subscribed("orderbook_delta", 1)),
    )
    lines(folder / "raw" / "type=watch_market" / "p.ndjson", wrapped("watch_market", 5, {"market_ticker": A}, channel="control"))
    lines(
        folder / "raw" / "type=orderbook_snapshot" / "p.ndjson",
        wrapped("orderbook_snapshot", 30, book, number=1),
        wrapped("orderbook_snapshot", 80, book, number=1),
    )
    lines(
        folder / "raw" / "type=orderbook_delta" / "p.ndjson.gz",
        wrapped("orderbook_delta", 40, change, number=2),
        wrapped("orderbook_delta", 50, change, number=4),
        wrapped("orderbook_delta", 90, change, number=2),
    )
    lines(
        folder / "raw" / "type=ticker" / "p.ndjson", wrapped("ticker", 35, {"market_ticker": A, "price_dollars": "0.4"}, channel="ticker")
    )
    lines(folder / "checkpoints" / "p.ndjson", {"checkpoint_ts": "x", "event_type": "orderbook_checkpoint"})
    return folder


def test_wrapped_events_become_frames_in_order_of_receipt_with_time_and_number(tmp_path: Path) -> None:
    [recording] = import_captures(tmp_path / "out", wrapped_capture(tmp_path / "in"))
    found = [
        (frame.received_at, frame.connection, *map(json.loads(frame.data).get, ("type", "sid", "seq"))) for frame in recording.frames()
    ]
    assert found == [
        (5, 1, "watch_market", None, None),
        (10, 1, "ws_connected", None, None),
        (20, 1, "subscribed", None, None),
        (21, 1, "subscribed", None, None),
        (30, 1, "orderbook_snapshot", 2, 1),
        (35, 1, "ticker", 1, None),
        (40, 1, "orderbook_delta", 2, 2),
        (50, 1, "orderbook_delta", 2, 4),
        (60, 2, "ws_connected", None, None),
        (70, 2, "subscribed", None, None),
        (80, 2, "orderbook_snapshot", 1, 1),
        (90, 2, "orderbook_delta", 1, 2),
    ]
    check, gaps = check_books(recording)
    assert (recording.name, recording.about.partial, gaps.lost, check["deltas"]) == ("set-1", False, 1, 2)


def test_controls_precede_the_data_of_their_time_of_receipt_and_follow_those_that_go_on(tmp_path: Path) -> None:
    """Times are in milliseconds, so a snapshot shares its time with the confirmation of its subscription, which is in another file."""
    book, change = snapshot(A, 0)["msg"], delta(A, 0, **at(1))["msg"]
    connected = [wrapped("ws_connected", ns, {}, channel="control") for ns in (10, 30)]
    confirmed = [wrapped("ws_subscribed", ns, subscribed("orderbook_delta", sid), channel="control") for ns, sid in ((10, 2), (30, 5))]
    snapshots = [wrapped("orderbook_snapshot", ns, book, number=number) for ns, number in ((10, 1), (30, 1), (50, 4))]
    deltas = [
        wrapped("orderbook_delta", ns, change, number=number) for ns, number in ((10, 2), (20, 3), (30, 4), (30, 2), (50, 3), (50, 5))
    ]
    for name, events in (("z", connected), ("y", confirmed), ("b", snapshots), ("a", deltas)):
        lines(tmp_path / "in" / f"type={name}.ndjson", *events)
    [recording] = import_captures(tmp_path / "out", tmp_path / "in")
    found = [(frame.received_at, frame.connection, *map(json.loads(frame.data).get, ("sid", "seq"))) for frame in recording.frames()]
    assert [row for row in found if row[3] is not None] == [
        (10, 1, 2, 1),
        (10, 1, 2, 2),
        (20, 1, 2, 3),
        (30, 1, 2, 4),
        (30, 2, 5, 1),
        (30, 2, 5, 2),
        (50, 2, 5, 3),
        (50, 2, 5, 4),
        (50, 2, 5, 5),
    ]
    check, gaps = check_books(recording)
    assert (gaps.lost, gaps.inversions, check["deltas"], check["unapplied"]) == (0, 0, 6, 0)


@pytest.mark.parametrize(("late", "sid"), [(40, 2), (60, None)])
def test_a_confirmation_that_was_written_late_names_the_subscription_of_the_data_before_it(
    tmp_path: Path, late: int, sid: int | None
) -> None:
    book, change = snapshot(A, 0)["msg"], delta(A, 0, **at(1))["msg"]
    lines(tmp_path / "in" / "a.ndjson", *[wrapped("ws_connected", ns, {}) for ns in (10, 50)])
    lines(tmp_path / "in" / "b.ndjson", wrapped("ws_subscribed", late, subscribed("orderbook_delta", 2)))
    lines(tmp_path / "in" / "c.ndjson", wrapped("orderbook_snapshot", 20, book, number=1))
    lines(tmp_path / "in" / "d.ndjson", wrapped("orderbook_delta", 30, change, number=2), wrapped("orderbook_delta", 45, change, number=3))
    lines(tmp_path / "in" / "e.ndjson", wrapped("trade", 30, {"market_ticker": A}, number=1, channel="trade"))
    [recording] = import_captures(tmp_path / "out", tmp_path / "in")
    found = [json.loads(data) for data in bodies(recording)]
    sids = {body["type"]: body["sid"] for body in found if "seq" in body}
    assert sids["orderbook_snapshot"] == sids["orderbook_delta"] != sids["trade"]
    assert sid is None or sids["orderbook_delta"] == sid
    check, gaps = check_books(recording)
    assert (gaps.lost, check["deltas"], check["unapplied"]) == (0, 2, 0)


@pytest.mark.parametrize("missing", ["local_recv_ns", "payload_json", "event_type"])
def test_a_wrapped_event_that_lacks_something_names_file_and_record(tmp_path: Path, missing: str) -> None:
    event = wrapped("trade", 6, {})
    del event[missing]
    lines(tmp_path / "in" / "p.ndjson", wrapped("trade", 5, {}), event)
    with pytest.raises(LakeError, match=rf"p\.ndjson: record 2 has no {missing}"):
        import_captures(tmp_path / "out", tmp_path / "in")


# --- a list of frames ------------------------------------------------------------------------------------------------


def test_a_list_of_frames_becomes_a_recording_with_receive_times(tmp_path: Path) -> None:
    held = [{"type": "subscribed", "id": 2, "msg": {"channel": "orderbook_delta", "sid": 1}}, snapshot(A, 1), delta(A, 2, note=1.5)]
    path = tmp_path / "stream.json"
    path.write_text(json.dumps({"note": "x", "frames": [{"received_ms": 7 + n, "frame": frame} for n, frame in enumerate(held)]}, indent=1))
    [recording] = import_captures(tmp_path / "out", path)
    assert bodies(recording) == list(map(compact, held))
    assert [frame.received_at for frame in recording.frames()] == [7_000_000, 8_000_000, 9_000_000]
    assert (recording.name, recording.about.partial, build_gap_report(recording).lost) == ("stream", False, 0)


# --- all -------------------------------------------------------------------------------------------------------------


def test_importing_again_changes_nothing_and_elsewhere_gives_the_same_bytes(tmp_path: Path) -> None:
    source = wrapped_capture(tmp_path / "in")
    [first] = import_captures(tmp_path / "out", source)
    files = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in first.folder.iterdir()}
    [again] = import_captures(tmp_path / "out", source)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in again.folder.iterdir()} == files
    [elsewhere] = import_captures(tmp_path / "other", source)
    assert {path.name: path.read_bytes() for path in elsewhere.folder.iterdir()} == {name: data for name, (data, _) in files.items()}


def test_a_pipe_is_no_capture(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ndjson")
    with pytest.raises(ConfigError, match="neither a file nor a folder"):
        import_captures(tmp_path / "out", tmp_path / "pipe.ndjson")


def test_an_empty_name_is_refused(tmp_path: Path) -> None:
    capture = lines(tmp_path / "a.ndjson", snapshot(A, 1))
    with pytest.raises(ConfigError, match="naming a recording ''"):
        import_captures(tmp_path / "out", capture, name="")


def test_a_name_that_another_recording_has_is_refused(tmp_path: Path) -> None:
    import_captures(tmp_path / "out", lines(tmp_path / "a.ndjson", snapshot(A, 1)), name="x")
    with pytest.raises(ConfigError, match="the name x is taken by another recording"):
        import_captures(tmp_path / "out", lines(tmp_path / "b.ndjson", snapshot(A, 2)), name="x")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"markets":[]}'),
        ("a.json", '{"frames":[]}'),
        ("a.ndjson", ""),
        ("a.ndjson", "junk\n"),
        ("a.csv", '{"type":"x","msg":{}}'),
    ],
)
def test_what_is_no_capture_is_told_with_the_forms_that_are_known(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match="has no file of a known form"):
        find_captures(tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        find_captures(tmp_path / "absent")
