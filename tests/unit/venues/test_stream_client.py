"""The WebSocket client against a server that loses frames, stays silent, disconnects and refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest

from bellwether.errors import ConfigError, VenueError
from bellwether.venues.kalshi.stream.client import KalshiStream, StreamTimeouts
from bellwether.venues.kalshi.stream.frame import COMBO_LIFECYCLE, DELTA, LIFECYCLE, TICKER, TRADE, Frame, StreamStart, StreamSubscription
from tests.unit.venues.stream_peer import CALM, CREDENTIALS, FAST, A, B, Peer, Venue, delta, lifecycle, snapshot, trade, venue

COMBO = "KXMVESPORTSMULTIGAMEEXTENDED-S2026ABC-DEF"
ALL = (DELTA, TRADE, LIFECYCLE)
BRISK = StreamTimeouts(quiet=0.2, answer=1.0, first=FAST, again=FAST)


async def take(stream: KalshiStream, wanted: int) -> list[Frame]:
    """Return the next frames, and close the stream."""
    found: list[Frame] = []
    async with asyncio.timeout(300), aclosing(stream.frames()) as frames:
        async for frame in frames:
            found.append(frame)
            if len(found) == wanted:
                break
    return found


async def drain(stream: KalshiStream) -> list[Frame]:
    """Return all frames of a stream that the server ends."""
    async with asyncio.timeout(300):
        return [frame async for frame in stream.frames()]


def kinds(frames: list[Frame]) -> list[str]:
    return [json.loads(frame.data)["type"] for frame in frames]


def play(*frames: Any) -> Any:
    """Return a script that confirms one subscribe command, sends these frames and stays connected."""

    async def script(peer: Peer) -> None:
        await peer.confirm()
        await peer.send(*frames)
        await peer.until_gone()

    return script


async def test_frames_come_verbatim_in_order_with_time_connection_and_ordinal() -> None:
    odd = '{ "type":"novelty" , "more":[1,2] }'

    async def script(peer: Peer) -> None:
        await peer.confirm()
        await peer.send(snapshot(A, 1), delta(A, 2))
        await peer.socket.send(odd)
        await peer.socket.send(b'{"type":"binary"}')
        await peer.until_gone()

    async with venue(script) as place:
        times = iter(range(100, 200))
        frames = await take(place.stream(start=StreamStart(4, 70), clock=lambda: next(times)), 6)
    assert [frame.ordinal for frame in frames] == list(range(70, 76))
    assert {frame.connection for frame in frames} == {4}
    assert [frame.received_at for frame in frames] == list(range(100, 106))
    assert [frame.data for frame in frames[4:]] == [odd.encode(), b'{"type":"binary"}']
    assert kinds(frames) == ["subscribed", "subscribed", "orderbook_snapshot", "orderbook_delta", "novelty", "binary"]


async def test_a_skipped_number_asks_for_the_books() -> None:
    async def script(peer: Peer) -> None:
        await peer.confirm()
        await peer.send(snapshot(A, 1), snapshot(B, 2), delta(A, 3), delta(A, 5))
        asked = await peer.read()
        assert (asked["cmd"], asked["params"]["action"], asked["params"]["sids"]) == ("update_subscription", "get_snapshot", [1])
        assert asked["params"]["market_tickers"] == [A, B]
        await peer.send(snapshot(A, 6) | {"id": asked["id"]}, snapshot(B, 7) | {"id": asked["id"]}, delta(B, 8), delta(B, 10))
        await peer.read()
        await peer.send(trade(A, 1))
        await peer.until_gone()

    async with venue(script) as place:
        stream = place.stream(tickers=(A, B))
        frames = await take(stream, 11)
    assert kinds(frames)[-1] == "trade"
    assert (stream.gaps, stream.connections) == (2, 1)


@pytest.mark.parametrize("code", [13, 7, 27])
async def test_where_books_cannot_be_requested_the_client_opens_a_new_connection(code: int) -> None:
    async def refusing(peer: Peer) -> None:
        await peer.confirm()
        await peer.send(snapshot(A, 1), delta(A, 3))
        asked = await peer.read()
        await peer.send({"id": asked["id"], "type": "error", "msg": {"code": code, "msg": "no"}})
        await peer.until_gone()

    async with venue(refusing, play(snapshot(A, 1), trade(A, 1))) as place:
        stream = place.stream(patience=BRISK)
        async with asyncio.timeout(300), aclosing(stream.frames()) as source:
            frame = await anext(frame async for frame in source if frame.connection == 2 and json.loads(frame.data)["type"] == "trade")
    assert frame.connection == 2


async def test_books_that_never_come_end_in_a_new_connection() -> None:
    async def deaf(peer: Peer) -> None:
        await peer.confirm()
        await peer.send(snapshot(A, 1), delta(A, 3))
        while True:
            command = await peer.read()
            if command["cmd"] == "list_subscriptions":
                await peer.send({"id": command["id"], "type": "ok", "msg": []})

    async with venue(deaf, play(snapshot(A, 1), trade(A, 1))) as place:
        stream = place.stream(patience=BRISK)
        async with asyncio.timeout(300), aclosing(stream.frames()) as source:
            await anext(frame async for frame in source if frame.connection == 2 and json.loads(frame.data)["type"] == "trade")
    asked = [command["cmd"] for command in place.commands if command["cmd"] != "list_subscriptions"]
    assert asked == ["subscribe", "update_subscription", "subscribe"]


async def test_lost_lifecycle_messages_open_a_new_connection_and_ask_which_markets_have_ended() -> None:
    asked: list[list[str]] = []

    async def over_among(tickers: Sequence[str]) -> set[str]:
        asked.append(list(tickers))
        return {A, B}

    async def script(peer: Peer) -> None:
        await peer.confirm(2)
        await peer.send(lifecycle(B, 2, "activated"))
        await peer.until_gone()

    async with venue(script) as place:
        stream = place.stream(tickers=(A, B), channels=ALL, over_among=over_among)
        await drain(stream)
    assert asked == [[A, B]]
    assert (stream.connections, stream.gaps, stream.open) == (2, 1, set())


async def test_a_broken_connection_is_opened_anew_and_subscribed_again() -> None:
    async def broken(peer: Peer) -> None:
        await peer.confirm()
        await peer.send(snapshot(A, 1), delta(A, 2))
        peer.socket.transport.abort()

    async def closed(peer: Peer) -> None:
        await peer.confirm()
        await peer.send(snapshot(A, 1))
        await peer.socket.close(1012, "maintenance")

    async with venue(broken, closed, play(snapshot(A, 1), delta(A, 2), delta(A, 3))) as place:
        frames = []
        stream = place.stream()
        async with asyncio.timeout(300), aclosing(stream.frames()) as source:
            async for frame in source:
                frames.append(frame)
                if frame.connection == 3 and len([f for f in frames if f.connection == 3]) == 5:
                    break
    assert [frame.ordinal for frame in frames] == list(range(len(frames)))
    assert kinds([frame for frame in frames if frame.connection == 3])[2:] == ["orderbook_snapshot", "orderbook_delta", "orderbook_delta"]
    assert place.sent("subscribe") == [{"channels": [DELTA, TRADE], "market_tickers": [A], "use_yes_price": True}] * 3


async def test_a_connection_that_only_answers_pings_is_replaced() -> None:
    async with venue(play(snapshot(A, 1)), play(snapshot(A, 1), trade(A, 1))) as place:
        frames = await take(place.stream(patience=BRISK), 7)
    assert [frame.connection for frame in frames] == [1, 1, 1, 2, 2, 2, 2]
    assert "list_subscriptions" in [command["cmd"] for command in place.commands]


async def test_a_quiet_market_is_no_broken_connection() -> None:
    probes = 0

    async def quiet(peer: Peer) -> None:
        nonlocal probes
        await peer.confirm()
        while probes < 3:
            command = await peer.read()
            assert command["cmd"] == "list_subscriptions"
            probes += 1
            await peer.send({"id": command["id"], "type": "ok", "msg": []})
        await peer.send(trade(A, 1))
        await peer.until_gone()

    async with venue(quiet) as place:
        patience = StreamTimeouts(quiet=0.05, answer=20.0, first=FAST, again=FAST)
        frames = await take(place.stream(patience=patience), 6)
    assert kinds(frames)[2:] == ["ok", "ok", "ok", "trade"]
    assert place.connections == 1


EXPIRED = '{"error":{"code":"authentication_error","message":"TIMESTAMP_EXPIRED"}}'


@pytest.mark.parametrize(("status", "kind"), [(401, "authentication"), (403, "authentication"), (404, "not found"), (400, "refused")])
async def test_a_refused_handshake_is_final_and_tells_call_attempts_and_cause_but_no_secret(status: int, kind: str) -> None:
    async with venue(play(), refusals=((503, "busy"), (status, EXPIRED))) as place:
        with pytest.raises(VenueError) as caught:
            await drain(place.stream())
    error = caught.value
    assert (error.kind, error.attempts, error.call) == (kind, 2, "GET /trade-api/ws/v2 (WebSocket)")
    assert "TIMESTAMP_EXPIRED" in str(error)
    assert "the-key-id" not in str(error)
    signature = place.handshakes[0].headers["KALSHI-ACCESS-SIGNATURE"]
    assert signature not in str(error)


async def test_a_redirection_is_a_refusal_and_no_other_host_sees_the_key() -> None:
    async with venue(play(snapshot(A, 1))) as other, venue(play(), refusals=((302, "moved"),), elsewhere=other.url) as place:
        with pytest.raises(VenueError, match="HTTP 302") as caught:
            await drain(place.stream())
    assert caught.value.kind == "refused"
    assert other.handshakes == []


@pytest.mark.parametrize(("code", "kind"), [(8, "refused"), (11, "refused"), (14, "refused"), (9, "authentication")])
async def test_a_refused_subscription_is_final(code: int, kind: str) -> None:
    async def script(peer: Peer) -> None:
        command = await peer.read()
        await peer.send({"id": command["id"], "type": "error", "msg": {"code": code, "msg": "Words of the venue"}})
        await peer.until_gone()

    async with venue(script) as place:
        with pytest.raises(VenueError, match=f"error {code}: Words of the venue") as caught:
            await drain(place.stream())
    assert caught.value.kind == kind
    assert caught.value.call == "subscribe to orderbook_delta, trade for 1 markets"


def error(code: object, **envelope: Any) -> dict[str, Any]:
    return {"type": "error", **envelope, "msg": {"code": code, "msg": "Subscription buffer overflow"}}


@pytest.mark.parametrize(
    "end",
    [
        error(10),
        error(25, sid=1),
        error(25, sid=1, seq=2),
        error(10, sid=2, seq=1),
        error(99, sid=1, seq=2),
        {"type": "unsubscribed", "sid": 1, "seq": 2},
        {"type": "unsubscribed", "msg": {"sid": 1}},
    ],
)
async def test_the_end_of_a_subscription_is_a_gap_and_begins_a_new_connection(end: dict[str, Any]) -> None:
    async with venue(play(snapshot(A, 1), end), play(snapshot(A, 1))) as place:
        stream = place.stream()
        frames = await take(stream, 7)
    assert [frame.connection for frame in frames] == [1, 1, 1, 1, 2, 2, 2]
    assert stream.gaps == 1


@pytest.mark.parametrize("refusal", [error(27, sid=1, seq=2), error(7, id=9), error(25, id=9), error(99), error([])])
async def test_an_error_that_ends_no_subscription_changes_nothing(refusal: dict[str, Any]) -> None:
    async with venue(play(snapshot(A, 1), refusal, trade(A, 1))) as place:
        stream = place.stream()
        frames = await take(stream, 5)
    assert kinds(frames)[-2:] == ["error", "trade"]
    assert (stream.gaps, stream.connections) == (0, 1)


async def test_it_ends_when_every_market_is_determined_or_settled() -> None:
    frames = (
        lifecycle("KXOTHER-1", 1, "settled"),
        lifecycle(A, 2, "activated"),
        lifecycle(A, 3, "determined", result="yes"),
        lifecycle(B, 4, "settled"),
        lifecycle(COMBO, 1, "settled", sid=4) | {"type": COMBO_LIFECYCLE},
    )

    async def script(peer: Peer) -> None:
        await peer.confirm(2)
        await peer.send(*frames)
        await peer.until_gone()

    async with venue(script) as place:
        stream = place.stream(tickers=(A, B, COMBO), channels=ALL)
        found = await drain(stream)
    assert kinds(found)[-1] == COMBO_LIFECYCLE
    assert len(found) == 9
    assert not stream.open


CLOSE = datetime(2026, 11, 21, 12, tzinfo=UTC)
BEFORE, AFTER = int(CLOSE.timestamp() * 1000) - 1000, int(CLOSE.timestamp() * 1000)


@pytest.mark.parametrize(
    ("steps", "ends"),
    [
        ([("deactivated", BEFORE, {})], False),
        ([("deactivated", AFTER, {})], True),
        ([("close_date_updated", BEFORE, {"close_ts": BEFORE // 1000}), ("deactivated", BEFORE, {})], True),
        ([("close_date_updated", BEFORE, {"close_ts": AFTER // 1000 + 60}), ("deactivated", AFTER, {})], False),
    ],
)
async def test_a_pause_is_no_end_but_a_deactivation_from_the_close_on_is(steps: list[tuple[str, int, Any]], ends: bool) -> None:
    frames = [lifecycle(A, number, kind, **body) | {"sending_ts_ms": at} for number, (kind, at, body) in enumerate(steps, 1)]

    async def script(peer: Peer) -> None:
        await peer.confirm(2)
        await peer.send(*frames, trade(A, 1))
        await peer.until_gone()

    async with venue(script) as place:
        stream = place.stream(channels=ALL, closes={A: CLOSE})
        await take(stream, 3 + len(frames) + 1)
    assert (stream.open == set()) is ends


async def test_to_be_cancelled_closes_the_connection() -> None:
    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.confirm()
        try:
            await peer.until_gone()
        finally:
            gone.set()

    async with venue(script) as place:
        heard = asyncio.Event()

        async def listen() -> None:
            async for _ in place.stream(patience=CALM).frames():
                heard.set()

        task = asyncio.create_task(listen())
        async with asyncio.timeout(300):
            await heard.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await gone.wait()


def test_what_tells_of_all_markets_is_asked_for_without_markets() -> None:
    assert StreamSubscription((A, B), (DELTA, TICKER, LIFECYCLE)).subscriptions() == [
        {"channels": [DELTA, TICKER], "market_tickers": [A, B], "use_yes_price": True},
        {"channels": [LIFECYCLE]},
    ]
    for tickers, channels in (((COMBO,), [COMBO_LIFECYCLE]), ((A, COMBO), [LIFECYCLE, COMBO_LIFECYCLE]), ((A,), [LIFECYCLE])):
        assert StreamSubscription(tickers).subscriptions()[1:] == [{"channels": channels}]


async def test_the_handshake_is_signed_and_asks_for_no_compression() -> None:
    async with venue(play(snapshot(A, 1))) as place:
        await take(place.stream(), 3)
    sent = place.handshakes[0].headers
    assert sent["KALSHI-ACCESS-KEY"] == "the-key-id"
    assert sent["KALSHI-ACCESS-SIGNATURE"]
    assert "Sec-WebSocket-Extensions" not in sent


async def test_what_cannot_be_listened_to_is_refused_without_its_password() -> None:
    place = Venue()
    place.url = "ws://127.0.0.1:1/x"
    for given in ({"channels": ("nothing",)}, {"channels": ()}, {"tickers": ()}):
        with pytest.raises(ConfigError, match="listening to Kalshi"):
            place.stream(**given)
    for address in ("https://name:SECRET@venue.example/x", "name:SECRET@venue.example", "ws://name:SECRET@venue.example/x#part"):
        with pytest.raises(ConfigError, match=r"venue\.example.*kalshi_stream_url") as caught:
            await anext(KalshiStream(address, CREDENTIALS, StreamSubscription((A,))).frames())
        assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("end", ["closes at once", "stays busy", "nobody"])
async def test_a_venue_that_does_not_serve_fails_within_bounds(end: str) -> None:
    async def rude(peer: Peer) -> None:
        await peer.confirm()
        await peer.socket.close(1008, "go away")

    refusals = ((429, '{"error":"too many requests"}'),) * 9 if end == "stays busy" else ()
    async with venue(rude, refusals=refusals) as place:
        stream = place.stream()
        if end != "nobody":
            with pytest.raises(VenueError, match=r"1008 .*go away|HTTP 429: too many requests") as caught:
                await drain(stream)
    if end == "nobody":
        with pytest.raises(VenueError) as caught:
            await drain(stream)
    assert (caught.value.kind, caught.value.attempts) == ("rate limit" if end == "stays busy" else "connection", 5)
