"""Import of captures in three formats gives the files of the own recorder."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from bellwether.errors import ConfigError, LakeError
from bellwether.recordings.captures import find_captures, import_captures
from bellwether.recordings.gaps import build_gap_report
from bellwether.recordings.recording import Recording, RecordingStatus
from tests.unit.recordings.book_replay import check_books
from tests.unit.venues.stream_peer import A, B, delta, snapshot, trade

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


@pytest.mark.parametrize("seed", range(4))
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
    with pytest.raises(ConfigError, match="2 captures"):
        import_captures(tmp_path / "out", tmp_path / "in", name="both")
    assert [recording.name for recording in import_captures(tmp_path / "out", tmp_path / "in")] == ["KXONE-26NOV21", "KXTWO-26NOV22"]
    [named] = import_captures(tmp_path / "out", tmp_path / "in" / "a.ndjson", name="one")
    assert named.name == "one"


def test_a_file_that_is_cut_off_is_named(tmp_path: Path) -> None:
    path = lines(tmp_path / "in" / "a.ndjson.gz", *[delta(A, seq, **at(seq % 60)) for seq in range(1, 3000)])
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(LakeError, match=r"a\.ndjson\.gz"):
        import_captures(tmp_path / "out", tmp_path / "in")
    assert list((tmp_path / "out").iterdir()) == []


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


def test_a_confirmation_that_was_written_late_divides_no_subscription(tmp_path: Path) -> None:
    book, change = snapshot(A, 0)["msg"], delta(A, 0, **at(1))["msg"]
    lines(tmp_path / "in" / "a.ndjson", *[wrapped("ws_connected", ns, {}) for ns in (10, 50)])
    lines(tmp_path / "in" / "b.ndjson", wrapped("ws_subscribed", 40, subscribed("orderbook_delta", 2)))
    lines(tmp_path / "in" / "c.ndjson", wrapped("orderbook_snapshot", 20, book, number=1))
    lines(tmp_path / "in" / "d.ndjson", wrapped("orderbook_delta", 30, change, number=2), wrapped("orderbook_delta", 45, change, number=3))
    lines(tmp_path / "in" / "e.ndjson", wrapped("trade", 30, {"market_ticker": A}, number=1, channel="trade"))
    [recording] = import_captures(tmp_path / "out", tmp_path / "in")
    found = [json.loads(data) for data in bodies(recording)]
    sids = {body["type"]: body["sid"] for body in found if "seq" in body}
    assert sids["orderbook_snapshot"] == sids["orderbook_delta"] != sids["trade"]
    check, gaps = check_books(recording)
    assert (gaps.lost, check["deltas"], check["unapplied"]) == (0, 2, 0)


def test_a_wrapped_event_that_lacks_something_names_file_and_record(tmp_path: Path) -> None:
    for missing in ("local_recv_ns", "payload_json", "event_type"):
        event = wrapped("trade", 6, {})
        del event[missing]
        lines(tmp_path / missing / "p.ndjson", wrapped("trade", 5, {}), event)
        with pytest.raises(LakeError, match=rf"p\.ndjson: record 2.*{missing}"):
            import_captures(tmp_path / "out", tmp_path / missing)


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


def test_what_cannot_be_imported_is_refused(tmp_path: Path) -> None:
    capture = lines(tmp_path / "a.ndjson", snapshot(A, 1))
    os.mkfifo(tmp_path / "pipe.ndjson")
    with pytest.raises(ConfigError):
        import_captures(tmp_path / "out", tmp_path / "pipe.ndjson")
    with pytest.raises(ConfigError):
        import_captures(tmp_path / "out", capture, name="")
    import_captures(tmp_path / "out", capture, name="x")
    with pytest.raises(ConfigError, match="x is taken"):
        import_captures(tmp_path / "out", lines(tmp_path / "b.ndjson", snapshot(A, 2)), name="x")
    with pytest.raises(ConfigError):
        find_captures(tmp_path / "absent")
    for number, (name, text) in enumerate(
        [
            ("a.json", '{"markets":[]}'),
            ("a.json", '{"frames":[]}'),
            ("a.ndjson", ""),
            ("a.ndjson", "junk\n"),
            ("a.csv", '{"type":"x","msg":{}}'),
        ]
    ):
        folder = tmp_path / f"unknown {number}"
        folder.mkdir()
        (folder / name).write_text(text)
        with pytest.raises(ConfigError):
            find_captures(folder)


# Lists of order events


HEAD = "Time,Competitor,Operation,OrderId,Instrument,Side,Volume,Price,Lifespan,Fee\n"
DAY = "2023-04-10 13:31:"


def order(second: str, operation: str, number: int, side: str, volume: str, price: str, instrument: str = "1") -> str:
    return f"{DAY}{second}+00:00,,{operation},{number},{instrument},{side},{volume},{price},G,0\n"


def tick(second: str, price: str) -> str:
    return f"{DAY}{second}+00:00,,,,0,,,{price},,\n"


#: Bids at 36 and 40 cents, asks at 65 and 70 cents.
BOOK = [
    order("02.5", "Insert", 3, "A", "50", "7000.0"),
    order("02.5", "Insert", 2, "A", "2", "6500.0"),
    order("02.5", "Insert", 0, "B", "600", "3600.0"),
    order("02.5", "Insert", 1, "B", "500", "4000.0"),
]


def listed(folder: Path, *rows: str, name: str = "apr-10.csv", head: str = HEAD) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = (head + "".join(rows)).encode()
    (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return folder


def imported(tmp_path: Path, *rows: str, name: str = "apr-10.csv") -> Recording:
    [recording] = import_captures(tmp_path / "out", listed(tmp_path / "in", *rows, name=name))
    return recording


def messages_of(recording: Recording) -> list[dict[str, Any]]:
    return [json.loads(frame.data) for frame in recording.frames()]


def deltas(recording: Recording) -> list[tuple[str, str, str]]:
    found = (frame["msg"] for frame in messages_of(recording) if frame["type"] == "orderbook_delta")
    return [(body["side"], body["price_dollars"], body["delta_fp"]) for body in found]


def test_rows_of_one_instant_are_a_snapshot_and_later_ones_change_levels(tmp_path: Path) -> None:
    recording = imported(tmp_path, *BOOK, order("03.25", "Cancel", 4, "A", "2", "6500.0"), order("04", "Insert", 5, "B", "7", "4100.0"))
    first = messages_of(recording)[0]
    assert first == {
        "type": "orderbook_snapshot",
        "sid": 1,
        "seq": 1,
        "msg": {
            "market_ticker": "apr-10-1",
            "yes_dollars_fp": [["0.3600", "600.00"], ["0.4000", "500.00"]],
            "no_dollars_fp": [["0.3000", "50.00"], ["0.3500", "2.00"]],
        },
    }
    assert deltas(recording) == [("no", "0.3500", "-2.00"), ("yes", "0.4100", "7.00")]
    assert [frame.received_at for frame in recording.frames()] == [1681133462500000000, 1681133463250000000, 1681133464000000000]
    about = recording.about
    assert (recording.name, about.source, about.partial) == ("apr-10", "import: order events", False)
    assert (about.events, about.tickers, about.channels) == (("apr-10",), ("apr-10-1",), ("orderbook_delta",))


def test_an_order_at_a_price_that_the_other_side_shows_is_a_fill_of_it(tmp_path: Path) -> None:
    recording = imported(tmp_path, *BOOK, order("03", "Insert", 9, "A", "120", "4000.0"), order("04", "Insert", 10, "B", "2", "6500.0"))
    assert deltas(recording) == [("yes", "0.4000", "-120.00"), ("no", "0.3500", "-2.00")]
    trades = [frame for frame in messages_of(recording) if frame["type"] == "trade"]
    assert [(one["sid"], one["seq"], one["msg"]["taker_side"], one["msg"]["yes_price_dollars"]) for one in trades] == [
        (2, 1, "no", "0.4000"),
        (2, 2, "yes", "0.6500"),
    ]
    assert trades[0]["msg"] == {
        "trade_id": "apr-10-1-9",
        "market_ticker": "apr-10-1",
        "yes_price_dollars": "0.4000",
        "no_price_dollars": "0.6000",
        "count_fp": "120.00",
        "taker_side": "no",
    }
    check, gaps = check_books(recording)
    assert (check.is_sound, gaps.lost, check.books["apr-10-1"].no.levels) == (True, 0, {300_000: 5000})


def test_an_order_for_more_than_the_other_side_shows_is_no_fill(tmp_path: Path) -> None:
    recording = imported(
        tmp_path, *BOOK, order("03.001", "Insert", 9, "A", "501", "4000.0"), order("03.002", "Cancel", 10, "B", "500", "4000.0")
    )
    assert deltas(recording) == [("no", "0.6000", "501.00"), ("yes", "0.4000", "-500.00")]
    assert not [frame for frame in messages_of(recording) if frame["type"] == "trade"]


def test_a_later_snapshot_is_of_a_new_connection(tmp_path: Path) -> None:
    later = [row.replace(f"{DAY}02.5", f"{DAY}09.5") for row in BOOK]
    recording = imported(tmp_path, *BOOK, order("03", "Insert", 9, "B", "1", "3700.0"), *later)
    assert [(frame.connection, json.loads(frame.data)["seq"]) for frame in recording.frames()] == [(1, 1), (1, 2), (2, 1)]
    _, gaps = check_books(recording)
    assert (gaps.lost, [outage.cause for outage in gaps.outages]) == (0, ["break"])


def test_two_changes_of_one_instant_are_no_snapshot(tmp_path: Path) -> None:
    recording = imported(tmp_path, *BOOK, order("03", "Insert", 9, "B", "1", "3700.0"), order("03", "Insert", 10, "A", "1", "7100.0"))
    assert deltas(recording) == [("yes", "0.3700", "1.00"), ("no", "0.2900", "1.00")]


def test_a_list_without_a_snapshot_begins_with_an_empty_book(tmp_path: Path) -> None:
    recording = imported(tmp_path, order("03", "Insert", 0, "B", "1", "3700.0"))
    assert [frame["type"] for frame in messages_of(recording)] == ["orderbook_snapshot", "orderbook_delta"]
    assert messages_of(recording)[0]["msg"] == {"market_ticker": "apr-10-1"}


def test_instrument_0_is_the_underlying_and_each_other_one_a_market(tmp_path: Path) -> None:
    other = [row.replace(",1,A,", ",2,A,").replace(",1,B,", ",2,B,") for row in BOOK]
    recording = imported(tmp_path, tick("00.945899", "4079.3899"), *BOOK, *other, tick("05", "4080.0"), name="apr-11.csv.gz")
    assert recording.about.tickers == ("apr-11-1", "apr-11-2")
    assert [frame["msg"] for frame in messages_of(recording) if frame["type"] == "reference_price"] == [
        {"name": "SPX", "value": "4079.3899"},
        {"name": "SPX", "value": "4080.0"},
    ]
    assert next(recording.frames()).received_at == 1681133460945899000


def test_prices_between_cents_and_parts_of_contracts_stay_what_they_are(tmp_path: Path) -> None:
    recording = imported(tmp_path, *BOOK, order("03", "Insert", 9, "B", "1.25", "3705.0"))
    assert deltas(recording) == [("yes", "0.3705", "1.25")]


def test_rows_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    good = order("03", "Insert", 9, "B", "1", "3700.0")
    for number, (row, field) in enumerate(
        [
            (good.replace("Insert", "Amend"), "Operation"),
            (good.replace(",B,", ",C,"), "Side"),
            (order("03", "Insert", 9, "B", "some", "3700.0"), "Volume"),
            (order("03", "Insert", 9, "B", "-1", "3700.0"), "Volume"),
            (order("03", "Insert", 9, "B", "1", "NaN"), "Price"),
            (tick("03", ""), "Price"),
            (order("99", "Insert", 9, "B", "1", "3700.0"), "Time"),
            (good.replace("+00:00", ""), "Time"),
        ]
    ):
        with pytest.raises(LakeError, match=f"row 6 has {field}"):
            import_captures(tmp_path / "out", listed(tmp_path / str(number), *BOOK, row))
        assert not (tmp_path / "out" / "apr-10").exists()


def test_a_file_of_a_whole_stream_keeps_its_order_and_shows_what_was_lost(tmp_path: Path) -> None:
    said = [
        {"type": "subscribed", "id": 1, "msg": {"channel": "orderbook_delta", "sid": 1}},
        *({"type": "orderbook_snapshot", "sid": 1, "seq": seq, "msg": {"market_ticker": f"KXONE-1-{seq}"}} for seq in (1, 2)),
        *(
            {
                "type": "orderbook_delta",
                "sid": 1,
                "seq": seq,
                "msg": {"market_ticker": "KXONE-1-1", "price_dollars": "0.4", "delta_fp": "1", "side": "yes"},
            }
            for seq in (3, 5)
        ),
        {"type": "orderbook_snapshot", "sid": 1, "seq": 1, "msg": {"market_ticker": "KXONE-1-1"}},
        {"type": "orderbook_snapshot", "sid": 1, "seq": 2, "msg": {"market_ticker": "KXONE-1-2"}},
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "stream.ndjson").write_text("\n\n".join(map(json.dumps, said)) + "\n")
    [recording] = import_captures(tmp_path / "out", tmp_path / "in")
    assert (recording.name, recording.about.source, recording.about.partial) == ("stream", "import: stream file", False)
    assert [frame.connection for frame in recording.frames()] == [1, 1, 1, 1, 1, 2, 2]
    assert messages_of(recording) == said
    _, gaps = check_books(recording)
    assert (gaps.lost, sorted({outage.cause for outage in gaps.outages})) == (1, ["gap"])


def test_files_of_one_name_in_many_folders_are_told_apart(tmp_path: Path) -> None:
    event = {
        "event_type": "ticker",
        "payload_json": {"market_ticker": "KXONE-1-1"},
        "local_recv_ns": 1,
        "sequence_number": None,
        "dataset_tag": "t",
    }
    for kind in ("a", "b"):
        path = tmp_path / "in" / kind / "part.ndjson"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(event) + "\n")
    [recording] = import_captures(tmp_path / "out", tmp_path / "in")
    assert sorted(recording.about.capture or {}) == ["a/part.ndjson", "b/part.ndjson"]
