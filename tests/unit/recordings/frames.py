"""Frames and recordings for tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from bellwether.recordings.recorder import Recorder
from bellwether.recordings.recording import Recording, RecordingRequest
from bellwether.venues.kalshi.stream.frame import Frame
from tests.unit.venues.stream_peer import A, B

ABOUT = RecordingRequest("kalshi", "websocket", ("KXONE-26NOV21",), (A, B), ("orderbook_delta", "trade"), "bellwether test")
PARTIAL = RecordingRequest("kalshi", "import", ("KXONE-26NOV21",), (A, B), ("orderbook_delta", "trade"), "bellwether test", partial=True)
SECOND = 1_000_000_000


def frames(*bodies: dict[str, Any] | bytes, connection: int = 1, first: int = 0) -> list[Frame]:
    """Return frames a second apart, as compact JSON."""
    texts = [body if isinstance(body, bytes) else orjson.dumps(body) for body in bodies]
    return [Frame((first + place + 1) * SECOND, connection, first + place, text) for place, text in enumerate(texts)]


def recorded(folder: Path, messages: Iterable[Frame], *, about: RecordingRequest = ABOUT, finish: bool = True) -> Recording:
    """Return a recording of these frames."""
    with Recorder(folder, about) as recorder:
        for frame in messages:
            recorder.write(frame)
        if finish:
            recorder.finish("test")
    return Recording(folder)
