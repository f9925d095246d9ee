"""Lists of order events give back their stream."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bellwether.errors import LakeError
from bellwether.recordings.capture_import import import_captures
from bellwether.recordings.recording import Recording
from tests.unit.recordings.book_replay import check_books

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


def frames(recording: Recording) -> list[dict[str, Any]]:
    return [json.loads(frame.data) for frame in recording.frames()]


def deltas(recording: Recording) -> list[tuple[str, str, str]]:
    found = (frame["msg"] for frame in frames(recording) if frame["type"] == "orderbook_delta")
    return [(body["side"], body["price_dollars"], body["delta_fp"]) for body in found]


def test_rows_of_one_instant_are_a_snapshot_and_later_ones_change_levels(tmp_path: Path) -> None:
    recording = imported(tmp_path, *BOOK, order("03.25", "Cancel", 4, "A", "2", "6500.0"), order("04", "Insert", 5, "B", "7", "4100.0"))
    first = frames(recording)[0]
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
    trades = [frame for frame in frames(recording) if frame["type"] == "trade"]
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
    assert (check.is_sound, check["passing"], gaps.lost, check.books["apr-10-1"].no.levels) == (True, 0, 0, {300_000: 5000})


def test_an_order_for_more_than_the_other_side_shows_is_no_fill(tmp_path: Path) -> None:
    recording = imported(
        tmp_path, *BOOK, order("03.001", "Insert", 9, "A", "501", "4000.0"), order("03.002", "Cancel", 10, "B", "500", "4000.0")
    )
    assert deltas(recording) == [("no", "0.6000", "501.00"), ("yes", "0.4000", "-500.00")]
    assert not [frame for frame in frames(recording) if frame["type"] == "trade"]


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
    assert [frame["type"] for frame in frames(recording)] == ["orderbook_snapshot", "orderbook_delta"]
    assert frames(recording)[0]["msg"] == {"market_ticker": "apr-10-1"}


def test_instrument_0_is_the_underlying_and_each_other_one_a_market(tmp_path: Path) -> None:
    other = [row.replace(",1,A,", ",2,A,").replace(",1,B,", ",2,B,") for row in BOOK]
    recording = imported(tmp_path, tick("00.945899", "4079.3899"), *BOOK, *other, tick("05", "4080.0"), name="apr-11.csv.gz")
    assert recording.about.tickers == ("apr-11-1", "apr-11-2")
    assert [frame["msg"] for frame in frames(recording) if frame["type"] == "reference_price"] == [
        {"name": "SPX", "value": "4079.3899"},
        {"name": "SPX", "value": "4080.0"},
    ]
    assert next(recording.frames()).received_at == 1681133460945899000


def test_prices_between_cents_and_parts_of_contracts_stay_what_they_are(tmp_path: Path) -> None:
    recording = imported(tmp_path, *BOOK, order("03", "Insert", 9, "B", "1.25", "3705.0"))
    assert deltas(recording) == [("yes", "0.3705", "1.25")]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (order("03", "Amend", 9, "B", "1", "3700.0"), "row 6 has Operation 'Amend'"),
        (order("03", "Insert", 9, "C", "1", "3700.0"), "row 6 has Side 'C'"),
        (order("03", "Insert", 9, "B", "some", "3700.0"), "row 6 has Volume 'some'"),
        (order("03", "Insert", 9, "B", "-1", "3700.0"), "row 6 has Volume '-1'"),
        (order("03", "Insert", 9, "B", "1", "NaN"), "row 6 has Price 'NaN'"),
        (tick("03", ""), "row 6 has Price ''"),
        (order("99", "Insert", 9, "B", "1", "3700.0"), "row 6 has Time"),
        (order("03", "Insert", 9, "B", "1", "3700.0").replace("+00:00", ""), "row 6 has Time"),
    ],
)
def test_rows_that_cannot_be_read_are_named(tmp_path: Path, row: str, said: str) -> None:
    with pytest.raises(LakeError, match=said):
        imported(tmp_path, *BOOK, row)
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
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "stream.ndjson").write_text("\n\n".join(map(json.dumps, said)) + "\n")
    [recording] = import_captures(tmp_path / "out", tmp_path / "in")
    assert (recording.name, recording.about.source, recording.about.partial) == ("stream", "import: stream file", False)
    assert [frame.connection for frame in recording.frames()] == [1, 1, 1, 1, 1, 2]
    assert frames(recording) == said
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
